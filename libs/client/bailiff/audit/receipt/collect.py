"""Collects a receipt from a log: two passes, the first for the decision and the Merkle leaves, the second for the records."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bailiff.audit.log_sources import Source, not_sealed
from bailiff.audit.verify import chain_of
from bailiff.client.errors import NotAsSealed, NotFound, UsageError
from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed
from bailiff_bus.port import Message
from bailiff_core.humanize import count_text
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.records import AUDIT_TYPES, Record, Wire, decisions, decode, facts
from bailiff_core.records.merkle import Frontier, leaf_hash, multiproof
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.seals import SealChain
from bailiff_log.signed_notes import Note, NoteError
from bailiff_log.signed_requests import signing_key

from .model import MAX_BYTES, MAX_RECORDS, Receipt, ReceiptRecord, raw_of
from .rules import PURPOSES

Read = Callable[[], AsyncGenerator[Message, None]]
MAX_STAGE_BYTES, BYTES_BESIDE = 700_000, 300
"""So that the file stays below a megabyte. Beside a record's value: the headers that differ from those of the record before."""
MAX_KEPT_BYTES = MAX_BYTES // 6
"""Of all records: those of a decision cycle stand together, and others' too. JSON takes at most six times as much."""
DECIDED = decisions.PreemptionDecided.type_name().encode()
LOOKED_AT = frozenset(kind.encode() for kind, data in AUDIT_TYPES.items() if data.__name__ in PURPOSES)


@dataclass
class ReceiptSource:
    """A log that can be read twice, its valid seals, and what witnesses published.

    Attributes:
        breathe: Awaited after every few thousand records, so that a service can do other work.
        named: Keys of witnesses that count before all others, whom anybody may invent.
    """

    pool: str
    read: Read
    chain: SealChain
    cosignatures: Sequence[CheckpointCosigned] = ()
    breathe: Callable[[], Awaitable[None]] | None = None
    named: Collection[str] = ()

    async def wires(self) -> AsyncGenerator[tuple[int, Wire, bytes], None]:
        """The records that continue the chain, each with its seq and its leaf."""
        verifier, number = ChainVerifier(self.pool), 0
        async with aclosing(self.read()) as messages:
            async for message in messages:
                wire = verifier.verify(message)
                number += 1
                if self.breathe is not None and number % 500 == 0:
                    await self.breathe()
                if wire is not None:
                    yield verifier.head.next_seq - 1, wire, leaf_hash(bytes.fromhex(verifier.head.hash))


class Collected(NamedTuple):
    """A receipt, and the decisions that preempt its job, in the order of the log."""

    receipt: Receipt
    evictions: Sequence[int]


async def collect_from(
    open_source: Callable[[], Awaitable[Source]],
    about: str,
    decision: int | None = None,
    eviction: int | None = None,
    breathe: Callable[[], Awaitable[None]] | None = None,
    named: Collection[str] = (),
) -> Collected:
    """As `collect`, from a source that is opened for each pass.

    Raises:
        ClientError: Also where the log does not begin with its first record.
    """
    source = await open_source()
    source.from_its_beginning("a receipt")
    chain, _ = chain_of(source)
    cosigned = [each for each in source.cosignatures if isinstance(each, CheckpointCosigned)]

    async def read() -> AsyncGenerator[Message, None]:
        async with aclosing((await open_source()).messages) as messages:
            async for message in messages:
                yield message

    return await collect(ReceiptSource(source.pool, read, chain, cosigned, breathe, named), about, decision, eviction)


async def collect(source: ReceiptSource, about: str, decision: int | None = None, eviction: int | None = None) -> Collected:
    """The receipt of this job, or of all victims of a decision.

    Args:
        about: A job's name; empty for all victims of `decision`.
        decision: The record; None: the job's latest preemption.
        eviction: In place of it, which of the job's preemptions, counted from 1.

    Raises:
        ClientError: There is no such preemption, it is not sealed yet, or the log does not match its seals.
    """
    last = source.chain.last
    leaves: list[bytes] = []
    found: tuple[int, decisions.PreemptionDecided] | None = None
    evictions: list[int] = []
    async with aclosing(source.wires()) as wires:
        async for seq, wire, leaf in wires:
            if last is not None and seq < last.size:
                leaves.append(leaf)
            if dict(wire.headers).get("ce_type") != DECIDED or (about.encode() not in wire.value if about else seq != decision):
                continue
            data = decode(wire).data
            assert isinstance(data, decisions.PreemptionDecided)
            if about and all(choice.job != about for choice in data.victims):
                continue
            evictions.append(seq)
            if decision in (None, seq) and eviction in (None, len(evictions)):
                found = seq, data
    if found is None and evictions and eviction is not None:
        text = f"{source.pool}: {about} was preempted {count_text(len(evictions), 'time')}"
        several = f"give one of them: --eviction 1 to {len(evictions)}"
        raise NotFound(text, several if len(evictions) > 1 else "that one: without --eviction")
    if found is None:
        by = "no decision" if decision is None else f"#{decision} is no decision that"
        raise NotFound(f"{source.pool}: {by} preempts {about or 'a job'}", f"see: bailiff explain {about or decision}")
    if not found[1].victims:
        raise NotFound(f"{source.pool}#{found[0]} has no victims: resources became free by themselves")
    if last is None:  # only now: a seal is worth waiting for where there is something to show
        raise await not_sealed(source.pool, source.read)
    if found[0] >= last.size:
        text = f"{source.pool}#{found[0]} is not sealed yet: the last seal is over {count_text(last.size, 'record')}"
        raise NotFound(text, "wait for the next seal, or name an earlier one: --decision SEQ")
    victims = (about,) if about else tuple(dict.fromkeys(choice.job for choice in found[1].victims))
    collector = _Collector(source.pool, found[0], found[1], victims)
    kept = await collector.run(source, last.size)
    seal, cosignatures = _seal_over(source, max(kept) + 1)
    tree = Frontier()
    tree.extend(leaves[: seal.size])
    if tree.root().hex() != seal.root:
        raise NotAsSealed(seal.size)
    proof = multiproof(sorted(kept), seal.size, Frontier().followed_by(leaves[: seal.size]))
    keys = source.chain.key_messages[: source.chain.keys.index(seal.key) + 1]
    receipt = Receipt(
        pool=source.pool,
        decision=found[0],
        victims=victims,
        records=tuple(_kept(seq, wire) for seq, wire in sorted(kept.items())),
        proof=tuple(each.hex() for each in proof),
        left_out=collector.left_out,
        seal=seal,
        keys=tuple(keys),
        cosignatures=tuple(cosignatures),
    )
    return Collected(receipt, evictions)


def _kept(seq: int, wire: Wire) -> ReceiptRecord:
    headers = tuple((name, raw_of(content)) for name, content in wire.headers if name.startswith("ce_"))
    return ReceiptRecord(seq=seq, headers=headers, value=raw_of(wire.value))


def _seal_over(source: ReceiptSource, size: int) -> tuple[LogSealed, list[CheckpointCosigned]]:
    """Of the seals over these records the one that most witnesses cosigned, named ones before others, and the first of equals;
    with the cosignatures."""
    by_text: dict[str, dict[str, CheckpointCosigned]] = {}
    for each in source.cosignatures:
        try:
            by_text.setdefault(Note.parse(each.checkpoint).text, {})[each.witness] = each
        except NoteError:
            continue

    def cosigned(seal: LogSealed) -> dict[str, CheckpointCosigned]:
        return by_text.get(Note.parse(seal.checkpoint).text, {})

    over = [seal for seal in source.chain.seals if seal.size >= size]
    named = frozenset(source.named)
    seal = max(over, key=lambda each: (len(named & cosigned(each).keys()), len(cosigned(each)), -each.size))
    return seal, list(cosigned(seal).values())


Group = list[tuple[int, Wire]]
"""Records that are signed together: a record, and those before it since the last one with a signature of its own."""


@dataclass
class _Collector:
    """Follows the log and keeps what the receipt needs, each record with its group, in the order of the log.

    Attributes:
        waiting: Victims whose eviction has not ended, each with the tasks that it still has to lose; none: all.
    """

    pool: str
    decision: int
    data: decisions.PreemptionDecided
    victims: Sequence[str]
    kept: dict[int, Wire] = field(default_factory=dict)
    waiting: dict[str, set[int]] = field(default_factory=dict)
    _left_out: set[int] = field(default_factory=set)
    _group: Group = field(default_factory=list)
    _policy: Group = field(default_factory=list)
    _submissions: dict[str, Group] = field(default_factory=dict)
    _writers: dict[bytes, Group] = field(default_factory=dict)
    _revocations: list[tuple[str, Group]] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)
    _bytes: int = 0

    def __post_init__(self) -> None:
        for choice in self.data.victims:
            if choice.job in self.victims:
                self.waiting.setdefault(choice.job, set()).update(numbers(choice.tasks))

    async def run(self, source: ReceiptSource, size: int) -> dict[int, Wire]:
        """The records of the receipt by their seq, all below `size`."""
        signed = False
        async with aclosing(source.wires()) as wires:
            async for seq, wire, _ in wires:
                if seq >= size:
                    break
                headers = dict(wire.headers)
                signed = signed or b"ce_sig" in (name.encode() for name in headers)
                self._group = [*self._group, (seq, wire)] if signed and not headers.get("ce_sig") else [(seq, wire)]
                if headers["ce_type"] in LOOKED_AT:
                    self._take(decode(wire))
                if seq > self.decision and not self.waiting and headers["ce_cycleend"] == b"true":
                    break
        return self._whole()

    @property
    def left_out(self) -> int:
        """Stages that were not kept, as the receipt would be too long."""
        return len(self._left_out - self.kept.keys())

    def _take(self, record: Record) -> None:
        data, seq, group = record.data, record.seq, self._group
        preemptor = self.data.preemptor.job
        match data:
            case facts.PoolCreated():
                self._keep(group)
                self._keys |= {data.certificate.key} if data.certificate is not None else set()
            case facts.RootKeyChanged():
                self._keep(group)
            case facts.WriterStarted():
                self._writers[dict(group[-1][1].headers)["ce_epoch"]] = group
                self._keys |= {data.certificate.key} if data.certificate is not None else set()
            case facts.KeyRevoked():
                self._revocations.append((data.key, group))
            case facts.PolicyApplied():
                self._policy = group
            case facts.JobSubmitted() if seq < self.decision and data.demand.job in (*self.victims, preemptor):
                self._submissions[data.demand.job] = [*self._policy, *group]
                self._keys.add(signing_key(record))
            case facts.ProposalReceived() if any(each.request == self.data.request for each in data.proposals):
                self._keep(group)
            case decisions.PreemptionRequested() | decisions.PreemptionDecided() if seq in (self.data.request, self.decision):
                self._keep(group)
            case decisions.JobStarting() if seq > self.decision and (data.job, data.attempt) == (preemptor, self.data.attempt):
                self._keep(group)
            case _ if seq > self.decision and getattr(data, "job", "") in self.waiting:
                self._follow(data)
            case _:
                pass

    def _follow(self, data: Any) -> None:
        """A record about a victim, after the decision."""
        kind, job = PURPOSES.get(type(data).__name__, ""), data.job
        choices = [choice for choice in self.data.victims if choice.job == job]
        match data:
            case facts.EvictionStarted() if data.decided_by != self.decision:
                if not choices[0].extends:  # another one, after this was cancelled
                    del self.waiting[job]
                return
            case decisions.EvictionCancelled() | decisions.ReservationDropped() if data.preemption != self.decision:
                return
            case _ if getattr(data, "attempt", choices[0].attempt) != choices[0].attempt or kind not in ("stage", "outcome"):
                return
            case _:
                pass
        if kind == "stage" and self._bytes > MAX_STAGE_BYTES:
            self._left_out.add(self._group[-1][0])
            return
        self._keep(self._group)
        match data:
            case decisions.JobRequeued() | decisions.JobEnded():
                del self.waiting[job]
            case decisions.JobShrunk() | facts.TaskEvictionCancelled() if self.waiting[job]:
                self.waiting[job] -= {data.task} if isinstance(data, facts.TaskEvictionCancelled) else set(numbers(data.tasks))
                if not self.waiting[job]:
                    del self.waiting[job]
            case decisions.EvictionCancelled() if not data.notified:
                del self.waiting[job]
            case decisions.ReservationDropped() if all(choice.reserved for choice in choices):
                del self.waiting[job]
            case _:
                pass

    def _keep(self, group: Group) -> None:
        for seq, wire in group:
            if seq not in self.kept:
                self.kept[seq] = wire
                if len(self.kept) > MAX_RECORDS or self._bytes > MAX_KEPT_BYTES:
                    what = f"{self.pool}#{self.decision} needs more than {len(self.kept) - 1} records"
                    text = f"{what}: at most {MAX_RECORDS}, of {MAX_KEPT_BYTES} bytes, fit into a receipt"
                    raise UsageError(text, "prove them one by one: bailiff audit prove SEQ")
                self._bytes += BYTES_BESIDE + len(wire.value) + len(dict(wire.headers).get("ce_request", b""))

    def _whole(self) -> dict[int, Wire]:
        """With submissions, their policies, and the keys of all of them."""
        for group in self._submissions.values():
            self._keep(group)
        last = max(self.kept)
        for key, group in self._revocations:
            if key in self._keys and group[-1][0] < last:
                self._keep(group)
        for epoch in {dict(wire.headers)["ce_epoch"] for wire in self.kept.values()} & self._writers.keys():
            self._keep(self._writers[epoch])
        return self.kept
