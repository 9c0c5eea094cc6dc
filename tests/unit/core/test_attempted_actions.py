"""When every action fails, the record lists for each one the excluded candidates and the rule, within 64 KiB."""

import json
from typing import get_args, get_type_hints

import pytest
from tests.log_builder import MINUTE, Story, folded, policy

from bailiff_core.explain import explain_job, explain_record, missing_text
from bailiff_core.explain.candidate_report import candidates
from bailiff_core.explain.victims import EVICTION_CAUSES, REFUSAL_REASONS
from bailiff_core.model.proposal import AttemptedAction, Proposal
from bailiff_core.protections import RULES
from bailiff_core.records import decisions, facts

LIMIT = 64 * 1024


@pytest.fixture
def story() -> Story:
    """b is due four GPUs; of a's eight, four are an inference server's and four of a job that may be left alone by label."""
    rules = policy(
        projects=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}],
        protections={"excluded": [{"keep": "yes"}]},
    )
    story = Story(rules)
    story.node("n1", gpus=8)
    story.runs("server", gpus=4, cls="inference", project="a")
    story.runs("kept", gpus=3, project="a", labels={"keep": "yes"})
    story.runs("mine", gpus=1, project="b")
    story.submit("asks", gpus=3, cls="interactive", project="b", after=MINUTE)
    story.propose()
    return story


def refusal(story: Story) -> decisions.PreemptionRefused:
    return next(iter(story.decisions("PreemptionRefused")))


def test_a_refusal_lists_for_every_action_the_excluded_candidates(story: Story) -> None:
    why = refusal(story).explanation
    assert refusal(story).action == "preempt"
    assert {group.rule: group.examples for group in why.excluded} == {"not-preemptible": ("server",), "scope": ("kept",)}
    (reclaim,) = why.attempted_actions
    assert (reclaim.action, reclaim.refused) == ("reclaim", "impossible")
    assert {group.rule: group.examples for group in reclaim.excluded} == {
        "excluded": ("kept",),
        "not-preemptible": ("server",),
        "own-project": ("mine",),
    }
    assert reclaim.would_need.endswith("of 'kept', which has a label that the policy excludes")


def test_the_sentences_name_the_action(story: Story) -> None:
    record = next(record for record in story.records if isinstance(record.data, decisions.PreemptionRefused))
    texts = [sentence.text for section in explain_record(record) for sentence in section.sentences]
    assert any(text.startswith("Action reclaim found no victims: ") for text in texts)
    assert "Under reclaim, rule not-preemptible protected 1 job (server): it is not preemptible." in texts
    assert any(text.startswith("Under preempt, ") for text in texts)
    assert any(text.startswith("What it lacked, by preempt: ") for text in texts)
    assert missing_text(refusal(story)).startswith("preempt: ")
    assert "; reclaim: " in missing_text(refusal(story))


def test_the_explanation_of_the_job_is_the_same(story: Story) -> None:
    texts = [s.text for section in explain_job(story.state, story.job("asks"), story.records) for s in section.sentences]
    assert any(text.startswith("Action reclaim found no victims: ") for text in texts)


def test_the_full_list_is_made_for_every_action(story: Story) -> None:
    proposal = next(record.data for record in story.records if isinstance(record.data, facts.ProposalReceived))
    assert isinstance(proposal, facts.ProposalReceived)
    found = candidates(folded(story.wires[: proposal.computed_at + 1]), refusal(story), proposal.proposals)
    assert list(dict.fromkeys(each.action for each in found)) == ["reclaim", "preempt"]
    shielded = {each.job: each.rule for each in found if each.action == "reclaim"}
    assert shielded == {"server": "not-preemptible", "kept": "excluded", "mine": "own-project"}


def test_an_action_that_succeeds_names_what_the_previous_one_lacked() -> None:
    rules = policy(
        projects=[{"name": "a", "quota": {"gpus": 2}}, {"name": "b", "quota": {"gpus": 6}}],
        protections={"excluded": [{"keep": "yes"}]},
    )
    story = Story(rules)
    story.node("n1", gpus=8)
    story.runs("kept", gpus=4, project="a", labels={"keep": "yes"})
    story.runs("low", gpus=2, project="b")
    story.submit("high", gpus=4, cls="interactive", project="b", after=MINUTE)
    story.propose()
    decided = next(iter(story.decisions("PreemptionDecided")))
    assert (decided.action, [choice.job for choice in decided.victims]) == ("preempt", ["low"])
    (reclaim,) = decided.explanation.attempted_actions
    assert {group.rule: group.examples for group in reclaim.excluded} == {"excluded": ("kept",), "own-project": ("low",)}


def test_an_action_that_is_not_allowed_is_not_listed() -> None:
    story = Story()
    story.node("n1", gpus=2)
    story.runs("fixed", gpus=2, preemptible=False)
    story.runs("low", gpus=0)
    story.submit("high", gpus=2, cls="inference")
    story.propose()
    assert refusal(story).explanation.attempted_actions == ()
    assert "preempt:" not in missing_text(refusal(story))


def test_the_largest_explanation_fits_into_64_kib() -> None:
    """Every rule, with five names of 63 characters each, under three actions; a runner-up of 50; costs of 64 classes."""
    group = [{"rule": rule.name, "jobs": 10**9, "examples": [f"{'n' * 62}{at}" for at in range(5)]} for rule in RULES]
    cost = {"classes": [{"priority": 10**9 - at, "gpu_milli": 10**12} for at in range(64)], "lost_gpu_ms": 10**15,
            "under_share_gpu_milli": 10**12, "jobs_stopped": 10**6, "tasks": 10**9, "fragmented_nodes": 10**6}  # fmt: skip
    tried = [
        {"action": action, "refused": "impossible", "would_need": "x" * 600, "candidates": 10**6, "excluded": group}
        for action in ("consolidate", "reclaim")
    ]
    why = {"candidates": 10**6, "excluded": group, "steps": 10**6, "runner_up": ["m" * 63] * 50, "cost": cost,
           "runner_up_cost": cost, "lower_bound": cost, "runner_up_lost_gpu_ms": 10**15, "attempted_actions": tried}  # fmt: skip
    answer = Proposal.model_validate_json(json.dumps({"request": 1, "job": "j", "explanation": why, "would_need": "x" * 2000}))
    assert len(answer.model_dump_json(exclude_defaults=True)) < LIMIT


def values(kind: type, field: str) -> set[str]:
    return set(get_args(get_type_hints(kind)[field]))


def test_every_cause_and_every_refusal_has_a_sentence() -> None:
    assert set(EVICTION_CAUSES) == values(decisions.EvictionDecided, "cause")
    assert set(REFUSAL_REASONS) == values(decisions.PreemptionRefused, "reason")
    assert values(AttemptedAction, "action") == {"consolidate", "reclaim", "preempt"}
