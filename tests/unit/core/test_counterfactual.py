"""Why one victim and not another, and which would be next: searched again on the state of that time."""

import random

import pytest
from tests.kits.log_builder import MINUTE, Story, folded, policy
from tests.kits.story_script import play

from bailiff_core.explain import explain_counterfactual, explain_next_victims
from bailiff_core.explain.counterfactual import Counterfactual, cheaper, counterfactual, next_victims
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records import decisions, facts


def asked(story: Story, other: str) -> tuple[Counterfactual, int]:
    """Of the newest decision, what would have been with the other one, or without it."""
    decision = next(record for record in reversed(story.records) if isinstance(record.data, decisions.PreemptionDecided))
    texts = story.records[: decision.seq]
    proposal = next(record.data for record in reversed(texts) if isinstance(record.data, facts.ProposalReceived))
    assert isinstance(proposal, facts.ProposalReceived)
    state = folded(story.wires[: proposal.computed_at + 1])
    before = state_digest(state)
    assert isinstance(decision.data, decisions.PreemptionDecided)
    found = counterfactual(state, decision.data, proposal.proposals, other)
    assert state_digest(state) == before
    return found, decision.seq


def sentences(found: Counterfactual, seq: int) -> str:
    return " ".join(each.text for each in explain_counterfactual(found, seq).sentences)


def crowded() -> Story:
    """Eight GPUs: old and young trains, one that is not preemptible; an inference job takes two GPUs of the youngest."""
    story = play(
        "node n1: 8 gpus; runs old: 2 gpus; runs fixed: 2 gpus, preemptible false; runs one: 1 gpu; runs other: 1 gpu",
        "+5m; runs young: 2 gpus; +1m; submit high: inference, 2 gpus; propose",
    )
    assert story.job("young").eviction is not None
    return story


def test_a_shielded_job_is_explained_by_its_rule() -> None:
    found, seq = asked(crowded(), "fixed")
    assert found.rule == "not-preemptible"
    assert sentences(found, seq) == "Rule not-preemptible protected fixed from preempt: it is not preemptible."


def test_an_alternative_victim_is_explained_by_its_cost() -> None:
    found, seq = asked(crowded(), "old")
    assert (found.jobs, found.needless, found.proven) == (("old",), False, True)
    assert found.cost is not None
    assert found.chosen_cost is not None
    assert (found.cost.lost_gpu_ms, found.chosen_cost.lost_gpu_ms) == (2 * 420_000, 2 * 120_000)
    texts = sentences(found, seq)
    assert "No rule protected old" in texts
    assert "work lost and restarts, 14.0 GPU-min against 4.0 GPU-min of the chosen set" in texts


def test_a_job_too_small_alone_is_a_victim_together_with_others() -> None:
    found, _ = asked(crowded(), "one")
    assert found.jobs == ("one", "other")
    assert not found.needless


def test_a_job_whose_eviction_frees_nothing_useful_is_reported_as_such() -> None:
    story = play(
        "node n1: 4 gpus; node n2: 2 gpus; runs wide: 4 gpus; runs small: 2 gpus; +1m; submit high: inference, 4 gpus; propose"
    )
    found, seq = asked(story, "small")
    assert found.needless
    assert "would gain nothing" in sentences(found, seq)


def test_a_victim_is_explained_by_the_best_set_without_it() -> None:
    story = crowded()
    found, seq = asked(story, "young")
    assert found.chosen
    assert found.jobs == ("old",)
    assert "Without young, searched again, old would be preempted: that costs 2 GPUs of priority 50" in sentences(found, seq)


def test_a_job_without_resources_at_that_time_is_no_candidate() -> None:
    story = play("node n1: 2 gpus; runs low: 2 gpus; submit waits: 2 gpus; +1m; submit high: inference, 2 gpus; propose")
    found, seq = asked(story, "waits")
    assert found.rule == "absent"
    assert "had no resources allocated at that time" in sentences(found, seq)


@pytest.mark.slow
def test_nothing_is_cheaper_than_what_was_proven() -> None:
    """For any forced or excluded victim, on small random pools: the chosen set never costs more."""
    compared = 0
    for seed in range(12):
        texts = random.Random(seed)
        story = Story(policy(preemption={"actions": ["allocate", "preempt"]}))
        for number in range(2):
            story.node(f"n{number}", gpus=4)
        for number in range(8):
            story.submit(f"j{number}", gpus=texts.choice((1, 1, 2, 3)), after=texts.randrange(1, 20) * MINUTE)
            for name in list(story.state.starting):
                story.started(name)
        story.submit("high", gpus=texts.choice((2, 3, 4)), cls="inference", after=MINUTE)
        if story.state.selection is None:
            continue
        story.propose()
        decided = [record.data for record in story.records if isinstance(record.data, decisions.PreemptionDecided)]
        if not decided or not decided[-1].explanation.proven:
            continue
        for name in [name for name in story.state.jobs if name != "high"]:
            found, _ = asked(story, name)
            if found.cost is not None and found.chosen_cost is not None:
                compared += 1
                assert not cheaper(found.cost, found.chosen_cost), (seed, name, found)
                assert found.chosen == (name not in found.jobs)
    assert compared > 20


def test_the_next_victim_is_searched_on_the_pool_after_the_decision() -> None:
    story = crowded()
    found = next_victims(story.state, "high")
    assert (found.action, found.jobs) == ("preempt", ("old",))
    texts = explain_next_victims(found, "high", 7)
    assert texts.question == "Which jobs would another job like high preempt?"
    assert texts.sentences[0].text.startswith("old, action preempt, at 2 GPUs of priority 50")
    play("+1s; yields young; started high; +1h; ends high 0; ends old 0", story=story)
    assert (
        explain_next_victims(next_victims(story.state, "high"), "high", 7).sentences[0].text
        == "None: it would fit without evictions."
    )


def test_there_is_no_next_victim_where_all_are_shielded() -> None:
    story = play("node n1: 2 gpus; runs low: 2 gpus; +1m; submit high: inference, 2 gpus; propose")
    texts = explain_next_victims(next_victims(story.state, "high"), "high", 7).sentences[0].text
    assert texts.startswith("No victims were found for it")
