"""An owner who evicts a job of their own makes it neither harder to evict nor more urgent; another's eviction does."""

import pytest
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy
from tests.kits.pools import core
from tests.kits.story_script import play

from bailiff_core.protections import excluded_by
from bailiff_core.records.facts import JobPaused, JobResumed

RULES = {
    "ageing": {"ageing": {"evictions": 3, "boost": 30}},
    "eviction-cap": {"eviction_cap": {"evictions": 3, "window": "10h"}},
    "cooldown": {"cooldown": {"job": "1h"}},
}


def evicted_three_times(rule: str, by: str) -> Story:
    """A job of alice runs again after three evictions that `by` asked for, as an access list has verified."""
    story = Story(policy(protections=RULES[rule], preemption={"scope": "pool"}))
    story.node("n1")
    submitted = story.submitted("mine", gpus=8, cls="train", grace=SECOND)
    story.actor = "alice"
    story.cycle(submitted.model_copy(update={"user": "alice", "user_verified": True}))
    story.started("mine")
    for _ in range(3):
        story.actor = by
        story.evict("mine", after=MINUTE)
        story.actor = ""
        story.begin("mine")
        story.yields("mine", after=SECOND)
        story.started("mine", after=MINUTE)
    return story


def preempted_three_times(rule: str, by: str, *, verified: bool = True) -> Story:
    """A job of alice runs again after three preemptions by jobs of `by`, which ran for a while."""
    story = Story(policy(protections=RULES[rule], preemption={"scope": "pool"}))
    story.node("n1")
    about = {"user": "alice", "user_verified": verified}
    story.cycle(story.submitted("mine", gpus=8, cls="train", grace=SECOND).model_copy(update=about))
    story.started("mine")
    for number in range(3):
        other = story.submitted(f"other-{number}", gpus=8, cls="inference")
        story.cycle(other.model_copy(update={"user": by, "user_verified": verified}), after=2 * HOUR)
        story.propose()
        story.yields("mine", after=SECOND)
        story.started(f"other-{number}")
        story.ends(f"other-{number}", after=2 * MINUTE)
        story.started("mine", after=SECOND)
    return story


def gains(story: Story) -> str | None:
    """What its evictions have given the job."""
    job = story.job("mine")
    if job.priority > 50:
        return "ageing"
    story.submit("urgent", gpus=8, cls="interactive")
    return excluded_by(story.state, "preempt", story.job("urgent"), core(job))


@pytest.mark.parametrize("rule", RULES)
def test_only_what_others_ask_for_counts(rule: str) -> None:
    assert gains(evicted_three_times(rule, "alice")) is None
    assert gains(evicted_three_times(rule, "ops")) == rule


@pytest.mark.parametrize("rule", RULES)
def test_what_jobs_of_one_verified_owner_do_to_each_other_counts_for_nothing(rule: str) -> None:
    assert gains(preempted_three_times(rule, "alice")) is None
    assert gains(preempted_three_times(rule, "bob")) == rule
    assert gains(preempted_three_times(rule, "alice", verified=False)) == rule, (
        "anybody may claim her name, to take what protects her"
    )


@pytest.mark.parametrize(("by", "counted"), [("alice", 0), ("bob", 1)])
def test_so_does_a_gang_that_restarts_because_a_job_of_its_owner_took_its_surplus(by: str, counted: int) -> None:
    story = play("rules {preemption: {scope: pool}}; node n1")
    about = {"user": "alice", "user_verified": True}
    gang = story.submitted("mine", gpus=4, tasks=2, min_tasks=1, cls="train", grace=SECOND, elastic="restart")
    story.cycle(gang.model_copy(update=about))
    story.started("mine")
    story.cycle(story.submitted("other", gpus=4, cls="inference").model_copy(update=about | {"user": by}), after=MINUTE)
    story.propose()
    story.yields("mine", after=SECOND)
    assert (story.job("mine").evictions, len(story.job("mine").eviction_times)) == (counted, counted)


def test_moving_a_job_starts_no_cooldown() -> None:
    story = Story(policy(protections=RULES["cooldown"], preemption={"scope": "pool"}))
    for node in ("n1", "n2"):
        story.node(node)
    play("runs mine: train, 8 gpus, grace 1s; +1m; migrate mine; begin mine; +1s; yields mine; started mine", story=story)
    assert gains(story) is None


def test_who_asked_for_an_eviction_is_named_while_the_bridge_holds_the_job_for_its_pods() -> None:
    story = play("node n1; runs mine: train, 8 gpus")
    story.actor = "alice"
    story.evict("mine", reason="a new script")
    story.actor = "bridge"
    story.cycle(JobPaused(request=story.request(), job="mine", reason="its pods are not there", hold="kubernetes"))
    job = story.job("mine")
    assert (job.requester, job.request_reason, job.pause_reason) == ("alice", "a new script", "its pods are not there")
    story.cycle(JobResumed(request=story.request(), job="mine", hold="kubernetes"))
    assert (job.requester, job.request_reason, job.paused_seq) == ("alice", "a new script", None)
