"""A turn tries again only what may have changed, and finds the head of the queue when it must: trying all decides the same."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from tests import log_builder
from tests.log_builder import MINUTE, Story, policy
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, Step, steps

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.pool import Pool
from bailiff_core.queue.order import enqueue
from bailiff_core.records import facts
from bailiff_core.records.payload import Decision
from bailiff_core.turn import decide

QUICK = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
Told = list[tuple[str, dict[str, object]]]


def afresh(pool: Pool) -> Pool:
    """A copy that knows nothing of earlier tries: every waiting job is looked at."""
    kept = (pool.policy, pool.scene, pool.agenda, *(job.demand for job in pool.jobs.values()))
    memo: dict[int, object] = {id(each): each for each in kept}
    found = copy.deepcopy(pool, memo)
    found.scene = found.agenda = None
    found.room_grew = True
    return found


def with_one_held(pool: Pool) -> Pool:
    """As `afresh`, and last in the queue stands one that nobody tries, so that the head is asked for at once."""
    found = afresh(pool)
    if found.queue:
        last = found.jobs[found.queue[-1]]
        held = copy.copy(last)
        held.id, held.held_because, held.tasks, held.priority = "zz-held", "by the test", [], -1
        held.phase, held.told_waiting, held.base_priority, held.waiting_since = "pending", True, -1, found.now
        found.jobs[held.id] = held
        enqueue(found, held)
    return found


def as_told(decisions: Iterable[Decision]) -> Told:
    """What was decided, apart from the sentence about a try, which may be that of the first one."""
    return [(each.type_name(), each.model_dump(exclude={"reason"})) for each in decisions]


def against(other: Callable[[Pool], Pool]) -> Callable[[Pool], Iterator[Decision]]:
    """`decide`, compared with itself on another form of the same state."""

    def compared(pool: Pool) -> Iterator[Decision]:
        twin = other(pool)
        expected = as_told(decide(twin))
        found = []
        for decision in decide(pool):
            found.append(decision)
            yield decision
        assert as_told(found) == expected

    return compared


def deciding(other: Callable[[Pool], Pool]) -> AbstractContextManager[object]:
    """Every turn of a story is decided in both ways."""
    return patch.object(log_builder, "decide", against(other))


@pytest.mark.parametrize("other", [afresh, with_one_held])
@given(told=busy_steps(40))
@QUICK
def test_on_a_crowded_pool_trying_all_decides_the_same(other: Callable[[Pool], Pool], told: list[Step]) -> None:
    with deciding(other):
        Busy().tell(told)


@given(steps(30))
@QUICK
def test_also_with_projects_and_gangs_that_grow(turns: list[list[Step]]) -> None:
    with deciding(afresh):
        Chance(shared=True).tell(turns)


@given(steps(30))
@QUICK
def test_the_head_of_the_queue_is_the_same_whenever_it_is_looked_for(turns: list[list[Step]]) -> None:
    with deciding(with_one_held):
        Chance().tell(turns)


@pytest.mark.long
@pytest.mark.timeout(1800)  # six minutes, or a quarter of an hour on a busy machine
@pytest.mark.parametrize("other", [afresh, with_one_held])
@given(busy_steps(200), steps(80))
@settings(QUICK, max_examples=500)
def test_both_in_longer_histories(other: Callable[[Pool], Pool], told: list[Step], turns: list[list[Step]]) -> None:
    with deciding(other):
        Busy().tell(told)
        Chance(shared=other is afresh).tell(turns)


def two_that_may_make_room() -> Story:
    """`slow` is just being started on a, `known` runs on b; whichever ends first makes room for `head`. `small` fits on a."""
    story = Story(policy(preemption={"verbs": ["allocate"]}))
    for name in "ab":
        story.node(name, gpus=4)
    story.runs("known", TaskGroup(count=1, gpu_milli=3000, nodes=("b",)), run_time_limit="65m")
    story.submit("slow", TaskGroup(count=1, gpu_milli=3000, nodes=("a",)), run_time_limit="60m")
    story.submit("head", gpus=4)
    story.submit("small", TaskGroup(count=1, gpu_milli=1000, nodes=("a",)))
    assert story.job("small").phase == "pending", "room on a is kept for the head"
    return story


def test_who_was_passed_over_is_tried_again_when_time_alone_moves_the_place_that_is_kept() -> None:
    with deciding(afresh):
        story = two_that_may_make_room()
        story.turn(facts.ClockAdvanced(), after=10 * MINUTE)
        assert story.job("small").phase == "starting", "slow would now end after known, and so the head is kept a place on b"
