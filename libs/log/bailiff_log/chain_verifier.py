"""Verifies a log message by message: does each continue the chain, and if not, is it a harmless orphan or a break?

An orphan is harmless if the chain rule explains it: its seq is taken by another record, its writer is of an older epoch, it
continues another harmless orphan, it is not a record of this pool, or the log's writer has not signed it. A record with a free
seq that does not follow the head means that something before it was changed or is missing: the chain is broken there.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from bailiff_bus.port import Message
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, follow, record_hash
from bailiff_core.records.wire import ParsedHeaders, UnreadableRecord, parse_headers

from .log_signatures import LogSignatureCheck

if TYPE_CHECKING:
    from .request_verifier import CheckedRequests

OrphanKind = Literal["foreign", "repeat", "superseded", "old-epoch", "follows-orphan", "not-signed", "breaks-chain"]

ORPHAN_MEANINGS: dict[OrphanKind, str] = {
    "foreign": "not a record of this pool",
    "repeat": "a repeat of bytes that are in the log already",
    "superseded": "another record has its position",
    "old-epoch": "its writer had been replaced",
    "follows-orphan": "continues an orphan",
    "not-signed": "has no valid signature of the log's writer: somebody else wrote it",
    "breaks-chain": "has a free position but does not follow the record before it",
}
ORPHANS_SHOWN = 20
REMEMBERED_HASHES = 10_000  # a repeat of an older record counts as superseded


class OrphanFound(TypedDict):
    """One message that does not continue the chain."""

    offset: int
    kind: OrphanKind
    reason: str
    seq: str
    epoch: str
    writer: str


class BreakFound(TypedDict):
    """The first position where the chain is broken. seq: as stated by the record that does not follow."""

    seq: str
    offset: int
    reason: str
    meaning: str


class Verification(TypedDict):
    """The result of `bailiff audit verify`. ok: false if the chain is broken, see `broken`.

    root_key: of the first record; empty: the log is not signed, or its first record was not read.
    orphan_list: the first harmless ones, and the first that breaks the chain. unexplained: number of orphans that are not
    harmless. sealed: number of records covered by a valid seal; seal_problem: why later seals do not match. first_seq: first
    record verified. forked: accepted losses of sealed records. derived: differences between the archive's derived tables and
    its records; derived_rows: number of rows compared. requests: who asked, by signature.
    """

    pool: str
    ok: bool
    records: int
    first_seq: int
    head_seq: int
    head_hash: str
    head_time: str
    identity: str
    root_key: str
    epochs: list[dict[str, Any]]
    orphans: int
    orphans_by_kind: dict[OrphanKind, int]
    orphan_list: list[OrphanFound]
    broken: BreakFound | None
    unexplained: int
    seals: int
    sealed: int
    seal_keys: list[str]
    seal_problem: str
    forked: list[str]
    derived: list[str]
    derived_rows: int
    requests: "CheckedRequests"


@dataclass
class ChainVerifier:
    """Verifies messages of one pool's partition, in offset order. laid: parsed headers of the latest message."""

    pool: str
    check: InitVar[LogSignatureCheck | None] = None
    head: ChainHead = field(init=False)
    identity: str = ""
    root_key: str = ""
    first_seq: int = 0
    broken: BreakFound | None = None
    unexplained: int = 0
    epochs: dict[int, dict[str, Any]] = field(default_factory=dict)
    kinds: Counter[OrphanKind] = field(default_factory=Counter)
    orphans: list[OrphanFound] = field(default_factory=list)
    latest_orphan: OrphanFound | None = None
    laid: ParsedHeaders = field(init=False)
    _latest: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_HASHES))
    _harmless: set[str] = field(default_factory=set)
    _offset: int = -1
    _unread: str = ""
    _check: LogSignatureCheck = field(init=False)

    def __post_init__(self, check: LogSignatureCheck | None) -> None:
        self.head, self._check = ChainHead(self.pool), check or LogSignatureCheck(self.pool)

    def resume(self, head: ChainHead, identity: str, offset: int, harmless: Iterable[str]) -> None:
        """Continue after `offset`, up to which everything is verified. harmless: hashes of the harmless orphans so far."""
        self.head, self.identity, self._offset, self.first_seq = head, identity, offset, head.next_seq
        self._harmless.update(harmless)

    def verify(self, message: Message) -> Wire | None:
        """The record's bytes if it continues the chain, else None; orphans are counted."""
        wire = self._in_order(message)
        if wire is None:
            return None
        self.laid = parse_headers(wire)
        after = continues(self.head, wire, self._check, self.laid)
        if isinstance(after, Break):
            self._orphan(message, wire, after)
            return None
        self._advance(after, wire)
        return wire

    def read(self, message: Message) -> Record | None:
        """As `verify`, and decodes the record. Raises `UnreadableRecord` and stays before that record."""
        wire = self._in_order(message)
        if wire is None:
            return None
        self.laid = parse_headers(wire)
        found = follow(self.head, wire, self.laid, self._check)
        if isinstance(found, Break):
            self._orphan(message, wire, found)
            return None
        self._advance(found[0], wire)
        return found[1]

    def _in_order(self, message: Message) -> Wire | None:
        wire = Wire(message.headers, message.value)
        if message.offset <= self._offset:  # impossible in a topic; a file may have been edited
            self._out_of_order(message, wire)
            return None
        self._offset = message.offset
        return wire

    def _advance(self, after: ChainHead, wire: Wire) -> None:
        self.head = after
        if after.next_seq == 1:
            self.identity, self.root_key = after.hash, after.keys.root_key if after.keys is not None else ""
        self._latest.append(after.hash)
        if after.epoch not in self.epochs:
            self.epochs[after.epoch] = {
                "epoch": after.epoch,
                "writer": _writer(wire),
                "from_seq": after.next_seq - 1,
                "records": 0,
            }
        self.epochs[after.epoch]["records"] += 1

    def verification(self) -> Verification:
        """The report so far."""
        if self.head.next_seq == 0 and self.broken is None:
            self.broken = {
                "seq": "?",
                "offset": 0,
                "reason": "no record starts the log",
                "meaning": "the log is empty, or its beginning is missing",
            }
        return {
            "pool": self.pool,
            "ok": self.broken is None,
            "records": self.head.next_seq - self.first_seq,
            "first_seq": self.first_seq,
            "head_seq": self.head.next_seq - 1,
            "head_hash": self.head.hash,
            "head_time": self.head.time,
            "identity": self.identity,
            "root_key": self.root_key,
            "epochs": list(self.epochs.values()),
            "orphans": sum(self.kinds.values()),
            "orphans_by_kind": dict(sorted(self.kinds.items())),
            "orphan_list": self.orphans,
            "broken": self.broken,
            "unexplained": self.unexplained,
            "seals": 0,
            "sealed": 0,
            "seal_keys": [],
            "seal_problem": "",
            "forked": [],
            "derived": [],
            "derived_rows": 0,
            "requests": {"signed": 0, "unsigned": 0, "faults": [], "fault_count": 0, "not_judged": []},
        }

    def mark_unreadable(self, wire: Wire, offset: int, error: UnreadableRecord) -> None:
        """The record that has just continued the chain cannot be decoded by this release."""
        if self.broken is None:
            meaning = "the chain is valid up to this record, but this release cannot read it"
            reason = " ".join(str(error).split())
            self.broken = {"seq": _text(wire, "ce_seq"), "offset": offset, "reason": reason, "meaning": meaning}
            self._unread = self.head.hash

    def _out_of_order(self, message: Message, wire: Wire) -> None:
        reason = f"offset {message.offset} comes after offset {self._offset}"
        self.unexplained += 1
        if self.broken is None:
            meaning = "messages were duplicated or reordered"
            self.broken = {"seq": _text(wire, "ce_seq"), "offset": message.offset, "reason": reason, "meaning": meaning}

    def _orphan(self, message: Message, wire: Wire, found: Break) -> None:
        digest, reason = record_hash(wire), found.reason
        kind: OrphanKind = self._kind(wire, digest) if found.signed else "not-signed"
        self.kinds[kind] += 1
        if kind == "breaks-chain":
            self.unexplained += 1
            if self.broken is None or self._unread == self.head.hash:  # the next record shows that it was changed
                self.broken, self._unread = self._break(message, wire, reason), ""
        else:
            self._harmless.add(digest)
        self.latest_orphan = {
            "offset": message.offset,
            "kind": kind,
            "reason": reason,
            "seq": _text(wire, "ce_seq"),
            "epoch": _text(wire, "ce_epoch"),
            "writer": _writer(wire),
        }
        if self.unexplained == 1 if kind == "breaks-chain" else len(self.orphans) < ORPHANS_SHOWN:
            self.orphans.append(self.latest_orphan)

    def _kind(self, wire: Wire, digest: str) -> OrphanKind:
        seq, epoch = _number(wire, "ce_seq"), _number(wire, "ce_epoch")
        if _text(wire, "ce_pool") != self.pool or seq is None or epoch is None:
            return "foreign"
        if digest in self._latest:
            return "repeat"
        if _text(wire, "ce_prev") in self._harmless:
            return "follows-orphan"
        if seq < self.head.next_seq:
            return "superseded"
        if epoch < self.head.epoch:
            return "old-epoch"
        return "breaks-chain"

    def _break(self, message: Message, wire: Wire, reason: str) -> BreakFound:
        seq, expected = _number(wire, "ce_seq"), self.head.next_seq
        if seq is not None and seq > expected:
            missing = f"record {expected} is" if seq == expected + 1 else f"records {expected} to {seq - 1} are"
            meaning = f"{missing} missing, or changed beyond recognition"
            if expected == 0:
                meaning = "the beginning of the log is missing"
        elif _text(wire, "ce_prev") != self.head.hash:
            meaning = f"record {expected - 1} was changed or replaced after it was written"
        else:
            meaning = "the record follows the one before it, but its headers contradict the log"
        return {"seq": _text(wire, "ce_seq"), "offset": message.offset, "reason": reason, "meaning": meaning}


def _text(wire: Wire, name: str) -> str:
    return dict(wire.headers).get(name, b"").decode(errors="replace")


def _number(wire: Wire, name: str) -> int | None:
    text = _text(wire, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _writer(wire: Wire) -> str:
    return _text(wire, "ce_source").rpartition("/")[2]
