"""What the eviction of a part of a job costs: never more than that of the whole job."""

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.story_script import stories

from bailiff_core.model.state import Eviction, Job
from bailiff_core.victims.objective import eviction_cost

test_what_an_eviction_costs_in_stories = stories("""
members of a gang that ended with 0 start again when it is evicted, and their work counts
    node n1: 2 gpus; runs gang: 2 x 1 gpu; +10m; ends gang task=0; +20m; submit high: interactive, 2 gpus; propose
    => PreemptionDecided victims.0.lost_gpu_ms=3720000 victims.0.restarts=0 victims.0.tasks=""
    begin gang; staged gang term_sent; ends gang code=85 task=1; => JobRequeued gang lost_gpu_ms=3720000

a job that ends for good loses all the work of its attempt, and restarts nothing
    node n1: 1 gpu; runs fin: 1 gpu, on_eviction end; +50m
    submit high: interactive, 1 gpu; propose; => PreemptionDecided victims.0.ends=true victims.0.lost_gpu_ms=3000000
    yields fin; => JobEnded fin outcome=evicted cause=preemption lost_gpu_ms=3000000

a job that restarts to shrink is evicted: once, for what took the others
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic restart; +10m; submit high: interactive, 1 gpu; propose
    => PreemptionDecided victims.0.tasks=3 victims.0.restarts=0-2 victims.0.lost_gpu_ms=2640000 explanation.cost.jobs_stopped=1
    yields wide; => JobRequeued wide cause=preemption lost_gpu_ms=2640000 without=3; decided JobShrunk:; decided MigrationDecided:
    wide.evictions = 1; started wide; wide.running = 0 1 2

it is protected like a job that is evicted whole, one that goes on is not
    rules {protections: {min_runtime: {preempt: 1h}}}; node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic restart; +10m
    submit high: interactive, 1 gpu; propose; => PreemptionRefused reason=impossible; wait 55m; tick; propose
    => PreemptionDecided victims.0.tasks=3

surplus of a job that goes on is not protected
    rules {protections: {min_runtime: {preempt: 1h}}}; node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic live; +10m
    submit high: interactive, 1 gpu; propose; => PreemptionDecided victims.0.tasks=3 victims.0.restarts=""

a restart to shrink is a disruption of its budget
    rules {protections: {budgets: [{name: none, max_disruptions: 0}]}}; node n1: 4 gpus
    runs wide: 4 x 1 gpu, min 2, elastic restart; submit high: interactive, 1 gpu; propose; => PreemptionRefused reason=impossible

several surplus tasks of one job are one disruption
    rules {protections: {budgets: [{name: one, max_disruptions: 1}]}}; node n1: 4 gpus
    runs wide: 4 x 1 gpu, min 2, elastic restart; submit high: interactive, 2 gpus; propose
    => PreemptionDecided victims.0.tasks=2-3
""")


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


def test_of_a_job_that_ends_for_good_saved_work_is_lost_as_well_unless_it_is_moved():
    sketch = Sketch()
    job = gang(sketch, "restart")
    job.demand = job.demand.model_copy(update={"on_eviction": "end"})
    job.last_checkpoint = sketch.state.now - 60_000_000
    whole = eviction_cost(sketch.state, job, job.tasks, whole=True)
    moved = eviction_cost(sketch.state, job, job.tasks, whole=True, moved=True)
    assert (whole.ends, whole.lost_gpu_ms) == (1, 4 * 60 * 60_000)
    assert (moved.ends, moved.lost_gpu_ms) == (0, 4 * 2 * 60_000)
