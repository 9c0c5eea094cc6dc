"""The auditor archives what witnesses say, on a real PostgreSQL: only with valid signatures; what they refuse is an alarm."""

from pathlib import Path

from tests.bench.synthetic import long_log
from tests.kits.archive import Auditor, Log, query
from tests.kits.witness import RunningWitness

from bailiff.audit.cosignatures import ask
from bailiff.audit.log_sources import from_archive
from bailiff.audit.verify import chain_of, verified
from bailiff.witness.witnesses import WitnessAddress
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused
from bailiff_core.model.message import MessageBody
from bailiff_log.checkpoints import witness_key
from bailiff_log.cosignatures import parse_cosignature

WIRES = long_log(400)[:400]
EVERY = {"seal_records": 100, "seal_seconds": 3600}


def published(log: Log) -> list[CheckpointCosigned | CheckpointRefused]:
    messages = log.cluster.messages(topics.COSIGNATURES.name, 0)
    return [body for message in messages if (body := parse_cosignature(message, log.pool)) is not None]


def publish(log: Log, body: MessageBody) -> None:
    headers, value = wrap(body, source="/test", id=str(len(published(log))), pool=log.pool, time_us=1)
    log.cluster.store(topics.COSIGNATURES.name, 0, log.pool.encode(), headers, value)


async def test_cosignatures_are_archived_and_what_anybody_made_is_not(database: str, tmp_path: Path) -> None:
    log = Log()
    log.append(WIRES[:200])
    stored = 'SELECT kind, size FROM cosignatures ORDER BY "offset"'
    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 200)
        async with RunningWitness(log, tmp_path / "w").running() as witness:
            await witness.until(lambda: published(log))
            log.append(WIRES[200:])
            await auditor.until("it is cosigned", lambda: len(published(log)) >= 2)
            await auditor.until("and sealed", lambda: auditor.value("bailiff_sealed_records") == 400)
            await witness.until(lambda: witness.metrics.text().count(b'bailiff_sealed_records{pool="pool-a"} 400.0'))
        (honest, *_, newest) = published(log)
        own, impostor = str(witness.service.key), str(witness_key(witness.service.key.name, b"\x07" * 32))
        publish(log, CheckpointCosigned(witness=impostor, checkpoint=newest.checkpoint))
        publish(log, CheckpointCosigned(witness=own, checkpoint=newest.checkpoint.replace("\n400\n", "\n500\n")))
        publish(log, CheckpointRefused(witness=impostor, cosigned=newest.checkpoint, reason="invented"))
        publish(log, CheckpointRefused(witness=own, cosigned=newest.checkpoint, reason="the seals end with 300 records"))

        async def archived_all() -> bool:
            return any(row["kind"] == "CheckpointRefused" for row in await query(database, stored))

        await auditor.until("the refusal is archived", archived_all)
        await auditor.until("an alarm is raised", log.alarms)
    rows = [tuple(row.values()) for row in await query(database, stored)]
    assert rows[0] == ("CheckpointCosigned", 200)
    assert rows[-2:] == [("CheckpointCosigned", 400), ("CheckpointRefused", 400)]
    assert isinstance(honest, CheckpointCosigned)
    assert log.alarms() == ["witness-refused"]
    async with from_archive(database, None) as source:
        found = await verified(source, (), 1, [WitnessAddress(witness.service.key)])
    assert (found["ok"], found["witnesses"]["cosigned"]) == (True, 400)


async def test_an_archive_restored_from_an_older_copy_is_found(database: str, tmp_path: Path) -> None:
    log = Log()
    log.append(WIRES[:300])
    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 300)
    settings = {"witness_port": 0}
    async with RunningWitness(log, tmp_path / "w", **settings).running() as witness:
        await witness.until(lambda: published(log))
        address = WitnessAddress(witness.service.key, witness.service.http_address)
        async with from_archive(database, None) as source:
            asked = await ask(chain_of(source)[0], [address])
            assert (await verified(source, (), 0, [address], asked))["ok"]
        await query(database, "DELETE FROM records WHERE seq >= 200")
        await query(database, "DELETE FROM seals WHERE size > 200")
        await query(database, "UPDATE pools SET next_seq = 200, next_offset = 200, head_offset = 199")
        async with from_archive(database, None) as source:
            asked = await ask(chain_of(source)[0], [address])
            found = await verified(source, (), 0, [address], asked)
    assert not found["ok"]
    assert "cosigned 300 records" in found["witnesses"]["problems"][0]
    assert "the log ends with record 199" in found["witnesses"]["problems"][0]
