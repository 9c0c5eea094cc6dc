"""Weak spots of the peers (semantics §7) that no snapshot can show, because they lie in what comes after the decision.

Those that one can show are in tests/scenarios; the last test here holds that none of the list is missing.
"""

from pathlib import Path

import pytest
import yaml
from tests.log_builder import MINUTE, SECOND, Story

from bailiff_core.records import decisions

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture
def noticed() -> Story:
    """low is being evicted for high and has got TERM: it is inside its grace window."""
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4, max_failures=3)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    story.begin("low")
    story.staged("low", "noticed")
    story.staged("low", "term_sent")
    return story


@pytest.mark.parametrize(
    ("code", "kind", "outcome"),
    [
        (85, "JobRequeued", "preempted"),
        (143, "JobRequeued", "preempted-unclean"),
        (-15, "JobRequeued", "preempted-unclean"),
        (0, "JobRequeued", "preempted"),  # how most shell scripts answer TERM
        (1, "JobRequeued", "failed"),
        (137, "JobRequeued", "failed"),  # a KILL that is not ours: out of memory, perhaps
    ],
)
def test_slurm_an_exit_in_the_grace_window_is_distinct_from_a_preemption(
    noticed: Story, code: int, kind: str, outcome: str
) -> None:
    noticed.ends("low", code, after=5 * SECOND)
    noticed.expect(kind, job="low", outcome=outcome)
    assert noticed.job("low").failures == (outcome == "failed")


def test_slurm_the_same_exit_before_any_notice_is_no_preemption() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("low", gpus=4)
    story.submit("high", gpus=4, cls="inference", after=MINUTE)
    story.propose()
    story.ends("low", 143, after=SECOND)
    story.expect("JobEnded", job="low", outcome="failed")


def test_kai_a_failed_eviction_is_recorded_and_nothing_starts_on_its_resources(noticed: Story) -> None:
    later_decisions = noticed.wait(5 * MINUTE)
    assert [type(each).__name__ for each in later_decisions if isinstance(each, decisions.EvictionStuck)] == ["EvictionStuck"]
    assert noticed.job("high").phase == "pending"
    assert not any(isinstance(each, decisions.JobStarting) for each in later_decisions)


def test_kai_the_decision_is_committed_before_any_notice(noticed: Story) -> None:
    kinds = [type(record.data).__name__ for record in noticed.records]
    assert kinds.index("PreemptionDecided") < kinds.index("EvictionStarted") < kinds.index("EvictionStageReached")


def test_koordinator_a_reservation_whose_resources_are_gone_is_dropped_and_requested_anew(noticed: Story) -> None:
    noticed.node("n2", gpus=4)
    noticed.runs("other", gpus=4)
    noticed.lost("n1", after=MINUTE)
    noticed.expect("ReservationDropped", job="high", reason="resources-lost")
    assert any(asked.job == "high" for asked in noticed.decisions("PreemptionRequested"))
    noticed.propose()
    decided = noticed.expect("PreemptionDecided")
    assert [choice.job for choice in decided.victims] == ["other"]


WEAK_SPOTS = {
    "KAI": ("wall clock", "forgets nominations"),
    "Koordinator": ("one by one", "half alive", "stale ones"),
    "Kueue": ("kueue#6763", "whole workloads"),
    "volcano": ("no opinion", "volcano#4040"),
    "Slurm": ("suspended job",),
    "Determined": ("never polls",),
}


def test_every_other_weak_spot_has_its_scenario() -> None:
    why = [
        f"{scenario.get('why', '')}"
        for file in sorted(SCENARIOS.glob("*.yaml"))
        for scenario in yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["scenarios"]
    ]
    missing = [f"{peer}: {spot}" for peer, spots in WEAK_SPOTS.items() for spot in spots if not any(spot in each for each in why)]
    assert missing == []
