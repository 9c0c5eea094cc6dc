"""Which nodes and devices a task may use: named nodes, and models of GPUs."""

from tests.builders import Sketch, group, requested_unit

from bailiff_core.placement import GangPlacement, StepBudget, place_unit
from bailiff_core.placement.cluster_resources import is_eligible
from bailiff_core.placement.task_requirements import requirements_of_unit
from bailiff_core.scheduling_snapshot import current_snapshot


def test_a_task_that_names_nodes_runs_on_these_only_full_or_not():
    sketch = Sketch()
    for name in ("n1", "n2", "n3"):
        sketch.node(name, gpus=1)
    sketch.running("other", "n2", [0])
    unit = requested_unit(sketch.job("bound", group(gpus=1, nodes=("n2", "n3"))))
    (need,) = requirements_of_unit(unit)
    nodes = current_snapshot(sketch.state).cluster.nodes.values()
    assert [node.name for node in nodes if is_eligible(need, node)] == ["n2", "n3"]


def test_a_share_is_taken_of_a_device_of_the_model_that_is_already_shared():
    sketch = Sketch()
    sketch.node("n1", gpus=4, models=("a100", "h100"))
    for number in (0, 1):
        half = sketch.job(f"half-{number}", group(gpu_share_milli=500))
        sketch.at(half, ("n1", [number]))
    unit = requested_unit(sketch.job("wants-h100", group(gpu_share_milli=500, gpu_models=("h100",))))
    place = place_unit(current_snapshot(sketch.state).cluster, unit, StepBudget(1000))
    assert isinstance(place, GangPlacement)
    assert [task.devices for task in place.tasks] == [1 << 1]
