"""No decision displaces anybody for a job that the same cycle, or time alone, ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core_invariants import nobody_is_displaced_for_a_job_that_ends
from tests.log_builder import MINUTE, SECOND, Story, policy
from tests.property.random_stories import Chance, steps

from bailiff_core.lifecycle.termination import GROWTH_BACKOFF
from bailiff_core.records import facts
from bailiff_core.records.decisions import EvictionDecided, PreemptionDecided
from bailiff_core.records.payload import Decision

STALE = st.integers(17, 200)  # s
GRACE = st.integers(1, 200)  # s
WAITED = st.integers(0, 99)  # percent of the stale grace
RULES = {"scope": "pool", "reservation_expiry": "10m", "selection_timeout": "10m"}


def until_gone(story: Story, job: str, grace: int) -> list[Decision]:
    """The victim is told to leave, uses all of its grace, and leaves."""
    return [*story.begin(job), *story.wait(grace), *story.ends(job, 85)]


@settings(max_examples=60)
@given(STALE, GRACE, WAITED)
def test_a_gang_that_gets_a_reservation_for_its_missing_member_outlasts_its_victims(stale, grace, waited):
    story = Story(policy(preemption=RULES, protections={"stale_gang": stale * SECOND}))
    for name in ("n1", "n2", "n3"):
        story.node(name)
    story.runs("low", gpus=8, grace=grace * SECOND)
    story.runs("gang", gpus=8, tasks=2, cls="interactive")
    story.lost("n3")
    story.wait(GROWTH_BACKOFF + (stale * SECOND - GROWTH_BACKOFF) * waited // 100)
    while story.state.selection is not None:
        story.propose()
    assert story.job("gang").phase == "running"
    assert story.job("low").phase == "evicting"
    made = until_gone(story, "low", grace * SECOND)
    assert not [each for each in made if isinstance(each, EvictionDecided)], "the gang is evicted while its victim leaves"
    assert [task.state for task in story.job("gang").tasks] == ["running", "starting"]


@settings(max_examples=60)
@given(GRACE, st.integers(1, 400))
def test_a_job_that_reaches_its_run_time_limit_first_displaces_nobody(grace, limit):
    story = Story(policy(preemption=RULES))
    story.node("n1")
    story.runs("low", gpus=4, grace=grace * SECOND)
    story.submit("grows", gpus=4, tasks=2, min_tasks=1, cls="interactive", elastic="live", run_time_limit=limit * SECOND)
    story.started("grows")
    while story.state.selection is not None:
        story.propose()
    if story.job("low").phase == "evicting":
        made = until_gone(story, "low", grace * SECOND)
        assert not [each for each in made if isinstance(each, EvictionDecided)], "it reached its limit while its victim left"
    else:
        assert limit <= grace, "it would have had time left on the GPUs of its victim"


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_cycle_ends_a_job_for_which_it_displaced_another(shared, data):
    def check(story: Story) -> None:
        nobody_is_displaced_for_a_job_that_ends(story.last_decisions)

    Chance(check, shared=shared).tell(data.draw(steps(30)))


def test_a_job_that_is_paused_for_idleness_displaces_nobody_in_the_same_cycle():
    story = Story(policy(preemption=RULES, idle={"after": "1m", "action": "pause"}))
    story.node("n1")
    story.runs("low", gpus=4)
    story.submit("grows", gpus=4, tasks=2, min_tasks=1, cls="interactive", elastic="live")
    story.started("grows")
    story.cycle(facts.TaskIdle(**story.at("grows", 0), idle=True, duration=0))
    made = story.propose(after=MINUTE)
    assert not [each for each in made if isinstance(each, PreemptionDecided)]
    assert story.job("low").phase == "running"
    assert story.job("grows").phase == "evicting"
