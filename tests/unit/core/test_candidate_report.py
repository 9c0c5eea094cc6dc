"""The full lists behind an explanation, made again: they agree with what the record counted."""

import pytest
from tests.kits.log_builder import MINUTE, Story, folded
from tests.kits.story_script import play

from bailiff_core.explain.candidate_report import Candidate, candidates
from bailiff_core.records import decisions, facts


def listed(story: Story) -> tuple[decisions.PreemptionDecided | decisions.PreemptionRefused, list[Candidate]]:
    """The newest decision about victims, and all its candidates."""
    at = next(at for at in reversed(range(len(story.records))) if isinstance(story.records[at].data, KINDS))
    decision = story.records[at].data
    assert isinstance(decision, KINDS)
    proposal = next(record.data for record in reversed(story.records[:at]) if isinstance(record.data, facts.ProposalReceived))
    assert isinstance(proposal, facts.ProposalReceived)
    state = folded(story.wires[: proposal.computed_at + 1])
    return decision, candidates(state, decision, proposal.proposals)


KINDS = (decisions.PreemptionDecided, decisions.PreemptionRefused)


def test_every_candidate_is_listed_with_the_rule_that_shielded_it() -> None:
    story = play(
        "rules {protections: {excluded: [{keep: 'yes'}]}}; node n1: 8 gpus; runs old: 2 gpus",
        "runs fixed: 2 gpus, preemptible false; runs kept: 1 gpu, keep=yes; runs peer: inference, 1 gpu; +5m; runs young: 2 gpus",
        "+1m; submit high: inference, 2 gpus; propose",
    )
    decision, found = listed(story)
    assert isinstance(decision, decisions.PreemptionDecided)
    assert [(each.job, each.rule, each.chosen) for each in found] == [
        ("old", "", False),
        ("fixed", "not-preemptible", False),
        ("kept", "excluded", False),
        ("peer", "not-preemptible", False),
        ("young", "", True),
    ]
    assert {each.job: each.lost_gpu_ms for each in found if not each.rule} == {"old": 2 * 420_000, "young": 2 * 120_000}


def test_the_lists_agree_with_what_the_record_counted() -> None:
    story = play("node n1: 8 gpus")
    for number in range(6):
        story.runs(f"j{number}", gpus=1, preemptible=number % 3 != 0)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    decision, found = listed(story)
    why = decision.explanation
    assert why.candidates == len({each.job for each in found if not each.rule})
    assert {group.rule: group.jobs for group in why.excluded} == {"not-preemptible": 2}
    assert [each.job for each in found if each.rule] == ["j0", "j3"]


def test_a_refusal_has_a_list_of_candidates() -> None:
    story = play("node n1: 2 gpus; runs a: 1 gpu; runs b: 1 gpu, preemptible false; submit high: inference, 2 gpus; propose")
    decision, found = listed(story)
    assert isinstance(decision, decisions.PreemptionRefused)
    assert [(each.job, each.rule, each.chosen) for each in found] == [("a", "", False), ("b", "not-preemptible", False)]


def test_victims_of_an_earlier_proposal_are_being_evicted_already() -> None:
    story = play("node n1: 2 gpus; runs a: 1 gpu; runs b: 1 gpu")
    story.cycle(
        story.submitted("first", gpus=1, cls="inference"), story.submitted("second", gpus=1, cls="inference"), after=MINUTE
    )
    story.propose()
    decision, found = listed(story)
    assert isinstance(decision, decisions.PreemptionDecided)
    assert decision.preemptor.job == "second"
    assert sorted((each.rule, each.chosen) for each in found) == [("", True), ("already-evicting", False)]


@pytest.mark.parametrize(
    ("elastic", "losses"),
    [
        ("live", [360_000, 120_000, 480_000]),
        ("restart", [960_000, 0, 0]),  # whoever leaves first restarts all
    ],
)
def test_an_elastic_job_loses_its_surplus_before_its_core_and_the_amounts_add_up(elastic: str, losses: list[int]) -> None:
    story = play("node n1: 8 gpus")
    story.runs("wide", gpus=1, tasks=8, min_tasks=4, elastic=elastic)
    story.submit("high", gpus=3, cls="inference", after=MINUTE)
    story.propose()
    decision, found = listed(story)
    assert isinstance(decision, decisions.PreemptionDecided)
    assert [(each.tasks, each.after, each.chosen) for each in found] == [
        ("5-7", "", True),
        ("4", "5-7", False),
        ("0-3", "4-7", False),
    ]
    assert [each.lost_gpu_ms for each in found] == losses
    assert sum(losses) == 8 * 120_000
    assert sum(each.lost_gpu_ms for each in found if each.chosen) == decision.victims[0].lost_gpu_ms
    assert [each.gpu_milli for each in found] == [3000, 1000, 4000]
