"""An owner who evicts a job of their own makes it neither harder to evict nor more urgent; another's eviction does."""

import pytest
from tests.kits.log_builder import MINUTE, SECOND, Story, policy
from tests.kits.pools import core

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


def test_moving_a_job_starts_no_cooldown() -> None:
    story = Story(policy(protections=RULES["cooldown"], preemption={"scope": "pool"}))
    for node in ("n1", "n2"):
        story.node(node)
    story.runs("mine", gpus=8, cls="train", grace=SECOND)
    story.migrate("mine", after=MINUTE)
    story.begin("mine")
    story.yields("mine", after=SECOND)
    story.started("mine")
    assert gains(story) is None


def test_who_asked_for_an_eviction_is_named_while_the_bridge_holds_the_job_for_its_pods() -> None:
    story = Story()
    story.node("n1")
    story.runs("mine", gpus=8, cls="train")
    story.actor = "alice"
    story.evict("mine", reason="a new script")
    story.actor = "bridge"
    story.cycle(JobPaused(request=story.request(), job="mine", reason="its pods are not there", hold="kubernetes"))
    job = story.job("mine")
    assert (job.requester, job.request_reason, job.pause_reason) == ("alice", "a new script", "its pods are not there")
    story.cycle(JobResumed(request=story.request(), job="mine", hold="kubernetes"))
    assert (job.requester, job.request_reason, job.paused_seq) == ("alice", "a new script", None)
