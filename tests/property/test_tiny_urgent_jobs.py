"""A stream of one owner's short urgent jobs, each of use, evicts the same job a bounded number of times in a day."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.explained import sentences
from tests.kits.log_builder import DAY, HOUR, MINUTE, SECOND, Story, policy

from bailiff_core.fold.failed_starts import MOST
from bailiff_core.model.state import ENDED
from bailiff_core.records.decisions import PreemptionDecided

RULES = {"scope": "pool", "reservation_expiry": "10m", "selection_timeout": "10m"}
IN_A_DAY = 2 * MOST
PROJECTS = [{"name": "a", "quota": {"gpus": 8}}, {"name": "b"}]


def playing(**rules: object) -> Story:
    story = Story(policy(preemption=RULES, **rules))
    story.node("n1")
    return story


def decides(story: Story) -> None:
    while story.state.selection is not None:
        story.propose()


def urgent(story: Story, user: str, *, verified: bool = True, cls: str = "interactive", gpus: int = 8, **demand: str) -> str:
    """Submits a job of this user."""
    fact = story.submitted(f"urgent-{story.state.seq}", gpus=gpus, cls=cls, **demand)
    story.cycle(fact.model_copy(update={"user": user, "user_verified": verified}))
    decides(story)
    return fact.demand.job


def ran(story: Story, job: str, seconds: int, code: int = 0) -> None:
    """It starts if it has got a place, runs for so long, and ends; who left for it starts again."""
    if story.job(job).phase == "starting":
        story.started(job)
        story.ends(job, code, after=seconds * SECOND)
    starts(story)


def starts(story: Story) -> None:
    for name in list(story.state.starting):
        story.started(name)


@examples(12)
@given(
    ran_for=st.sampled_from([0, 1, 30, 63, 64, 65, 300, 1200]),
    users=st.sampled_from([(("eve", True),), (("eve", True), ("mal", True)), (("eve", False), ("mal", False))]),
    between=st.sampled_from([0, 5, 600]),
    code=st.sampled_from([0, 1]),
    action=st.sampled_from(["preempt", "reclaim"]),
)
def test_in_a_day_no_owner_evicts_the_same_job_more_often_than_this(ran_for, users, between, code, action):
    """Whatever the jobs run for, and however they end. Users whose names nobody has verified are one owner."""
    story, asks = playing(), {}
    if action == "reclaim":
        story, asks = playing(projects=PROJECTS), {"cls": "train", "project": "a"}
    story.runs("low", gpus=8, **({"project": "b"} if asks else {}))
    end, number, waiting = story.time + DAY, 0, ""
    while story.time < end:
        user, verified = users[number % len(users)]
        number += 1
        waiting = waiting if waiting and story.job(waiting).phase not in ENDED else urgent(story, user, verified=verified, **asks)
        decides(story)
        if story.job("low").phase == "evicting":
            story.yields("low")
        if story.job(waiting).phase == "starting":
            ran(story, waiting, ran_for, code)
            story.wait(between * SECOND)
        else:
            story.wait(10 * MINUTE)
        if story.job("low").phase in ENDED:
            break
    owners = len({user if verified else "" for user, verified in users})
    assert story.job("low").evictions <= owners * IN_A_DAY
    assert story.job("low").evictions >= min(MOST, 10) or ran_for < 64, "short urgent jobs work as before"
    assert {each.data.action for each in story.records if isinstance(each.data, PreemptionDecided)} == {action}
    story.holds()


def evicted_as_often_as_nothing_limits(story: Story, user: str = "eve") -> None:
    for _ in range(MOST):
        job = urgent(story, user)
        assert story.job("low").phase == "evicting", "the first ones do not wait"
        story.yields("low")
        ran(story, job, 1)


def test_its_owner_spares_it_for_an_hour_and_others_and_other_victims_do_not():
    story = playing()
    story.runs("low", gpus=8)
    evicted_as_often_as_nothing_limits(story)
    waits = urgent(story, "eve")
    assert story.job("low").phase == "running"
    (said,) = (text for text in sentences(story, waits) if "It spares low until" in text)
    assert f"it was evicted {MOST} times, without a day in between, for jobs of eve (rule evicted-in-vain)" in said
    since = story.time
    while story.job("low").phase == "running":
        story.wait(10 * MINUTE)
        decides(story)
    assert HOUR - 10 * SECOND <= story.time - since <= HOUR + 20 * MINUTE
    story.yields("low")
    ran(story, waits, 1)
    urgent(story, "eve")
    assert story.job("low").phase == "running", "each further time for another hour"
    urgent(story, "ada", cls="inference")
    assert story.job("low").phase == "evicting", "nobody else's jobs are concerned"
    story.holds()


def test_after_a_day_without_one_it_begins_anew():
    story = playing()
    story.runs("low", gpus=8)
    evicted_as_often_as_nothing_limits(story)
    story.wait(DAY)
    evicted_as_often_as_nothing_limits(story)
    urgent(story, "eve")
    assert story.job("low").phase == "running"


@pytest.mark.parametrize("kind", ["surplus", "own"])
def test_what_is_not_counted(kind: str):
    story = playing()
    if kind == "surplus":
        story.submit("low", gpus=4, tasks=2, min_tasks=1, elastic="live")
    else:
        story.cycle(story.submitted("low", gpus=8).model_copy(update={"user": "eve", "user_verified": True}))
    starts(story)
    for _ in range(MOST + 6):
        job = urgent(story, "eve", gpus=4 if kind == "surplus" else 8)
        assert [each.eviction or each for each in story.job("low").tasks if each.eviction] or story.job("low").phase == "evicting"
        story.yields("low")
        ran(story, job, 1)
        story.wait(10 * MINUTE)
        starts(story)
    assert not story.job("low").evicted_for
    story.holds()
