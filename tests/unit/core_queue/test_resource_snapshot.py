"""Resources and use are changed together and undone together, each to its own mark."""

from tests.builders import Sketch
from tests.unit.core_protections.kit import rules

from bailiff_core.model.units import whole_job
from bailiff_core.scheduling_snapshot import current_snapshot


def test_what_was_changed_before_the_mark_stays() -> None:
    sketch = Sketch()
    sketch.state.policy = rules(projects=[{"name": "a", "quota": {"gpus": 4}}])
    sketch.node("n", gpus=4)
    units = []
    for number in range(3):
        job = sketch.running(f"j{number}", "n", [number])
        job.project = "a"
        units.append(whole_job(job))
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    node = snapshot.cluster.nodes[0]
    snapshot.cluster.evict(units[0])  # of the resources alone, as a search without limits does
    mark = snapshot.mark()
    snapshot.evict(units[1])
    snapshot.evict(units[2])
    assert (node.future.devices, snapshot.usage.allocated("a").gpu_milli) == (0b1111, 1000)
    snapshot.rollback(mark)
    assert (node.future.devices, snapshot.usage.allocated("a").gpu_milli) == (0b1001, 3000)
