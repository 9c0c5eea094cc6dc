"""The auditor archives what witnesses say, on a real PostgreSQL: only with valid signatures; what they refuse is an alarm."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.bench.synthetic import long_log
from tests.kits.archive import Auditor, Log, query
from tests.kits.witness import RunningWitness

from bailiff import Client
from bailiff.audit.cosignatures import ask
from bailiff.audit.log_sources import from_archive, from_kafka
from bailiff.audit.verify import chain_of, verified
from bailiff.client.rejections import REFUSALS
from bailiff.witness.witnesses import WitnessAddress
from bailiff_auditor import cosignatures
from bailiff_auditor.service import AuditorService
from bailiff_auditor.settings import AuditorSettings
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused, LogSealed
from bailiff_core.model.message import MessageBody
from bailiff_log.checkpoints import Checkpoint, log_key, witness_key
from bailiff_log.cosignatures import MAX_WITNESSES, parse_cosignature, signed_refusal
from bailiff_log.cosigner import Cosigner
from bailiff_log.signed_notes import KeyKind, Note, NoteKey
from bailiff_service.clock_and_ids import ClockAndIds

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
        private = witness.service._private
        for as_whom, key in ((impostor, b"\x07" * 32), (own, b"\x07" * 32), (own, None), (own, private)):
            reason = "the seals end with 300 records" if key == private else "invented"
            refusal = CheckpointRefused(witness=as_whom, cosigned=newest.checkpoint, reason=reason, refused_at=1)
            publish(log, refusal if key is None else signed_refusal(refusal, log.pool, key))

        async def archived_all() -> bool:
            return any(row["kind"] == "CheckpointRefused" for row in await query(database, stored))

        await auditor.until("the refusal is archived", archived_all)
        await auditor.until("an alarm is raised", log.alarms)
    rows = [tuple(row.values()) for row in await query(database, stored)]
    assert rows[0] == ("CheckpointCosigned", 200)
    assert rows[-2:] == [("CheckpointCosigned", 400), ("CheckpointRefused", 400)]
    assert isinstance(honest, CheckpointCosigned)
    assert log.alarms() == ["witness-refused"]
    (alarm,) = [unwrap(each).body.to_data()["text"] for each in log.cluster.messages(topics.ALARMS.name, 0)]
    assert "the seals end with 300 records" in alarm, "no refusal that its witness has not signed is one"
    async with from_archive(database, None) as source:
        found = await verified(source, (), 1, [WitnessAddress(witness.service.key)])
    assert (found["ok"], found["witnesses"]["cosigned"]) == (True, 400)


@pytest.mark.parametrize("auditor_is", ["down", "running"])
async def test_of_a_topic_made_anew_every_cosignature_is_archived(database: str, tmp_path: Path, auditor_is: str) -> None:
    """Also at an offset that another one had in the topic before."""
    log = Log()
    log.append(WIRES[:200])

    async def cosigned(*wanted: tuple[int, int]) -> bool:
        rows = await query(database, 'SELECT witness, size FROM cosignatures ORDER BY "offset"')
        return [(int(row["witness"].split(".")[0][1:]), row["size"]) for row in rows] == [*wanted]

    cosigned_first = list[CheckpointCosigned]()

    def made_anew(by: int) -> None:
        log.cluster.delete_topic(topics.COSIGNATURES.name)
        log.cluster.create_topics(1)
        for body in (*cosigned_first, *(cosigned_by(log, number, tmp_path / f"w{number}") for number in range(2, by + 1))):
            publish(log, body)

    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 200)
        cosigned_first.append(cosigned_by(log, 1, tmp_path / "w1"))
        publish(log, cosigned_first[0])
        await auditor.until("it is archived", lambda: cosigned((1, 200)))
        if auditor_is == "running":
            made_anew(3)
            await auditor.until("all are archived", lambda: cosigned((1, 200), (2, 200), (3, 200)))
    if auditor_is == "down":
        made_anew(3)
    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        await auditor.until("all are archived", lambda: cosigned((1, 200), (2, 200), (3, 200)))
    assert log.alarms() == ["topic-made-anew"]


def cosigned_by(log: Log, number: int, folder: Path) -> CheckpointCosigned:
    """What an invented witness makes of the newest seal."""
    (*_, seal) = [body for each in log.cluster.messages(topics.SEALS.name, 0) if isinstance(body := unwrap(each).body, LogSealed)]
    private = bytes([number]) * 32
    key = witness_key(f"w{number}.example", private)
    origin = Checkpoint.parse(Note.parse(seal.checkpoint).text).origin
    note = Cosigner(folder, key, private, lambda: 1).add_checkpoint(seal.checkpoint, [log_key(origin, seal.key)], 0, [])
    return CheckpointCosigned(witness=str(key), checkpoint=str(note))


async def test_no_invented_witnesses_hide_the_refusal_of_one_that_cosigned_before_them(database: str, tmp_path: Path) -> None:
    """Nor fill the archive, nor what a reader remembers. Also when the auditor was restarted: who cosigned first is in it."""
    log = Log()
    log.append(WIRES[:200])

    def refuses(number: int, witness: CheckpointCosigned, reason: str, at: int = 1) -> None:
        refusal = CheckpointRefused(witness=witness.witness, cosigned=witness.checkpoint, reason=reason, refused_at=at)
        publish(log, signed_refusal(refusal, log.pool, bytes([number]) * 32))

    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 200)
        cosigned = {number: cosigned_by(log, number, tmp_path / f"w{number}") for number in range(1, MAX_WITNESSES + 6)}
        for each in [*cosigned.values()] * 3:
            publish(log, each)
        for at in range(2):
            for number in range(MAX_WITNESSES + 1, MAX_WITNESSES + 6):
                refuses(number, cosigned[number], f"invented {at}", at)

        async def all_read() -> bool:
            (row,) = await query(database, "SELECT cosignatures_offset FROM pools")
            return bool(row["cosignatures_offset"] == log.cluster.partitions(topics.COSIGNATURES.name)[0].end)

        await auditor.until("all are read", all_read)
        assert log.alarms() == [], "of witnesses that came after twenty others"
    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        for number in range(2, MAX_WITNESSES + 6):
            refuses(number, cosigned[number], "invented once more")
        for reason in ("the seals end with 100 records", "again", "and again"):
            refuses(1, cosigned[1], reason)
        await auditor.until("all are read", all_read)
        for each in [*cosigned.values()] * 3:
            publish(log, each)
        log.wait(2 * 3600)
        refuses(1, cosigned[1], "the seals end with 100 records")
        await auditor.until("all are read", all_read)
    rows = await query(database, "SELECT kind, count(*) FROM cosignatures GROUP BY kind ORDER BY kind")
    assert [row["count"] for row in rows] == [MAX_WITNESSES, MAX_WITNESSES], "of those that cosigned first, each once"
    async with Client(log.cluster.client("c"), source="test") as client:
        known = cosigned[MAX_WITNESSES + 5].witness
        read = (await from_kafka(client, log.pool, {known})).cosignatures
    assert len(read) == len({(each.witness, type(each)) for each in read}) == 2 * (MAX_WITNESSES + 1)
    assert known in {each.witness for each in read}, "who is known counts, whoever came before"
    texts = [unwrap(each).body.to_data()["text"] for each in log.cluster.messages(topics.ALARMS.name, 0)]
    assert len([text for text in texts if "w1.example" in text]) == 1
    assert "the seals end with 100 records" in next(text for text in texts if "w1.example" in text)
    assert len(texts) == MAX_WITNESSES


async def test_no_invented_witnesses_crowd_a_named_one_out_of_the_archive(database: str, tmp_path: Path) -> None:
    """They cosigned first, and as many as are kept: the archive still shows what the named one cosigns and refuses."""
    log = Log()
    log.append(WIRES[:200])
    async with Auditor(log, database, tmp_path / "a", **EVERY).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 200)
    *invented, own = (cosigned_by(log, number, tmp_path / f"w{number}") for number in range(1, MAX_WITNESSES + 4))
    for each in (*invented, own):
        publish(log, each)
    refusal = CheckpointRefused(
        witness=own.witness, cosigned=own.checkpoint, reason="the seals end with 100 records", refused_at=1
    )
    publish(log, signed_refusal(refusal, log.pool, bytes([MAX_WITNESSES + 3]) * 32))
    named = (f"{own.witness} http://127.0.0.1:1",)
    async with Auditor(log, database, tmp_path / "a", witness_keys=named, **EVERY).running() as auditor:
        await auditor.until("an alarm is raised", log.alarms)
    rows = await query(database, 'SELECT kind, witness FROM cosignatures ORDER BY "offset"')
    assert [(row["kind"], row["witness"]) for row in rows] == [
        *(("CheckpointCosigned", each.witness) for each in invented[:MAX_WITNESSES]),
        ("CheckpointCosigned", own.witness),
        ("CheckpointRefused", own.witness),
    ]
    async with from_archive(database, None) as source:
        found = await verified(source, (), 1, [WitnessAddress(NoteKey.parse(own.witness, KeyKind.COSIGNATURE))])
    assert (found["ok"], found["witnesses"]["cosigned"]) == (True, 200)


async def test_a_named_witness_that_cosigns_no_seal_for_ten_minutes_is_an_alarm_every_hour(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosignatures, "WAIT", 0.05)
    at = [1_800_000_000_000_000]
    log = Log()
    auditor = Auditor(log, database, tmp_path / "a", **EVERY)
    own = str(witness_key("w1.example", b"\x01" * 32))
    values = {"witness_keys": (own,), "postgres": database, "pools": tmp_path / "a/pools.yaml", "state_dir": tmp_path / "state"}
    clock = ClockAndIds(wall=lambda: at[0])
    auditor.service = AuditorService(
        AuditorSettings(**values, **EVERY), auditor.metrics, auditor.bus, auditor.raised_alarms, clock_and_ids=clock
    )

    def texts() -> list[str]:
        return [str(unwrap(each).body.to_data()["text"]) for each in log.cluster.messages(topics.ALARMS.name, 0)]

    async def passes(seconds: int) -> None:
        """So that what is due after this time was looked for."""
        at[0] += seconds * 1_000_000
        looked[:] = []
        await auditor.until("it looked again", lambda: len(looked) > 1)

    looked = list[int]()
    look = cosignatures.CosignatureArchiver._miss_silent

    async def counted(archiver: cosignatures.CosignatureArchiver) -> None:
        await look(archiver)
        looked.append(1)

    monkeypatch.setattr(cosignatures.CosignatureArchiver, "_miss_silent", counted)
    async with auditor.running():
        await passes(3600)
        assert texts() == [], "no seal, nothing to cosign"
        log.append(WIRES[:100])
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 100)
        publish(log, cosigned_by(log, 1, tmp_path / "w"))
        await passes(3600)
        assert texts() == []
        log.append(WIRES[100:200])
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 200)
        await passes(599)
        assert texts() == []
        await passes(2)
        assert texts() == ["pool-a: the witness w1.example has cosigned 100 records, and no seal of the last 10m01s"]
        await passes(3500)
        assert len(texts()) == 1
        await passes(100)
        assert "and no seal of the last 1h10m" in texts()[1]
        publish(log, cosigned_by(log, 1, tmp_path / "w2"))
        await passes(7200)
        assert len(texts()) == 2
    assert set(log.alarms()) == {"witness-silent"} <= REFUSALS, "doctor and the console show it"


def test_a_text_that_is_no_witness_is_refused_when_the_auditor_starts() -> None:
    with pytest.raises(ValidationError, match="is not a key of a signed note"):
        AuditorSettings(postgres="postgresql://x", witness_keys=("w1",))


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
