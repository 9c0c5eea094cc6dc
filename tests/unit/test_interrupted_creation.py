"""A log that ends before its first policy: whoever created the pool died, or the tail was cut. Any other replica continues it."""

from pathlib import Path

import pytest
from tests.kits.signed_pool import POOL, START, SignedPool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff_admission.startup_records import first_records
from bailiff_bus import topics
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.facts import PolicyApplied, PoolCreated, WriterStarted
from bailiff_core.replay import Replay
from bailiff_log.credentials import Credentials
from bailiff_log.reader import AuditReader, Entry
from bailiff_log.writer import PreparedRecord, chain_records


def created_by(pool: SignedPool, owner: Credentials | None) -> list[PreparedRecord]:
    """The records with which this replica creates the pool; without credentials, an unsigned one."""
    records = first_records(
        PoolState(),
        POOL,
        0,
        ChainHead(POOL),
        writer="dead",
        time=START,
        first_policy=DEFAULT_POLICY,
        clock_and_ids=pool.clock_and_ids(),
        credentials=owner,
    )
    return chain_records(ChainHead(POOL), records, owner)


async def replayed(pool: SignedPool) -> Replay:
    """The whole log, each signature checked, and each cycle decided again."""
    reader, replay = AuditReader(pool.cluster.client("auditor"), POOL, 0), Replay()
    while reader.offset < len(pool.messages(topics.AUDIT.name)):
        for found in await reader.read_all():
            assert isinstance(found, Entry), found
            replay.feed(found.record, found.wire)
    assert replay.difference is None, replay.difference
    return replay


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("starts", [0, 1, 2], ids=["after PoolCreated", "after a WriterStarted", "after two of them"])
@in_virtual_time
async def test_another_replica_continues_a_log_that_ends_before_its_first_policy(
    tmp_path: Path, signed: bool, starts: int
) -> None:
    pool = SignedPool(tmp_path)
    created = created_by(pool, pool.certify("dead", "admission") if signed else None)
    pool.send(topics.AUDIT.name, created[0][1].headers, created[0][1].value)
    for number in range(starts):  # each dies after the first of its two records
        pool.certify(f"dead-{number}", "admission")
        pool.start_admission(f"dead-{number}", f"dead-{number}")
        await pool.until("it has written both", lambda state: state.policy is not None)
        await pool.stop(f"dead-{number}")
        pool.cluster.truncate(topics.AUDIT.name, 0, 2 + number)
        pool.follow()
    async with pool:
        pool.submit("first")
        await pool.until_running("first")
        kinds = [type(data) for data in pool.facts(object)]
        assert kinds[: starts + 3] == [PoolCreated, *[WriterStarted] * (starts + 1), PolicyApplied]
        assert kinds.count(PolicyApplied) == 1
        assert bool(pool.state.root_key) == signed
        assert (await replayed(pool)).cycles > 0
