"""Backfilled jobs: who evicts them, when the head asks, and what the records and explanations say."""

import json

from tests.builders import group
from tests.log_builder import HOUR, MINUTE, SECOND, policy

from bailiff_core.explain import explain_job
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records.facts import PolicyApplied

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


def texts(story, job: str) -> str:
    """The explanation of the job, as one text."""
    found = explain_job(story.state, story.job(job), story.records)
    return " ".join(sentence.text for section in found for sentence in section.sentences)


def test_on_a_node_that_the_head_cannot_use_no_job_is_backfilled(tell):
    story = tell(rules())
    story.node("n1")
    story.node("n2")
    story.runs("old", group(gpus=4, nodes=("n1",)))
    story.submit("head", group(gpus=8, nodes=("n1",)))
    story.expect("JobPending", job="head")
    story.submit("elsewhere", group(gpus=4, nodes=("n2",)))
    assert not story.expect("JobPlaced", job="elsewhere").backfilled
    story.submit("here", group(gpus=4, nodes=("n1",)))
    assert story.expect("JobPlaced", job="here").backfilled


def test_a_job_behind_the_head_starts_at_once_and_is_evicted_when_the_head_fits_without_it(tell):
    story = half_full(tell)
    story.submit("small", gpus=4)
    assert story.expect("JobPlaced", job="small").backfilled
    story.started("small")
    story.ends("old", after=10 * MINUTE)
    asked = story.expect("PreemptionRequested", job="head")
    assert asked.actions == ("preempt",)
    story.propose()
    decided = story.expect("PreemptionDecided", action="preempt")
    assert [(choice.job, choice.backfilled, choice.lost_gpu_ms) for choice in decided.victims] == [("small", True, 4 * 660_000)]
    story.begin("small")
    story.ends("small", 85)
    story.expect("JobStarting", job="head")
    assert not story.state.backfilled


def test_nothing_is_recorded_while_the_head_does_not_fit_without_backfilled_jobs(tell):
    story = half_full(tell, cls="patient")
    story.runs("small", gpus=2)
    records = len(story.records)
    for number in range(5):
        story.wait(HOUR)
        story.runs(f"more-{number}", gpus=1) if number < 2 else None
    kinds = {type(record.data).__name__ for record in story.records[records:]}
    assert not kinds & {"PreemptionRequested", "PreemptionRefused", "PreemptionDecided"}


def test_a_job_that_is_not_backfilled_writes_nothing_about_it(tell):
    story = tell()
    story.node("n1")
    story.submit("first", gpus=4)
    assert "backfilled" not in story.expect("JobPlaced", job="first").to_data()
    assert not story.job("first").backfilled


def test_a_job_that_leaves_the_head_s_resources_alone_is_evicted_too_where_the_head_fits_elsewhere_first(tell):
    story = tell(rules())
    story.node("n1")
    story.node("n2")
    story.runs("old", gpus=5)
    story.runs("younger", gpus=6, after=MINUTE)
    story.submit("head", gpus=8, after=MINUTE)
    story.runs("small", gpus=2)
    assert story.job("small").tasks[0].node == story.job("younger").tasks[0].node
    story.ends("younger", after=MINUTE)
    story.propose()
    assert [choice.job for choice in story.expect("PreemptionDecided").victims] == ["small"]


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


def test_the_preemption_delay_holds_for_other_victims_only(tell):
    story = tell(rules(protections={"preemption_delay": "1h"}))
    story.node("n1")
    story.runs("stays", gpus=2)
    story.runs("old", gpus=4)
    story.submit("head", gpus=6, cls="interactive")
    story.runs("small", gpus=2)
    story.ends("old", after=MINUTE)
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert [choice.job for choice in decided.victims] == ["small"]
    assert [(group.rule, group.jobs) for group in decided.explanation.excluded] == [("backfilled-only", 1)]


def test_a_job_that_starts_again_in_its_turn_is_no_longer_backfilled(tell):
    story = half_full(tell)
    story.runs("small", gpus=4)
    story.cancel("head")
    story.evict("small")
    story.begin("small")
    story.ends("small", 85)
    assert not story.expect("JobPlaced", job="small").backfilled
    assert not story.state.backfilled


def test_a_backfilled_job_that_is_moved_stays_one(tell):
    story = half_full(tell)
    story.runs("small", gpus=2)
    story.node("n2", gpus=2)
    story.migrate("small", node="n2")
    story.begin("small")
    story.ends("small", 85)
    assert story.expect("JobPlaced", job="small", action="migrate").backfilled


def test_explanations_name_the_policy_field(tell):
    story = half_full(tell)
    story.runs("small", gpus=3)
    story.submit("fixed", gpus=1, preemptible=False)
    assert "It was backfilled" in texts(story, "small")
    assert "(policy field backfill)" in texts(story, "small")
    assert "policy field backfill: preemptible" in texts(story, "fixed")
    story.ends("old")
    assert "1 backfilled job" in texts(story, "head")
    assert "(policy field backfill): small" in texts(story, "head")
    story.propose()
    assert "it was backfilled: it started while a job ahead of it in the queue was waiting" in texts(story, "small")
    assert "(policy field backfill)" in texts(story, "head")


def test_a_policy_that_was_recorded_without_the_field_means_reserve(tell):
    story = tell()
    entry = {"name": "a", "value": 1, "preemptible": True, "global_default": True}
    recorded = PolicyApplied.model_validate_json(json.dumps({"policy": {"priority_classes": [entry]}}))
    assert recorded.policy.backfill == "preemptible"
    story.cycle(recorded)
    assert story.state.rules.backfill == "reserve"
    story.apply_policy(DEFAULT_POLICY)
    assert story.state.rules.backfill == "preemptible"
