"""When every action fails, the record lists for each one the excluded candidates and the rule, within 64 KiB."""

import pytest
from tests.kits.explained import sentences
from tests.kits.log_builder import MINUTE, Story, folded, policy
from tests.kits.story_script import play

from bailiff_core.explain import explain_record, missing_text
from bailiff_core.explain.candidate_report import candidates
from bailiff_core.model.proposal import Explanation, Proposal
from bailiff_core.model.state import OpenRequest
from bailiff_core.records import decisions, facts
from bailiff_core.victims.proposals import merged


@pytest.fixture
def story() -> Story:
    """b is due four GPUs; of a's eight, four are an inference server's and four of a job that may be left alone by label."""
    rules = policy(
        projects=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}],
        protections={"excluded": [{"keep": "yes"}]},
    )
    story = Story(rules)
    play(
        "node n1: 8 gpus; runs server: inference, 4 gpus, project a; runs kept: 3 gpus, project a, keep=yes",
        "runs mine: 1 gpu, project b; +1m; submit asks: interactive, 3 gpus, project b; propose",
        story=story,
    )
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
    assert any(text.startswith("Action reclaim found no victims: ") for text in sentences(story, "asks"))


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
    story = play(
        "node n1: 2 gpus; runs fixed: 2 gpus, preemptible false; runs low: 0 gpus; submit high: inference, 2 gpus; propose"
    )
    assert refusal(story).explanation.attempted_actions == ()
    assert "preempt:" not in missing_text(refusal(story))


def test_of_several_refused_actions_the_one_that_gave_up_is_recorded_with_its_own_steps() -> None:
    gave_up = Proposal(
        request=1, job="asks", action="reclaim", refused="gave-up", explanation=Explanation(candidates=2, steps=20_000)
    )
    impossible = Proposal(
        request=1, job="asks", action="preempt", refused="impossible", explanation=Explanation(candidates=1, proven=True)
    )
    found = merged(OpenRequest(1, "asks"), None, [gave_up, impossible])
    assert (found.action, found.refused) == ("reclaim", "gave-up")
    assert (found.explanation.steps, found.explanation.proven) == (20_000, False)
    assert [(each.action, each.refused) for each in found.explanation.attempted_actions] == [("preempt", "impossible")]
