"""What was rejected and refused, by code and source: in `bailiff doctor` and for the console's overview."""

from pathlib import Path

import pytest
from tests.kits.signed_pool import DAY, START, SignedPool, in_signed_pool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff.client import rejections
from bailiff.client.rejections import MAX_KINDS, PoolAlarms, Rejection, all_rejections, orphans, rejected_inputs
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


@in_signed_pool
async def test_each_kind_is_listed_with_its_count_and_its_newest(pool: SignedPool) -> None:
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


@in_signed_pool
async def test_alarms_of_somebody_without_a_key_are_shown_as_such(pool: SignedPool) -> None:
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
    rows = await PoolAlarms(pool.cluster.client("doctor")).read(pool.state)
    assert rows is not None
    first, *others = [(row.code, row.source, row.count) for row in rows]
    assert first == ("proposal-not-reproduced", "auditor", 1)  # sent again by somebody: the same alarm
    assert sorted(others) == [("device-quarantined", "not verified", 1), ("seal-foreign", "not verified", 1)]


@in_signed_pool
async def test_whoever_invents_sources_hides_no_alarm(pool: SignedPool) -> None:
    """Alarms come before rejected inputs, of which only the first are listed."""
    for number in range(3):
        pool.send(
            topics.REQUESTS.name, *wrap(CancelJob(job="nowhere"), source=f"/{number}", id="1", pool="pool-a", time_us=START)
        )
    await pool.until_rejected("no-such-job")
    about = {"source": "/bailiff/pool-a/auditor", "id": "1", "pool": "pool-a", "time_us": START + DAY}
    alarm = Alarm(severity="critical", code="request-not-verified", text="#12 is not verified")
    pool.send(topics.ALARMS.name, *wrap_signed(pool.certify("auditor", "auditor"), alarm, **about))
    assert pool._projection is not None
    alarms = PoolAlarms(pool.cluster.client("doctor"))
    rows, alarms_read = await all_rejections(alarms, pool.state, pool._projection.reader)
    assert (rows[0].code, {row.kind for row in rows[1:]}, alarms_read) == ("request-not-verified", {"rejected"}, True)


@pytest.mark.slow
@in_signed_pool
async def test_no_flood_hides_an_alarm(pool: SignedPool) -> None:
    """Neither one of invented kinds, nor one of a proven alarm that somebody sends again, nor one of a stolen role's key."""
    about = {"source": "/bailiff/pool-a/auditor", "pool": "pool-a", "time_us": START + DAY}
    auditor, stolen = pool.certify("auditor", "auditor"), pool.certify("executor", "eviction-executor")
    first = Alarm(severity="critical", code="request-not-verified", text="#12 is not verified")
    pool.send(topics.ALARMS.name, *wrap_signed(auditor, first, **about, id="1"))
    kept = wrap_signed(auditor, Alarm(severity="critical", code="seal-foreign", text="a seal"), **about, id="2")
    alarms = PoolAlarms(pool.cluster.client("console"))
    for _ in range(2):  # the flood is read at once, and goes on
        for number in range(3 * MAX_KINDS):
            alarm = Alarm(severity="critical", code=f"invented-{number}", text="look here")
            pool.send(topics.ALARMS.name, *wrap(alarm, **about, id=str(number)))
            pool.send(topics.ALARMS.name, *wrap_signed(stolen, alarm, **about, id=str(number)))
            pool.send(topics.ALARMS.name, *kept)
        rows = await alarms.read(pool.state)
        assert rows is not None
        assert {(row.code, row.count) for row in rows if row.source == "auditor"} == {
            ("request-not-verified", 1),
            ("seal-foreign", 1),
        }
        assert len(rows) == 2 + 2 * MAX_KINDS
        assert {row.source for row in rows[-MAX_KINDS:]} == {"not verified"}
    pool.send(topics.ALARMS.name, *wrap_signed(auditor, first, **about, id="3"))
    rows = await alarms.read(pool.state)
    assert rows is not None
    assert [row.count for row in rows if row.code == first.code] == [2]


@in_virtual_time
async def test_alarms_that_were_not_read_are_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejections, "MAX_READ", 10)
    async with SignedPool(tmp_path) as pool:
        about = {"source": "/bailiff/pool-a/auditor", "pool": "pool-a", "time_us": START + DAY}
        for number in range(25):
            alarm = Alarm(severity="critical", code="seal-foreign", text="trust me")
            pool.send(topics.ALARMS.name, *wrap(alarm, **about, id=str(number)))
        assert pool._projection is not None
        alarms = PoolAlarms(pool.cluster.client("doctor"))
        rows, _ = await all_rejections(alarms, pool.state, pool._projection.reader)
        assert [(row.code, row.count) for row in rows if row.kind == "alarm"] == [("alarms-unread", 15), ("seal-foreign", 10)]


@in_virtual_time
async def test_alarms_of_a_topic_made_anew_are_all_read(tmp_path: Path) -> None:
    async with SignedPool(tmp_path) as pool:
        about = {"source": "/bailiff/pool-a/auditor", "pool": "pool-a", "time_us": START + DAY}
        alarms, name = PoolAlarms(pool.cluster.client("doctor")), topics.ALARMS.name

        async def shown(code: str, numbers: range) -> list[int]:
            for number in numbers:
                pool.send(name, *wrap(Alarm(severity="critical", code=code, text="a"), **about, id=str(number)))
            return [each.count for each in await alarms.read(pool.state) or () if each.code == code]

        assert await shown("seal-foreign", range(5)) == [5]
        pool.cluster.delete_topic(name)
        pool.cluster.create_topics(1)
        assert await shown("witness-refused", range(5, 25)) == [20]


def test_whoever_claims_sources_hides_no_rejection_of_a_proven_sender() -> None:
    from bailiff_core.fold.log import input_rejected

    state = PoolState()
    about = {"topic": "t", "partition": 0, "digest": "0" * 64, "code": "bad-field", "reason": "no"}
    input_rejected(state, InputRejected(offset=0, sender="alice", source="/1", **about))
    for number in range(3):
        input_rejected(state, InputRejected(offset=1 + number, source=f"/{number}", **about))
    assert [row.source for row in rejected_inputs(state)] == [
        "alice",
        "/2 (not verified)",
        "/1 (not verified)",
        "/0 (not verified)",
    ]


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
