"""A job that its node saves is preempted once: what is on record for each thing that can come of it."""

import pytest

from bailiff_core.model.work_lost import recorded_loss
from bailiff_core.records.decisions import JobRequeued
from bailiff_core.records.facts import EvictionStageReached, TaskExited, TaskRestored, TaskRestoreFailed

from .played import Played, submit
from .test_losses import SECOND

RUNS_S = 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "stages", "restored", "lost"),
    [
        ("works:0.5", ["frozen", "dumped", "stored"], True, False),
        ("lost:0.5", ["frozen", "dumped", "stored"], False, False),
        ("fails:0.5", ["frozen", "save_failed", "term_sent"], None, True),
        ("killed:0.5", ["frozen", "save_failed", "kill_sent"], None, True),
        ("works:99", ["frozen", "save_failed", "term_sent", "kill_sent"], None, True),
    ],
)
def test_each_outcome_of_a_snapshot_is_on_record(outcome: str, stages: list[str], restored: bool | None, lost: bool) -> None:
    env = {"BAILIFF_SIM_SNAPSHOT": outcome}
    saved = submit(1.0, "saved", 8, grace=20 * SECOND, env=env, checkpoint="snapshot", run_for=RUNS_S)
    played = Played(saved, submit(101.0, "high", 8, cls="inference", run_for=3))
    facts = [record.data for record in played.records]
    assert [fact.stage for fact in facts if isinstance(fact, EvictionStageReached)] == ["noticed", *stages]
    assert [isinstance(fact, TaskRestored) for fact in facts if isinstance(fact, TaskRestored | TaskRestoreFailed)] == (
        [] if restored is None else [restored]
    )
    [requeued] = [fact for fact in facts if isinstance(fact, JobRequeued)]
    loss = recorded_loss(played.state, 8000, requeued.lost_gpu_ms)
    assert (loss.work > 0) == lost
    *_, end = (record for record in played.records if isinstance(record.data, TaskExited) and record.data.job == "saved")
    began = next(record.time for record in played.records if record.data is not None and record.data.NAME == "JobPlaced")
    assert (end.time - began < 1.5 * RUNS_S * SECOND) == (restored is True), "what was saved is not done again"


@pytest.mark.parametrize(("outcome", "continues"), [("works:0.5", True), ("lost:0.5", False)])
def test_a_gang_is_saved_and_continues_or_starts_anew_whole(outcome: str, continues: bool) -> None:
    env = {"BAILIFF_SIM_SNAPSHOT": outcome}
    saved = submit(1.0, "saved", 4, tasks=2, grace=20 * SECOND, env=env, checkpoint="snapshot", run_for=RUNS_S)
    played = Played(saved, submit(101.0, "high", 8, cls="inference", run_for=3))
    facts = [record.data for record in played.records]
    stages = [fact.stage for fact in facts if isinstance(fact, EvictionStageReached) and fact.job == "saved"]
    assert sorted(stages[:4]) == ["frozen"] * 2 + ["noticed"] * 2
    assert sorted(stages[4:]) == ["dumped"] * 2 + ["stored"] * 2
    restored = [fact.waits for fact in facts if isinstance(fact, TaskRestored)]
    failed = [fact.task for fact in facts if isinstance(fact, TaskRestoreFailed)]
    assert (restored, len(failed)) == (([True, True, False, False], 0) if continues else ([], 2))
