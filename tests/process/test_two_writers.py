"""Two admission processes that write to the same pool: every reader follows one chain.

The consumer group normally prevents this. It is bypassed twice: by a process that was paused for longer than its session,
and by one in another group.
"""

import itertools
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.kits.system import System, Watch

from bailiff_core.records.decisions import JobEnded, PreemptionDecided
from bailiff_core.records.facts import EvictionStarted, JobSubmitted, TaskStarted, WriterStarted
from bailiff_log.reader import AuditReader

# The group is not a setting, so that no installation can misconfigure it.
OTHER_GROUP = """
import sys
from bailiff_admission import __main__ as admission, service
from bailiff_service.main import main
service.NAME = "admission-of-another-group"
sys.exit(main(service.AdmissionSettings, admission.build))
"""


@pytest.fixture(scope="module")
def duel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A separate system: its log will contain orphans."""
    with System(tmp_path_factory.mktemp("duel")) as system:
        yield system


async def test_two_writers_at_once(duel: System) -> None:
    async with duel.watch("pool-a") as pool:
        training = [f"duel-{n}" for n in range(8)]
        for name in training:
            await pool.submit(name)
        await pool.until_running(*training)

        # They take the log over from each other repeatedly, while requests are sent.
        # Both sign with one key: it is the chain that fences, and no signature.
        duel.start_rival("admission-rival", OTHER_GROUP, key_of="admission")
        await pool.until("both have written", lambda _: len(writers(pool)) >= 4)
        small = (f"duel-small-{n}" for n in itertools.count())
        submitted = []
        while not pool.projection.reader.orphans:
            submitted.append(next(small))
            await pool.submit(submitted[-1], "true", gpus=0)
            await pool.until("the job is accepted", lambda seen: submitted[-1] in seen.jobs)

        # A preemption meanwhile.
        await pool.submit("duel-urgent", pool.until_signalled(), gpus=4, kind="inference")
        await pool.until_running("duel-urgent")
        pool.let_finish("duel-urgent")
        await pool.until_ended("duel-urgent")
        await pool.until_running(*training)

        # Nothing was accepted, decided or executed twice.
        for name in submitted:
            await pool.until_ended(name)
        for name in training:
            await pool.noted(name, pool.job(name).attempt)
        pool.assert_started_once(*training, "duel-urgent")
        assert set(Counter(fact.demand.job for fact in pool.facts(JobSubmitted)).values()) == {1}
        assert set(Counter(fact.job for fact in pool.facts(JobEnded)).values()) == {1}
        assert set(Counter((fact.job, fact.attempt, fact.task) for fact in pool.facts(TaskStarted)).values()) == {1}
        assert set(Counter((fact.job, fact.attempt) for fact in pool.facts(EvictionStarted)).values()) == {1}
        assert len(pool.facts(PreemptionDecided)) == 1

        # One of them stops; all readers have skipped, counted and reported the same records.
        assert duel.stack.processes.stop("admission-rival").code == 0
        await pool.submit("duel-last", "true", gpus=0)
        await pool.until_ended("duel-last")
        await pool.verify(orphans=True)
        reader = AuditReader(pool.bus, pool.pool, pool.projection.partition)
        await reader.catch_up(ignore)
        await reader.close()
        assert reader.orphans > 0
        assert all(orphan.reason for orphan in reader.latest_orphans)
        for service in ("admission", "victim-selection", "eviction-executor"):

            async def has_counted(service: str = service) -> bool:
                return await duel.metric(service, "bailiff_orphans_total", pool="pool-a") == reader.orphans

            await pool.until_true(f"{service} has counted {reader.orphans} orphans", has_counted)
            assert "orphan record skipped" in duel.log_of(service)


async def test_a_writer_resumed_after_its_session_steps_down(duel: System) -> None:
    async with duel.watch("pool-a") as pool:
        await pool.submit("zombie-before")
        await pool.until_running("zombie-before")

        # The writer is paused during its work; the standby takes over.
        duel.signal("admission", signal.SIGSTOP)
        before = len(writers(pool))
        duel.stack.start_service("admission", replica="-2")
        await pool.submit("zombie-meanwhile")
        await pool.until("the standby writes", lambda _: len(writers(pool)) > before)
        await pool.until_running("zombie-meanwhile")

        # It is resumed; there are new requests that neither has read.
        for number in range(20):
            await pool.submit(f"zombie-{number}", "true", gpus=0)
            if number == 10:
                duel.signal("admission", signal.SIGCONT)
        for number in range(20):
            await pool.until_ended(f"zombie-{number}")
        assert pool.running("zombie-before", "zombie-meanwhile")
        await pool.noted("zombie-meanwhile", attempt=1)
        pool.assert_started_once("zombie-before", "zombie-meanwhile")
        assert set(Counter(fact.demand.job for fact in pool.facts(JobSubmitted)).values()) == {1}
        assert set(Counter((fact.job, fact.attempt, fact.task) for fact in pool.facts(TaskStarted)).values()) == {1}
        await pool.verify(orphans=True)
        duel.stack.processes.wait_ready("admission", "admission-2")


def writers(pool: Watch) -> list[str]:
    """Each writer incarnation in the log."""
    return [fact.writer for fact in pool.facts(WriterStarted)]


async def ignore(_: object) -> None:
    """Ignore the records of a reader."""
