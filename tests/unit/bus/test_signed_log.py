"""A signed log: whoever may append to the topic, but has no certificate of a writer, cannot continue the chain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.memory_bus import MemoryBus, MemoryCluster

from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.model.certificate import RootKeyChange
from bailiff_core.records import Break, ChainHead, LogKeys, Record, Wire, continues, decode, encode, record_hash
from bailiff_core.records.facts import ClockAdvanced, KeyRevoked, PoolCreated, RequestId, RootKeyChanged, WriterStarted
from bailiff_core.records.payload import Fact
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.credentials import Credentials, make_credentials
from bailiff_log.keys import key_id, new_private_key, sign_fields
from bailiff_log.log_signatures import LogSignatureCheck, draft_signed
from bailiff_log.reader import AuditReader, Entry, Orphan
from bailiff_log.writer import AuditWriter, chain_records

from .virtual_time import in_virtual_time

START, DAY, POOL = 1_700_000_000_000_000, 86_400_000_000, "pool-a"
ROOT = new_private_key()

REQUEST = RequestId(source="test", id="1", digest="0" * 64)


def credentials(folder: Path, name: str, root: bytes = ROOT, role: str = "admission", expires: int = START + DAY) -> Credentials:
    return make_credentials(folder / name, root, role=role, name=name, not_before=START - DAY, expires=expires)


def record(seq: int, epoch: int, data: Fact, writer: str, time: int = START) -> Record:
    return Record(
        pool=POOL,
        seq=seq,
        epoch=epoch,
        cycle=seq,
        cycle_end=True,
        time=time,
        prev="",
        writer=writer,
        engine="0",
        policy=0,
        type=data.type_name(),
        data=data,
    )


def first_records(head: ChainHead, owner: Credentials) -> list[Record]:
    started = WriterStarted(
        writer=owner.certificate.name, release="0", digest="0", logic=1, state_schema=1, certificate=owner.certificate
    )
    if head.next_seq:
        return [record(head.next_seq, head.epoch + 1, started, owner.certificate.name)]
    created = PoolCreated(pool=POOL, partition=1, nonce="00", root_key=owner.root_key, certificate=owner.certificate)
    return [record(0, 0, created, "creator"), record(1, 0, ClockAdvanced(), "creator"), record(2, 1, started, "w")]


def append(wires: list[Wire], head: ChainHead, owner: Credentials, *data: Fact, time: int = START) -> ChainHead:
    """The head after these facts, which the owner of these credentials appends together."""
    facts = [record(head.next_seq + at, head.epoch, fact, "w", time) for at, fact in enumerate(data)]
    for _, wire, after in chain_records(head, facts, owner):
        wires.append(wire)
        head = after
    return head


@dataclass
class Log:
    """A signed log with one writer. head: its end."""

    owner: Credentials
    wires: list[Wire]
    head: ChainHead

    def add(self, *data: Fact, owner: Credentials | None = None, time: int = START) -> None:
        self.head = append(self.wires, self.head, owner or self.owner, *data, time=time)

    def take_over(self, owner: Credentials) -> None:
        ((_, wire, self.head),) = chain_records(self.head, first_records(self.head, owner), owner)
        self.wires.append(wire)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    owner = credentials(tmp_path, "w1")
    prepared = chain_records(ChainHead(POOL), first_records(ChainHead(POOL), owner), owner)
    found = Log(owner, [wire for _, wire, _ in prepared], prepared[-1][2])
    found.add(ClockAdvanced(), ClockAdvanced(), ClockAdvanced())
    return found


def verdict(head: ChainHead, wire: Wire) -> str:
    """Why the record does not continue the log; empty if it does."""
    found = continues(head, wire, LogSignatureCheck(POOL))
    return found.reason if isinstance(found, Break) else ""


def walk(wires: Sequence[Wire]) -> ChainHead:
    head = ChainHead(POOL)
    for wire in wires:
        found = continues(head, wire, LogSignatureCheck(POOL))
        assert isinstance(found, ChainHead), found
        head = found
    return head


def forged(head: ChainHead, data: Fact | None = None, **changes: object) -> Record:
    return replace(record(head.next_seq, head.epoch, data or ClockAdvanced(), "intruder"), prev=head.hash, **changes)


def sign_record(record: Record, owner: Credentials) -> Record:
    """The record, appended alone after its `prev`, signed with this key."""
    return draft_signed([record])[0].finish(record.prev, owner)[0]


# --- what an intruder can append


def test_the_log_of_its_writer_is_read_whole(log: Log) -> None:
    assert walk(log.wires) == log.head
    assert log.head.keys == LogKeys(key_id(ROOT), log.owner.certificate.key, "2023-11-15T22:13:20.000000Z")


def test_an_unsigned_record_does_not_continue_the_log(log: Log) -> None:
    assert verdict(log.head, encode(forged(log.head))) == "it is not signed"


def test_a_record_signed_with_another_key_does_not_continue_the_log(log: Log, tmp_path: Path) -> None:
    other = credentials(tmp_path, "w2")  # certified, but not the log's writer
    assert "is not that of the writer's key" in verdict(log.head, encode(sign_record(forged(log.head), other)))


def test_a_signature_fits_one_place_of_the_log_only(log: Log) -> None:
    signature = dict(log.wires[3].headers)["ce_sig"].decode()
    assert "is not that of the writer's key" in verdict(log.head, encode(forged(log.head, signature=signature)))


def test_nobody_can_put_a_record_among_those_appended_together(log: Log) -> None:
    for at in range(4, len(log.wires)):
        head = walk(log.wires[:at])
        assert verdict(head, encode(forged(head))) == "its content is not what the record before it announces"
        longer = dict(log.wires[at].headers) | {"ce_nextcontent": b"0" * 64}
        assert verdict(head, Wire(tuple(longer.items()), log.wires[at].value)).startswith("its content is not")


def test_a_signature_cannot_be_taken_away_or_changed(log: Log) -> None:
    head, wire = walk(log.wires[:3]), log.wires[3]
    without = Wire(tuple(header for header in wire.headers if header[0] != "ce_sig"), wire.value)
    assert verdict(head, without) == "it is not signed"
    other = Wire(tuple((name, b"A" * 86 if name == "ce_sig" else value) for name, value in wire.headers), wire.value)
    assert "is not that of the writer's key" in verdict(head, other)
    assert record_hash(other) != record_hash(wire)  # the hash covers the signature


@pytest.mark.parametrize(
    ("starts", "reason"),
    [
        ({"certificate": None}, "the writer has no certificate"),
        ({"root": new_private_key()}, "is not signed with the pool's root key"),
        ({"role": "eviction-executor"}, "does not permit to act as admission"),
        ({"expires": START - 1}, "is valid from"),
    ],
    ids=["none", "of another root", "of another role", "expired"],
)
def test_a_writer_without_a_valid_certificate_cannot_start(
    log: Log, tmp_path: Path, starts: dict[str, object], reason: str
) -> None:
    without = starts.pop("certificate", "some") is None
    intruder = credentials(tmp_path, "intruder", **starts)  # type: ignore[arg-type]
    started = first_records(log.head, intruder)[0]
    if without:
        assert isinstance(started.data, WriterStarted)
        started = replace(started, data=started.data.model_copy(update={"certificate": None}))
    assert reason in verdict(log.head, encode(sign_record(replace(started, prev=log.head.hash), intruder)))


def test_a_stolen_certificate_is_of_no_use_without_its_key(log: Log, tmp_path: Path) -> None:
    started = replace(first_records(log.head, credentials(tmp_path, "w2"))[0], prev=log.head.hash)
    intruder = replace(log.owner, private_key=new_private_key())
    assert "is not that of the writer's key" in verdict(log.head, encode(sign_record(started, intruder)))


# --- keys come and go


@pytest.mark.parametrize("lost", [0, 1], ids=["after a whole cycle", "after a cycle that was cut short"])
def test_the_next_writer_signs_with_its_own_key(log: Log, tmp_path: Path, lost: int) -> None:
    second, kept = credentials(tmp_path, "w2"), log.wires[: len(log.wires) - lost]
    taken = Log(log.owner, kept, walk(kept))
    taken.take_over(second)
    taken.add(ClockAdvanced(), owner=second)
    assert walk(taken.wires) == taken.head
    assert "is not that of the writer's key" in verdict(taken.head, encode(sign_record(forged(taken.head), log.owner)))


def test_a_revoked_key_signs_nothing_more(log: Log, tmp_path: Path) -> None:
    log.add(KeyRevoked(key=log.owner.certificate.key, request=REQUEST), ClockAdvanced())
    again = sign_record(forged(log.head), log.owner)
    assert "was revoked" in verdict(log.head, encode(again))
    started = replace(first_records(log.head, log.owner)[0], prev=log.head.hash)
    assert "was revoked" in verdict(log.head, encode(sign_record(started, log.owner)))
    log.take_over(credentials(tmp_path, "w2"))
    assert walk(log.wires) == log.head


def test_nothing_is_signed_after_the_certificate_has_expired(log: Log) -> None:
    late = replace(forged(log.head), time=START + 2 * DAY)
    assert "has expired" in verdict(log.head, encode(sign_record(late, log.owner)))


def test_the_root_key_changes_with_the_signature_of_the_one_before_it(log: Log, tmp_path: Path) -> None:
    new_root, identity = new_private_key(), record_hash(log.wires[0])

    def change(signer: bytes) -> RootKeyChanged:
        signature = sign_fields(signer, ["bailiff-root-key-1", identity, key_id(new_root)])
        return RootKeyChanged(change=RootKeyChange(identity=identity, key=key_id(new_root), signature=signature), request=REQUEST)

    wrong = sign_record(forged(log.head, change(new_root)), log.owner)
    assert "is not signed with the one before it" in verdict(log.head, encode(wrong))
    log.add(change(ROOT))
    log.take_over(credentials(tmp_path, "w2", root=new_root))
    assert walk(log.wires).keys.root_key == key_id(new_root)  # type: ignore[union-attr]


# --- readers


def messages(wires: Sequence[Wire]) -> list[Message]:
    return [Message(AUDIT.name, 1, at, START, None, wire.headers, wire.value) for at, wire in enumerate(wires)]


def test_what_an_intruder_appends_is_an_orphan_and_the_chain_is_whole(log: Log) -> None:
    begin = len(log.wires)
    intruded = encode(forged(log.head))
    log.wires.append(intruded)
    log.wires.append(encode(forged(replace(log.head, next_seq=log.head.next_seq + 1, hash=record_hash(intruded)))))
    log.add(ClockAdvanced(), ClockAdvanced())
    verifier = ChainVerifier(POOL)
    for message in messages(log.wires):
        verifier.verify(message)
    found = verifier.verification()
    assert found["ok"]
    assert found["records"] == begin + 2
    assert found["orphans_by_kind"] == {"not-signed": 1, "follows-orphan": 1}
    assert found["orphan_list"][0]["writer"] == "intruder"


@given(data=st.data())
@pytest.mark.slow
def test_one_check_for_many_records_and_one_for_each_find_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A reader checks the newest signature of what it has read at once; the auditor checks each."""
    writers = [credentials(tmp_path_factory.getbasetemp(), name) for name in ("w1", "w2", "w3")]
    owner = writers[0]
    prepared = chain_records(ChainHead(POOL), first_records(ChainHead(POOL), owner), owner)
    log = Log(owner, [wire for _, wire, _ in prepared], prepared[-1][2])
    tampering = ["unsigned", "between", "signed", "repeat", "old", "vouched for", "cut"]
    for _ in range(data.draw(st.integers(0, 8))):
        match data.draw(st.sampled_from(["append", "append", "take over", *tampering])):
            case "append":
                log.add(*[ClockAdvanced()] * data.draw(st.integers(1, 3)), owner=owner)
            case "take over":
                owner = data.draw(st.sampled_from(writers))
                log.take_over(owner)
            case "vouched for":  # whoever has the key of a certified admission continues what its writer has not signed
                begin, intruder = log.head, replace(owner, private_key=new_private_key())
                log.add(*[ClockAdvanced()] * data.draw(st.integers(1, 3)), owner=intruder)
                log.take_over(data.draw(st.sampled_from([each for each in writers if each != owner])))
                log.head = begin
            case "cut":
                log.add(ClockAdvanced(), ClockAdvanced(), owner=owner)
                del log.wires[-1]
                before = ChainVerifier(POOL)
                for message in messages(log.wires):
                    before.verify(message)
                owner, log.head = data.draw(st.sampled_from(writers)), before.head
                log.take_over(owner)
            case "unsigned":
                log.wires.append(encode(forged(log.head)))
            case "between":
                before = ChainVerifier(POOL)
                for message in messages(log.wires[:-1]):
                    before.verify(message)
                log.wires.insert(-1, encode(forged(before.head)))
            case "signed":
                log.wires.append(encode(sign_record(forged(log.head), replace(owner, private_key=new_private_key()))))
            case "repeat":
                log.wires.append(log.wires[-1])
            case "old":
                log.wires.append(log.wires[data.draw(st.integers(0, len(log.wires) - 1))])
    reads, rest = [], messages(log.wires)
    while rest:
        size = data.draw(st.integers(1, 6))
        reads.append(rest[:size])
        rest = rest[size:]

    reader, found = AuditReader(MemoryCluster(lambda: START).client("r"), POOL, 1), list[Entry | Orphan]()
    for batch in reads:
        found += reader.classify_all(batch)
    verifier = ChainVerifier(POOL)
    strictly = [(message.offset, verifier.verify(message) is not None) for message in messages(log.wires)]
    assert [(each.offset, isinstance(each, Entry)) for each in found] == strictly


@in_virtual_time
async def test_a_writer_goes_on_past_what_an_intruder_appended(tmp_path: Path) -> None:
    cluster = MemoryCluster(lambda: START)
    cluster.create_topics(pools=2)
    bus: MemoryBus = cluster.client("w1")
    owner, reader = credentials(tmp_path, "w1"), AuditReader(cluster.client("r"), POOL, 1)
    writer = AuditWriter(bus, AuditReader(bus, POOL, 1), credentials=owner)

    async def fold(_: Sequence[Entry]) -> None: ...

    await writer.begin(lambda head: first_records(head, owner), fold)
    intruder = await cluster.client("intruder").producer()
    wire = encode(forged(writer.head))
    await (await intruder.send(AUDIT.name, wire.value, headers=wire.headers, partition=1))
    head = writer.next_head
    await (await writer.append([record(head.next_seq, head.epoch, ClockAdvanced(), "w1")]))
    await reader.catch_up(fold)
    assert reader.head == writer.head
    assert [orphan.reason for orphan in reader.latest_orphans] == ["it is not signed"]


def test_records_appended_together_are_announced_and_a_new_writer_is_not(log: Log) -> None:
    assert [bool(decode(wire).next_content) for wire in log.wires] == [True, False, False, True, True, False]
    assert [bool(decode(wire).signature) for wire in log.wires] == [True, False, True, True, False, False]
