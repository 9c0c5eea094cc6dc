"""A cycle retries only jobs that may have changed, and finds the head of the queue if needed; a full cycle decides the same."""

import copy
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from tests.kits.examples import examples
from tests.kits.log_builder import MINUTE, Story, policy
from tests.property.busy_stories import Busy, busy_steps
from tests.property.incremental import afresh, deciding
from tests.property.random_stories import Chance, Step, steps

from bailiff_core.fold.pending_queue import enqueue
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts

QUICK = examples(15)


def with_a_suspended_job(state: PoolState) -> PoolState:
    """As `afresh`, with a suspended job at the end of the queue, so that the head is computed at once."""
    found = afresh(state)
    if found.queue:
        last = found.jobs[found.queue[-1]]
        held = copy.copy(last)
        held.id, held.suspended_reason, held.tasks, held.priority = "zz-held", "by the test", [], -1
        held.phase, held.pending_recorded, held.base_priority, held.pending_since = "pending", True, -1, found.now
        found.jobs[held.id] = held
        enqueue(found, held)
    return found


@pytest.mark.parametrize("other", [afresh, with_a_suspended_job])
@given(history=busy_steps(40))
@QUICK
def test_on_a_contended_pool_a_full_cycle_decides_the_same(other: Callable[[PoolState], PoolState], history: list[Step]) -> None:
    with deciding(other):
        Busy().play(history)


@given(steps(30))
@QUICK
def test_a_full_cycle_decides_the_same_with_projects_and_elastic_gangs(cycles: list[list[Step]]) -> None:
    with deciding(afresh):
        Chance(shared=True).play(cycles)


@given(steps(30))
@QUICK
def test_the_head_of_the_queue_is_the_same_whenever_it_is_computed(cycles: list[list[Step]]) -> None:
    with deciding(with_a_suspended_job):
        Chance().play(cycles)


@pytest.mark.long
@pytest.mark.timeout(1800)  # takes 6 to 15 minutes
@pytest.mark.parametrize("other", [afresh, with_a_suspended_job])
@given(busy_steps(200), steps(80))
@settings(QUICK, max_examples=500)
def test_both_in_longer_histories(other: Callable[[PoolState], PoolState], history: list[Step], cycles: list[list[Step]]) -> None:
    with deciding(other):
        Busy().play(history)
        Chance(shared=other is afresh).play(cycles)


def two_jobs_that_may_free_resources() -> Story:
    """`slow` is starting on a, `known` runs on b; the first to end frees resources for `head`. `small` fits on a."""
    story = Story(policy(preemption={"actions": ["allocate"]}))
    for name in "ab":
        story.node(name, gpus=4)
    story.runs("known", TaskGroup(count=1, gpu_milli=3000, nodes=("b",)), run_time_limit="65m")
    story.submit("slow", TaskGroup(count=1, gpu_milli=3000, nodes=("a",)), run_time_limit="60m")
    story.submit("head", gpus=4)
    story.submit("small", TaskGroup(count=1, gpu_milli=1000, nodes=("a",)))
    assert story.job("small").phase == "pending", "resources on a are reserved for the head"
    return story


def test_a_skipped_job_is_tried_again_when_time_alone_moves_the_reserved_place() -> None:
    with deciding(afresh):
        story = two_jobs_that_may_free_resources()
        story.cycle(facts.ClockAdvanced(), after=10 * MINUTE)
        assert story.job("small").phase == "starting", "slow would now end after known, so the head's reservation moves to b"
