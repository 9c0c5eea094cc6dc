"""Elastic gangs that cannot take another size while they run: they restart together, in place."""

from typing import Any

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.log_builder import GIB, MINUTE, policy
from tests.kits.story_script import play, stories

from bailiff_core.explain.pending import obstacle_sentences
from bailiff_core.explain.victims import preemption_sentences
from bailiff_core.lifecycle.resize import can_restart_in_place
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import Drain

test_resize_in_stories = stories("""
given starts again
    yields wide; => JobRequeued wide cause=resize not_before=0; => JobStarting wide; started wide; wide is running
    wide.evictions = 0; wide.failures = 0

given starts again, evicted
    yields wide; => JobRequeued wide cause=preemption not_before=0; => JobStarting wide; started wide; wide is running
    wide.evictions = 1; wide.failures = 0

given wide
    node n1: 8 gpus; submit wide: 8 x 1 gpu, min 4, elastic restart; started wide; wide is running

all tasks that fit at first start together
    node n1: 6 gpus; submit wide: 8 x 1 gpu, min 4, elastic restart; started wide; wide is running; wide.running = 0 1 2 3 4 5
    wide.attempt = 1

it runs for grow after before it grows again
    rules {restarts: {grow_after: 10m}, preemption: {payback: 2h}}; node n1: 6 gpus
    submit wide: 8 x 1 gpu, min 4, elastic restart; started wide; wide is running; wait 11m; node n2: 1 gpu
    => MigrationDecided wide cause=resize; starts again
    node n3: 1 gpu; => nothing; wait 10m; => MigrationDecided wide cause=resize

it grows where the new GPUs win more within the payback time than the restart loses
    rules {restarts: {grow_after: 0s}}; node n1: 6 gpus; submit wide: 8 x 1 gpu, min 4, elastic restart; started wide
    wide is running; wait 9m; node n2: 1 gpu; => nothing; wait 1h; => nothing; wide.running = 0 1 2 3 4 5
    node n3: 1 gpu; => nothing

what it wins is that of all tasks which fit, and what it loses counts from its checkpoint
    rules {restarts: {grow_after: 0s}}; node n1: 4 gpus; submit wide: 8 x 1 gpu, min 4, elastic restart; started wide
    wide is running; wait 50m; node n2: 3 gpus; => nothing; node n3: 1 gpu
    => MigrationDecided wide cause=resize lost_gpu_ms=12240000

without a payback time it grows whatever the restart loses
    rules {restarts: {grow_after: 0s}, preemption: {payback: null}}; node n1: 6 gpus
    submit wide: 8 x 1 gpu, min 4, elastic restart; started wide; wide is running; wait 50m; node n2: 1 gpu
    => MigrationDecided wide cause=resize

it evicts nobody to grow where that would not pay
    rules {restarts: {grow_after: 0s}}; node n1: 7 gpus
    submit wide: interactive, 8 x 1 gpu, min 4, elastic restart; started wide; wide is running; wait 11m; node n2: 1 gpu
    runs low: 1 gpu; wait 1h; decided PreemptionRequested:; low is running

a decision that grows it names its own restart, and it is dropped where that loses more than it wins by then
    rules {restarts: {grow_after: 0s}}; node n1: 8 gpus; runs low: 1 gpu
    submit wide: interactive, 8 x 1 gpu, min 4, elastic restart; started wide; wide.running = 0 1 2 3 4 5 6; wait 7m
    propose; => PreemptionDecided restart_lost_gpu_ms=3360000 victims.0.lost_gpu_ms=480000
    low is evicting; wide.tasks.7.state = reserved
    +1m; tick; => ReservationDropped wide reason=growth-cost; => EvictionCancelled low; wide.running = 0 1 2 3 4 5 6

two decisions of a selection that take of it restart it once, and the first names all that is lost
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 1, elastic restart; +10m
    submit one: interactive, 1 gpu & two: interactive, 1 gpu; propose
    => PreemptionDecided victims.0.tasks=3 victims.0.lost_gpu_ms=2640000 victims.0.together=true victims.0.restarts=0-2
    => PreemptionDecided victims.0.tasks=2 victims.0.lost_gpu_ms=0 victims.0.together=true victims.0.extends=true
    wide is evicting; wide.eviction.for_job = one; yields wide
    => JobRequeued wide cause=preemption without="2-3" lost_gpu_ms=2640000; => JobStarting wide; wide.evictions = 1
    one is starting; two is starting; started wide; wide.running = 0 1

a second decision that takes its core evicts it whole, once
    node n1: 2 gpus; runs wide: 2 x 1 gpu, min 1, elastic restart; +10m
    submit one: interactive, 1 gpu & two: interactive, 1 gpu; propose
    => PreemptionDecided victims.0.tasks=1 victims.0.lost_gpu_ms=1320000
    => PreemptionDecided victims.0.tasks="" victims.0.lost_gpu_ms=0 victims.0.extends=true victims.0.gpus=1
    yields wide; => JobRequeued wide cause=preemption without="" lost_gpu_ms=1320000; wide is pending; wide.evictions = 1
    one is starting; two is starting

of a job that ends without its core, a second decision takes surplus only
    node n1: 3 gpus; runs wide: 3 x 1 gpu, min 1, elastic restart, on_eviction end; +10m
    submit one: interactive, 1 gpu & two: interactive, 1 gpu & three: interactive, 1 gpu; propose
    one is reserved; two is reserved; three is pending; yields wide; => JobRequeued wide without="1-2"

where the first needs it no more the second still does
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 1, elastic restart; +10m
    submit one: interactive, 1 gpu & two: interactive, 1 gpu; propose; cancel one; wide is evicting; wide.eviction.for_job = two
    yields wide; => JobRequeued wide without="2-3"; two is starting; wide.starting = 0 1 2

where nobody needs it any more its eviction is cancelled
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 1, elastic restart; +10m
    submit one: interactive, 1 gpu & two: interactive, 1 gpu; propose; cancel one; cancel two; => EvictionCancelled wide
    wide.running = 0 1 2 3; wide.evictions = 0

where the second needs it no more the first still does
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 1, elastic restart; +10m
    submit one: interactive, 1 gpu & two: interactive, 1 gpu; propose; cancel two; wide is evicting
    yields wide; => JobRequeued wide without="2-3"; one is starting; wide.starting = 0 1 2

after an eviction of surplus the others restart in place
    wide; submit demo: interactive, 2 gpus; propose; => PreemptionDecided victims.0.together=true; wide is evicting
    starts again, evicted; wide.running = 0 1 2 3 4 5; demo is starting

what takes the others with it can be cancelled as a whole
    wide; submit demo: interactive, 2 gpus; propose; cancel demo; => EvictionCancelled wide tasks=""; wide is running
    wide.running = 0 1 2 3 4 5 6 7; wide.evictions = 0

where it cannot start again in place it is requeued, whatever its on_eviction
    node n1: 4 gpus; node n2: 4 gpus; submit wide: 8 x 1 gpu, min 4, elastic restart, on_eviction end; started wide
    submit demo: interactive, 2 gpus; propose; lost n1; yields wide; => JobRequeued wide; wide.evictions = 1

after a lost member the others restart in place
    wide; vanished wide 7; => JobShrunk wide outcome=lost; => MigrationDecided wide cause=resize
    starts again

scaled down it starts again with what is left
    wide; scale wide 5; starts again; wide.running = 0 1 2 3 4

once a member has succeeded the gang does not restart
    wide; ends wide task=0; vanished wide 7; decided MigrationDecided:

a gang that restarts to shrink loses a member only where no live elastic gang can
    node n1: 8 gpus; runs goes-on: 4 x 1 gpu, min 3, elastic live; runs starts-again: 4 x 1 gpu, min 3, elastic restart; +1m
    submit high: interactive, 1 gpu; propose; => PreemptionDecided victims.*.job=goes-on
""")


def wide(story, gpus=8, **demand):
    """`wide` wants eight one-GPU tasks, needs four, and has as many as the node takes."""
    story.node("n1", gpus=gpus)
    story.submit("wide", gpus=1, tasks=8, min_tasks=4, elastic="restart", **demand)
    story.started("wide")
    assert story.job("wide").phase == "running"


def starts_again(story):
    story.yields("wide")
    requeued = story.expect("JobRequeued", job="wide", cause="resize")
    assert requeued.not_before == 0
    play("=> JobStarting wide; started wide; wide is running; wide.evictions = 0; wide.failures = 0", story=story)


def test_it_grows_by_one_restart_to_all_tasks_that_fit(tell):
    story = tell(policy(restarts={"grow_after": "10m"}))
    wide(story, gpus=6)
    play("node n2: 8 gpus; wide.running = 0 1 2 3 4 5; wait 10m", story=story)
    (again,) = story.decisions("MigrationDecided")
    assert again.cause == "resize"
    assert (
        again.reason
        == "it grows to 8 tasks: 2.0 GPU-h in 1h for a loss of 1.0 GPU-h of work and 6.0 GPU-min to restart (assumed)"
    )
    starts_again(story)
    assert (story.members("wide", "running"), story.job("wide").attempt) == (list(range(8)), 2)
    assert [task.node for task in story.job("wide").tasks] == [0] * 6 + [1] * 2


def test_resources_freed_for_it_by_evictions_are_used_by_one_restart(tell):
    story = play(
        "rules {restarts: {grow_after: 0s}}; node n1: 8 gpus; submit low: 2 gpus; started low",
        "submit wide: interactive, 8 x 1 gpu, min 4, elastic restart; started wide; wide.running = 0 1 2 3 4 5; propose all",
        "low is evicting; yields low; propose all",
    )
    assert list(story.decisions("MigrationDecided"))
    starts_again(story)
    assert len(story.members("wide", "running")) > 6


def drains(story):
    story.drain("n2", mode="graceful")


def loses_its_device(story):
    story.quarantined("n2", 0)


def joins_with_less(story):
    story.check = None  # of the invariants: more is allocated than the node has
    story.node("n2", gpus=4, cpu=1)


@pytest.mark.parametrize(
    ("becomes_unusable", "is_usable"),
    [
        (lambda story: story.silent("n2"), lambda story: story.reachable("n2")),
        (drains, lambda story: story.undrain("n2")),
        (loses_its_device, lambda story: story.cleared("n2", 0)),
        (joins_with_less, lambda story: story.node("n2", gpus=4)),
    ],
)
def test_it_does_not_grow_while_a_task_could_not_start_again_in_its_place(tell, becomes_unusable, is_usable):
    """Planned all the same, the plan was dropped and made anew without end."""
    story = play("rules {restarts: {grow_after: 10m}}; node n1: 4 gpus; node n2: 4 gpus; runs other: 4 gpus")
    story.submit("wide", TaskGroup(count=2, gpu_milli=4000, cpu_milli=2000), min_tasks=1, elastic="restart")
    story.started("wide")
    story.wait(10 * MINUTE)
    becomes_unusable(story)
    story.ends("other")
    assert not list(story.decisions("JobGrown"))
    is_usable(story)
    starts_again(story)
    assert story.members("wide", "running") == [0, 1]


def test_it_does_not_grow_while_less_of_its_device_is_there_than_jobs_share(tell):
    story = play("rules {restarts: {grow_after: 10m}}; node n1: 1 gpu; node n2: 1 gpu; runs other: 1 gpu")
    story.runs("neighbour", TaskGroup(gpu_share_bytes=40 * GIB))
    story.submit("wide", TaskGroup(count=2, gpu_share_bytes=40 * GIB), min_tasks=1, elastic="restart")
    story.started("wide")
    story.wait(10 * MINUTE)
    story.check = None  # of the invariants: more is allocated than the device has
    again = story.joined("n2", gpus=1)
    story.cycle(again.model_copy(update={"devices": (again.devices[0].model_copy(update={"memory_bytes": 60 * GIB}),)}))
    story.ends("other")
    assert not list(story.decisions("JobGrown"))
    story.node("n2", gpus=1)
    starts_again(story)
    assert story.members("wide", "running") == [0, 1]


@pytest.mark.parametrize("becomes_unusable", [drains, loses_its_device, joins_with_less])
def test_a_gang_that_restarts_to_shrink_where_it_cannot_start_again_is_requeued(story, becomes_unusable):
    """Its plan was dropped and made anew in each cycle, and it held its GPUs without its lost member."""
    for name in ("n1", "n2", "n3"):
        story.node(name, gpus=4)
    story.submit("wide", TaskGroup(count=3, gpu_milli=4000, cpu_milli=2000), min_tasks=2, elastic="restart")
    story.started("wide")
    becomes_unusable(story)
    play(
        "report TaskVanished wide task=2; => MigrationDecided wide cause=resize; => ReservationDropped wide; wait 1m; => nothing",
        "yields wide; => JobRequeued wide cause=resize",
        story=story,
    )
    assert [task.node for task in story.job("wide").tasks] == [0, 2]


@pytest.mark.parametrize(("state", "may"), [("running", False), ("starting", False), ("exited", True), ("released", True)])
def test_only_nodes_on_which_its_tasks_still_run_matter_for_a_restart_in_place(state: Any, may: bool):
    sketch = Sketch()
    drained = sketch.node("drained", gpus=1)
    sketch.node("kept", gpus=1)
    job = sketch.at(sketch.job("wide", group(2, gpus=1)), ("drained", [0]), ("kept", [0]))
    job.tasks[0].state, drained.drain = state, Drain(1, "graceful")
    assert can_restart_in_place(sketch.state, job) is may


def test_explain_says_what_growing_would_win_and_lose(tell):
    story = tell(policy(restarts={"grow_after": "0s"}))
    wide(story, gpus=6)
    story.wait(20 * MINUTE)
    story.node("n2", gpus=1)
    text = " ".join(sentence.text for sentence in obstacle_sentences(story.state, story.job("wide")))
    assert "it does not restart to grow: 1 task more would win only 1.0 GPU-h in 1h for a loss of 2.0 GPU-h of work" in text


def test_a_decision_says_what_growing_wins_and_what_the_restart_and_the_victims_lose(tell):
    story = play(
        "rules {restarts: {grow_after: 0s}}; node n1: 8 gpus; runs low: 1 gpu",
        "submit wide: interactive, 8 x 1 gpu, min 4, elastic restart; started wide; wait 3m; propose",
    )
    decided = story.expect("PreemptionDecided", restart_lost_gpu_ms=7 * 4 * MINUTE // 1000)
    loss = "a loss of 21.0 GPU-min of work and 7.0 GPU-min to restart (assumed), "
    loss += "and of 3.0 GPU-min of work and 1.0 GPU-min to restart (assumed)"
    assert decided.reason == f"it restarts to grow by 1 task: 1.0 GPU-h in 1h for {loss} of its victims"
    record = next(record for record in story.records if record.data is decided)
    assert f"wide: {decided.reason}." in [sentence.text for sentence in preemption_sentences(record)]
