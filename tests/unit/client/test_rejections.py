"""What was rejected and refused, by code and source: in `bailiff doctor` and for the console's overview."""

from pathlib import Path

from tests.kits.signed_pool import DAY, START, SignedPool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff.client.rejections import Rejection, all_rejections, orphans, refusal_alarms, rejected_inputs
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.messages.progress import StartEviction
from bailiff_core.fold.log import MAX_REJECTED
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import InputRejected
from bailiff_core.records.job_requests import CancelJob
from bailiff_log.message_signatures import wrap_signed


def by_code(rows: list[Rejection]) -> dict[str, Rejection]:
    return {row.code: row for row in rows}


@in_virtual_time
async def test_each_kind_is_listed_with_its_count_and_its_newest(tmp_path: Path) -> None:
    async with SignedPool(tmp_path) as pool:
        headers, value = pool.signed(None, StartEviction(job="low", attempt=1, decided_by=1))
        for _ in range(3):
            pool.send(topics.EVICTION_PROGRESS.name, headers, value)
        await pool.until("all are rejected", lambda _: len(pool.facts(InputRejected)) == 3)
        pool.request(CancelJob(job="nowhere"))
        await pool.until_rejected("no-such-job")
        kept = pool.messages(topics.AUDIT.name)[3]
        pool.send(topics.AUDIT.name, kept.headers, kept.value)
        last = pool.messages(topics.AUDIT.name)[-1]
        pool.submit("later", gpus=1)
        await pool.until("the log continues", lambda state: "later" in state.jobs)
        rows = rejected_inputs(pool.state)
        assert [(row.code, row.source, row.count) for row in rows] == [
            ("no-such-job", "/tests (not verified)", 1),
            ("not-signed", f"{topics.EVICTION_PROGRESS.name} (not verified)", 3),
        ]
        assert "/somebody" in by_code(rows)["not-signed"].text
        assert pool._projection is not None
        (orphan,) = orphans(pool._projection.reader)
        assert (orphan.count, f"offset {last.offset}" in orphan.text) == (1, True)


@in_virtual_time
async def test_alarms_of_somebody_without_a_key_are_shown_as_such(tmp_path: Path) -> None:
    async with SignedPool(tmp_path) as pool:
        auditor = pool.certify("auditor", "auditor")
        about = {"source": "/bailiff/pool-a/auditor", "id": "1", "pool": "pool-a", "time_us": START + DAY}
        true = Alarm(severity="critical", code="proposal-not-reproduced", text="#12 is not reproduced")
        false = Alarm(severity="critical", code="seal-foreign", text="trust me")
        other = Alarm(severity="warning", code="device-quarantined", text="not about a sender")
        for headers, value in (
            *(wrap_signed(auditor, true, **about), wrap_signed(auditor, true, **about), wrap(false, **about)),
            *(wrap(other, **about), ((), b"\xff"), (wrap(false, **about | {"pool": "pool-b"}))),
        ):
            pool.send(topics.ALARMS.name, headers, value)
        rows = await refusal_alarms(pool.cluster.client("doctor"), pool.state)
        assert rows is not None
        assert {(row.code, row.source, row.count) for row in rows} == {
            ("proposal-not-reproduced", "auditor", 2),
            ("seal-foreign", "not verified", 1),
        }


@in_virtual_time
async def test_whoever_invents_sources_hides_no_alarm(tmp_path: Path) -> None:
    """Alarms come before rejected inputs, of which only the first are listed."""
    async with SignedPool(tmp_path) as pool:
        for number in range(3):
            pool.send(
                topics.REQUESTS.name,
                *wrap(CancelJob(job="nowhere"), source=f"/{number}", id="1", pool="pool-a", time_us=START),
            )
        await pool.until_rejected("no-such-job")
        about = {"source": "/bailiff/pool-a/auditor", "id": "1", "pool": "pool-a", "time_us": START + DAY}
        alarm = Alarm(severity="critical", code="request-not-verified", text="#12 is not verified")
        pool.send(topics.ALARMS.name, *wrap_signed(pool.certify("auditor", "auditor"), alarm, **about))
        assert pool._projection is not None
        rows, alarms_read = await all_rejections(pool.cluster.client("doctor"), pool.state, pool._projection.reader)
        assert (rows[0].code, {row.kind for row in rows[1:]}, alarms_read) == ("request-not-verified", {"rejected"}, True)


def test_whoever_invents_sources_fills_no_memory() -> None:
    from bailiff_core.fold.log import input_rejected

    state = PoolState()
    for number in range(3 * MAX_REJECTED):
        state.seq, state.now = number, number
        fact = InputRejected(
            topic="t", partition=0, offset=number, digest="0" * 64, code="bad-field", reason="x" * 2000, source=f"/{number}"
        )
        input_rejected(state, fact)
    assert len(state.rejected) == MAX_REJECTED
    assert rejected_inputs(state)[0].source == f"/{3 * MAX_REJECTED - 1} (not verified)"
    assert max(len(row.text) for row in rejected_inputs(state)) <= 300
