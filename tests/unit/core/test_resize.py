"""Elastic gangs that cannot take another size while they run: they restart together, in place."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.log_builder import GIB, HOUR, MINUTE, policy

from bailiff_core.lifecycle.resize import can_restart_in_place
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import Drain
from bailiff_core.records.facts import TaskVanished


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
    story.expect("JobStarting", job="wide")
    story.started("wide")
    assert (story.job("wide").phase, story.job("wide").evictions, story.job("wide").failures) == ("running", 0, 0)


def test_all_tasks_that_fit_at_first_start_together(story):
    wide(story, gpus=6)
    assert (story.members("wide", "running"), story.job("wide").attempt) == ([0, 1, 2, 3, 4, 5], 1)


def test_it_grows_by_one_restart_to_all_tasks_that_fit(tell):
    story = tell(policy(restarts={"grow_after": "10m"}))
    wide(story, gpus=6)
    story.node("n2", gpus=8)
    assert story.members("wide", "running") == [0, 1, 2, 3, 4, 5]
    story.wait(10 * MINUTE)
    (again,) = story.decisions("MigrationDecided")
    assert (again.cause, again.reason) == ("resize", "it grows to 8 tasks")
    starts_again(story)
    assert (story.members("wide", "running"), story.job("wide").attempt) == (list(range(8)), 2)
    assert [task.node for task in story.job("wide").tasks] == [0] * 6 + [1] * 2


def test_it_runs_for_grow_after_before_it_grows_again(tell):
    story = tell(policy(restarts={"grow_after": "10m"}))
    wide(story, gpus=6)
    story.wait(HOUR)
    story.node("n2", gpus=1)
    story.expect("MigrationDecided", job="wide", cause="resize")
    starts_again(story)
    story.node("n3", gpus=1)
    story.expect_only()
    story.wait(10 * MINUTE)
    story.expect("MigrationDecided", job="wide", cause="resize")


def test_after_an_eviction_of_surplus_the_others_restart_in_place(story):
    wide(story)
    story.submit("demo", gpus=2, cls="interactive")
    story.propose()
    story.yields("wide")
    story.expect("JobShrunk", job="wide", tasks="6-7")
    again = story.expect("MigrationDecided", job="wide", cause="resize")
    assert again.reason == "it restarts with 6 tasks"
    starts_again(story)
    assert (story.members("wide", "running"), story.job("demo").phase) == ([0, 1, 2, 3, 4, 5], "starting")


def test_after_a_lost_member_the_others_restart_in_place(story):
    wide(story)
    story.cycle(TaskVanished(**story.at("wide", 7)))
    story.expect("JobShrunk", job="wide", outcome="lost")
    story.expect("MigrationDecided", job="wide", cause="resize")
    starts_again(story)


def test_scaled_down_it_starts_again_with_what_is_left(story):
    wide(story)
    story.scale("wide", 5)
    story.yields("wide")
    story.expect("MigrationDecided", job="wide", cause="resize")
    starts_again(story)
    assert story.members("wide", "running") == [0, 1, 2, 3, 4]


def test_once_a_member_has_succeeded_the_gang_does_not_restart(story):
    wide(story)
    story.ends("wide", 0, task=0)
    story.cycle(TaskVanished(**story.at("wide", 7)))
    assert list(story.decisions("MigrationDecided")) == []


def test_resources_freed_for_it_by_evictions_are_used_by_one_restart(tell):
    story = tell(policy(restarts={"grow_after": "0s"}))
    story.node("n1", gpus=8)
    story.submit("low", gpus=2)
    story.started("low")
    story.submit("wide", gpus=1, tasks=8, min_tasks=4, elastic="restart", cls="interactive")
    story.started("wide")
    assert story.members("wide", "running") == [0, 1, 2, 3, 4, 5]
    while story.state.selection is not None:
        story.propose()
    assert story.job("low").phase == "evicting"
    story.yields("low")
    while story.state.selection is not None:
        story.propose()
    assert list(story.decisions("MigrationDecided"))
    starts_again(story)
    assert len(story.members("wide", "running")) > 6


def test_a_gang_that_restarts_to_shrink_loses_a_member_only_where_no_live_elastic_gang_can(story):
    """All of its work since the last checkpoint is at stake, not that of one member: the older job loses one instead."""
    story.node("n1", gpus=8)
    story.runs("goes-on", gpus=1, tasks=4, min_tasks=3, elastic="live")
    story.runs("starts-again", gpus=1, tasks=4, min_tasks=3, elastic="restart")
    story.submit("high", gpus=1, cls="interactive", after=MINUTE)
    story.propose()
    assert [choice.job for choice in story.expect("PreemptionDecided").victims] == ["goes-on"]


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
    story = tell(policy(restarts={"grow_after": "10m"}))
    story.node("n1", gpus=4)
    story.node("n2", gpus=4)
    story.runs("other", gpus=4)
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
    story = tell(policy(restarts={"grow_after": "10m"}))
    story.node("n1", gpus=1)
    story.node("n2", gpus=1)
    story.runs("other", gpus=1)
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
    story.cycle(TaskVanished(**story.at("wide", 2)))
    story.expect("MigrationDecided", job="wide", cause="resize")
    story.expect("ReservationDropped", job="wide")
    story.wait(MINUTE)
    story.expect_only()
    story.yields("wide")
    story.expect("JobRequeued", job="wide", cause="resize")
    assert [task.node for task in story.job("wide").tasks] == [0, 2]


@pytest.mark.parametrize(("state", "may"), [("running", False), ("starting", False), ("exited", True), ("released", True)])
def test_only_nodes_on_which_its_tasks_still_run_matter_for_a_restart_in_place(state: Any, may: bool):
    sketch = Sketch()
    drained = sketch.node("drained", gpus=1)
    sketch.node("kept", gpus=1)
    job = sketch.at(sketch.job("wide", group(2, gpus=1)), ("drained", [0]), ("kept", [0]))
    job.tasks[0].state, drained.drain = state, Drain(1, "graceful")
    assert can_restart_in_place(sketch.state, job) is may
