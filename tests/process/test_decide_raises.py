"""A fault in the engine itself: deciding about certain jobs raises. They are rejected or suspended; the pool continues."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.system import System

from bailiff_core.records.decisions import JobPending
from bailiff_core.records.facts import DecisionFailed, InputRejected

# Python runs this before the service: the search for a place fails for jobs of these names.
FAULT = """
from bailiff_core.actions import allocate

find = allocate._find


def faulty(state, unit, backfill):
    job = unit.job
    if job.id.startswith("never-") or (job.id.startswith("not-again-") and job.pending_recorded):
        raise ArithmeticError(f"injected fault for {job.id}")
    return find(state, unit, backfill)


allocate._find = faulty
"""


@pytest.fixture
def faulty(battered: System, tmp_path: Path) -> Iterator[System]:
    """A system whose admission has the fault."""
    (tmp_path / "sitecustomize.py").write_text(FAULT)
    battered.kill("admission")
    battered.stack.start_service("admission", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    yield battered
    battered.kill_and_restart("admission")


async def test_a_job_whose_decision_fails_is_rejected_or_suspended_and_others_continue(faulty: System) -> None:
    async with faulty.watch("pool-a") as pool:
        await pool.clear()
        # Deciding fails in the cycle of its submission, with other jobs: only it is rejected.
        names = ["before", "never-1", "beside", "never-2", "after"]
        for name in names:
            await pool.submit(name, "true", gpus=0)
        for name in ("never-1", "never-2"):
            assert name in await pool.until_alarm("input-failed", mentions=name)
        for name in ("before", "beside", "after"):
            await pool.until_ended(name)
        assert len(pool.facts(InputRejected, code="internal-error")) == 2
        assert set(names) & set(pool.state.jobs) == {"before", "beside", "after"}

        # Deciding fails later, when another job ends and frees resources: it is suspended, and the report is accepted.
        await pool.submit("fills", gpus=8)
        await pool.until_running("fills")
        await pool.submit("not-again-1", gpus=8)
        await pool.record(JobPending, job="not-again-1")
        await pool.submit("next", gpus=8)
        await pool.record(JobPending, job="next")
        await pool.cancel("fills")
        failed = await pool.record(DecisionFailed)
        assert failed.job == "not-again-1"
        assert "ArithmeticError: injected fault for not-again-1" in failed.error
        assert "not-again-1 is suspended: " in await pool.until_alarm("decision-failed")
        await pool.until_ended("fills", "cancelled")
        await pool.until_running("next")
        assert len(pool.facts(InputRejected, code="internal-error")) == 2
        assert pool.job("not-again-1").phase == "pending"

        # Its owner can cancel it; a repaired engine reads the same log.
        await pool.cancel("not-again-1")
        await pool.until_ended("not-again-1", "cancelled")
        await pool.verify(orphans=True)
