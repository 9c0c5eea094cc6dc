"""Backfilled jobs: who evicts them, when the head asks, and what the records and explanations say."""

import json

from tests.kits.explained import sentences
from tests.kits.log_builder import HOUR, MINUTE, SECOND, policy
from tests.kits.story_script import stories

from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records.facts import PolicyApplied

test_backfilled_in_stories = stories("""
given half full with a head
    node n1; runs old: 4 gpus; submit head: 8 gpus

on a node that the head cannot use no job is backfilled
    node n1; node n2; runs old: 4 gpus, only on n1; submit head: 8 gpus, only on n1; => JobPending head
    submit elsewhere: 4 gpus, only on n2; => JobPlaced elsewhere backfilled=false
    submit here: 4 gpus, only on n1; => JobPlaced here backfilled=true

a job behind the head starts at once and is evicted when the head fits without it
    half full with a head; submit small: 4 gpus; => JobPlaced small backfilled=true; started small; +10m; ends old
    => PreemptionRequested head actions=preempt; propose
    => PreemptionDecided action=preempt victims.*.job=small victims.*.backfilled=true victims.*.lost_gpu_ms=2640000
    begin small; ends small code=85; => JobStarting head; backfilled = nothing

a job that leaves the head's resources alone is evicted, too, where the head fits elsewhere first
    node n1; node n2; runs old: 5 gpus; +1m; runs younger: 6 gpus; +1m; submit head: 8 gpus; runs small: 2 gpus; +1m; ends younger
    propose; => PreemptionDecided victims.*.job=small

the preemption delay holds for other victims only
    rules {protections: {preemption_delay: 1h}}; node n1; runs stays: 2 gpus; runs old: 4 gpus; submit head: interactive, 6 gpus
    runs small: 2 gpus; +1m; ends old; propose; => PreemptionDecided victims.*.job=small
    => PreemptionDecided explanation.excluded.*.rule=backfilled-only explanation.excluded.*.jobs=1

a job that starts again in its turn is no longer backfilled
    half full with a head; runs small: 4 gpus; cancel head; evict small; begin small; ends small code=85
    => JobPlaced small backfilled=false; backfilled = nothing

a backfilled job that is moved stays one
    half full with a head; runs small: 2 gpus; node n2: 2 gpus; migrate small n2; begin small; ends small code=85
    => JobPlaced small action=migrate backfilled=true
""")


NEVER = {"preemption_policy": "Never"}


def rules(**parts) -> Policy:
    """The default policy with a class of interactive priority that never preempts, and these parts."""
    classes = [entry.model_dump(mode="json") for entry in DEFAULT_POLICY.priority_classes]
    return policy(priority_classes=[*classes, {"name": "patient", "value": 75, "preemptible": True, **NEVER}], **parts)


def half_full(tell, cls: str = "train", **parts):
    """Four GPUs are in use without a limit, a gang of eight is pending, and a job behind it runs on the other four."""
    story = tell(rules(**parts))
    story.node("n1")
    story.runs("old", gpus=4)
    story.submit("head", gpus=8, cls=cls)
    return story


def test_nothing_is_recorded_while_the_head_does_not_fit_without_backfilled_jobs(tell):
    story = half_full(tell, cls="patient")
    story.runs("small", gpus=2)
    records = len(story.records)
    for number in range(5):
        story.wait(HOUR)
        story.runs(f"more-{number}", gpus=1) if number < 2 else None
    kinds = {type(record.data).__name__ for record in story.records[records:]}
    assert not kinds & {"PreemptionRequested", "PreemptionRefused", "PreemptionDecided"}


def test_the_backoff_of_refusals_does_not_keep_the_head_waiting_once_resources_came_free(tell):
    story = half_full(tell, cls="interactive", protections={"excluded": [{"keep": "1"}]})
    story.cancel("head")
    story.runs("kept", gpus=4, labels={"keep": "1"})
    story.ends("old")
    story.runs("low", gpus=2, labels={"keep": "1"})
    story.submit("next", gpus=4, cls="interactive")
    for _ in range(8):  # its requests for victims of lower priority are refused, each time for longer
        if story.state.selection is None:
            story.wait(2 * MINUTE)
        story.propose()
    story.submit("small", gpus=2)
    assert story.expect("JobPlaced", job="small").backfilled
    story.started("small")
    assert story.job("next").next_request_at > story.time + 30 * SECOND
    story.ends("low", after=SECOND)
    story.expect("PreemptionRequested", job="next")
    story.propose()
    assert [choice.job for choice in story.expect("PreemptionDecided").victims] == ["small"]


def test_a_refusal_without_resources_coming_free_keeps_the_backoff(tell):
    story = half_full(tell, cls="patient")
    story.runs("small", gpus=4)
    story.ends("old")
    for _ in range(3):
        story.propose(proposals=[])
        refused = story.expect("PreemptionRefused", reason="stale")
        story.submit(f"idle-{story.time}", gpus=1)
        assert story.state.selection is None, "a submission frees nothing"
        story.wait(refused.retry_at - story.time)
        story.expect("PreemptionRequested", job="head")


def test_explanations_name_the_policy_field(tell):
    story = half_full(tell)
    story.runs("small", gpus=3)
    story.submit("fixed", gpus=1, preemptible=False)
    assert "It was backfilled" in " ".join(sentences(story, "small"))
    assert "(policy field backfill)" in " ".join(sentences(story, "small"))
    assert "policy field backfill: preemptible" in " ".join(sentences(story, "fixed"))
    story.ends("old")
    assert "1 backfilled job" in " ".join(sentences(story, "head"))
    assert "(policy field backfill): small" in " ".join(sentences(story, "head"))
    story.propose()
    assert "it was backfilled: it started while a job ahead of it in the queue was waiting" in " ".join(sentences(story, "small"))
    assert "(policy field backfill)" in " ".join(sentences(story, "head"))


def test_a_policy_that_was_recorded_without_the_field_means_reserve(tell):
    story = tell()
    entry = {"name": "a", "value": 1, "preemptible": True, "global_default": True}
    recorded = PolicyApplied.model_validate_json(json.dumps({"policy": {"priority_classes": [entry]}}))
    assert recorded.policy.backfill == "preemptible"
    story.cycle(recorded)
    assert story.state.rules.backfill == "reserve"
    story.apply_policy(DEFAULT_POLICY)
    assert story.state.rules.backfill == "preemptible"
