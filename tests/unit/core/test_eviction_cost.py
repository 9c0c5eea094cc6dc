"""What the eviction of a part of a job costs: never more than that of the whole job."""

import pytest
from tests.builders import Sketch, group

from bailiff_core.model.state import Eviction, Job
from bailiff_core.victims.objective import eviction_cost


def gang(sketch: Sketch, elastic: str) -> Job:
    """Four tasks of one GPU each, of which it needs one; it runs for an hour."""
    sketch.node("n", gpus=4)
    job = sketch.job("gang", group(count=4, gpus=1))
    job.demand = job.demand.model_copy(update={"min_tasks": 1, "elastic": elastic})
    return sketch.at(job, ("n", [0]), ("n", [1]), ("n", [2]), ("n", [3]))


@pytest.mark.parametrize("gone", ["is being evicted", "has ended"])
def test_if_the_others_restart_for_a_task_their_work_is_lost_but_not_that_of_a_task_which_stops_anyway(gone):
    """It counted as lost with the part, and not with the whole: the rest of the job had a negative price."""
    sketch = Sketch()
    job = gang(sketch, "restart")
    if gone == "has ended":
        job.tasks[3].state = "exited"
    else:
        job.tasks[3].eviction = Eviction(1, "preemption", 30_000_000)
    part = eviction_cost(sketch.state, job, [job.tasks[2]], whole=False)
    whole = eviction_cost(sketch.state, job, job.tasks[:3], whole=True)
    assert part.lost_gpu_ms == whole.lost_gpu_ms == 3 * 61 * 60_000
    assert (part.gpu_milli, whole.gpu_milli) == (1000, 3000)


def test_if_the_others_go_on_only_the_work_of_the_task_is_lost():
    sketch = Sketch()
    job = gang(sketch, "live")
    part = eviction_cost(sketch.state, job, [job.tasks[2]], whole=False)
    assert part.lost_gpu_ms * 4 == eviction_cost(sketch.state, job, job.tasks, whole=True).lost_gpu_ms
