"""Judge a log message by message: does it continue the chain, and if not, does that do harm?

An orphan is harmless when it has lost its place by the chain rule: another record stands there already, its writer is
of an older epoch, it continues another harmless orphan, or it is no record of this domain at all. A record that claims
a place which nobody has taken, and still does not follow the head, means that something before it was changed or is
missing: the chain is broken there.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from bailiff_core.records import Break, ChainHead, Record, Wire, continues, follow, record_hash
from bailiff_core.records.wire import Laid, UnreadableRecord, laid_out

from .port import Message

OrphanKind = Literal["foreign", "repeat", "superseded", "old-epoch", "follows-orphan", "breaks-chain"]

ORPHAN_MEANINGS: dict[OrphanKind, str] = {
    "foreign": "not a record of this domain",
    "repeat": "the same bytes stand in the log already",
    "superseded": "another record had taken its place",
    "old-epoch": "its writer had been replaced",
    "follows-orphan": "continues a record that is an orphan itself",
    "breaks-chain": "claims a free place and does not follow the record before it",
}
ORPHANS_SHOWN = 20
REPEATS_KNOWN = 10_000  # an older record that comes again counts as superseded


class OrphanFound(TypedDict):
    """One message that does not continue the chain."""

    offset: int
    kind: OrphanKind
    reason: str
    seq: str
    epoch: str
    writer: str


class BreakFound(TypedDict):
    """The first place where the log stops making sense. seq: of the record that does not follow, as it says itself."""

    seq: str
    offset: int
    reason: str
    meaning: str


class Verification(TypedDict):
    """What `bailiff audit verify` found. `ok` is false where `broken` says where and how.

    orphan_list: the first harmless ones, and the first that breaks the chain. unexplained: how many are not harmless.
    sealed: how many records stand under a seal that they fit; seal_problem: why not, where they do not. first_seq: of the
    first record that was looked at. set_aside: accepted losses of sealed records. derived: where the people's tables of the
    archive say something else than its records; derived_rows: how many rows were compared.
    """

    domain: str
    ok: bool
    records: int
    first_seq: int
    head_seq: int
    head_hash: str
    head_time: str
    identity: str
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
    set_aside: list[str]
    derived: list[str]
    derived_rows: int


@dataclass
class Walk:
    """Judges messages of one domain's partition, in offset order. laid: the latest one that was read, as `laid_out`."""

    domain: str
    head: ChainHead = field(init=False)
    identity: str = ""
    first_seq: int = 0
    broken: BreakFound | None = None
    unexplained: int = 0
    epochs: dict[int, dict[str, Any]] = field(default_factory=dict)
    kinds: Counter[OrphanKind] = field(default_factory=Counter)
    orphans: list[OrphanFound] = field(default_factory=list)
    latest_orphan: OrphanFound | None = None
    laid: Laid = field(init=False)
    _latest: deque[str] = field(default_factory=lambda: deque(maxlen=REPEATS_KNOWN))
    _harmless: set[str] = field(default_factory=set)
    _offset: int = -1
    _unread: str = ""

    def __post_init__(self) -> None:
        self.head = ChainHead(self.domain)

    def resume(self, head: ChainHead, identity: str, offset: int, harmless: Iterable[str]) -> None:
        """Stand here: all up to this offset was judged before, and these hashes of orphans were found harmless."""
        self.head, self.identity, self._offset, self.first_seq = head, identity, offset, head.next_seq
        self._harmless.update(harmless)

    def judge(self, message: Message) -> Wire | None:
        """The record's bytes if it continues the chain; what does not is noted."""
        wire = self._in_order(message)
        if wire is None:
            return None
        after = continues(self.head, wire)
        if isinstance(after, Break):
            self._orphan(message, wire, after.reason)
            return None
        self._go_on(after, wire)
        return wire

    def read(self, message: Message) -> Record | None:
        """As `judge`, and what the record says. Raises `UnreadableRecord`, and then stands before that record."""
        wire = self._in_order(message)
        if wire is None:
            return None
        self.laid = laid_out(wire)
        found = follow(self.head, wire, self.laid)
        if isinstance(found, Break):
            self._orphan(message, wire, found.reason)
            return None
        self._go_on(found[0], wire)
        return found[1]

    def _in_order(self, message: Message) -> Wire | None:
        wire = Wire(message.headers, message.value)
        if message.offset <= self._offset:  # in a topic that cannot be; in a file somebody put it there
            self._out_of_order(message, wire)
            return None
        self._offset = message.offset
        return wire

    def _go_on(self, after: ChainHead, wire: Wire) -> None:
        self.head = after
        if after.next_seq == 1:
            self.identity = after.hash
        self._latest.append(after.hash)
        if after.epoch not in self.epochs:
            self.epochs[after.epoch] = {
                "epoch": after.epoch, "writer": _writer(wire), "from_seq": after.next_seq - 1, "records": 0
            }  # fmt: skip
        self.epochs[after.epoch]["records"] += 1

    def verification(self) -> Verification:
        """The report so far."""
        if self.head.next_seq == 0 and self.broken is None:
            self.broken = {
                "seq": "?", "offset": 0, "reason": "no record continues an empty log",
                "meaning": "the log is empty, or its beginning is missing",
            }  # fmt: skip
        return {
            "domain": self.domain,
            "ok": self.broken is None,
            "records": self.head.next_seq - self.first_seq,
            "first_seq": self.first_seq,
            "head_seq": self.head.next_seq - 1,
            "head_hash": self.head.hash,
            "head_time": self.head.time,
            "identity": self.identity,
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
            "set_aside": [],
            "derived": [],
            "derived_rows": 0,
        }

    def unreadable(self, wire: Wire, offset: int, error: UnreadableRecord) -> None:
        """This release cannot read what the record says that has just continued the chain."""
        if self.broken is None:
            meaning, reason = "the chain holds up to it, but this release cannot read it", " ".join(str(error).split())
            self.broken = {"seq": _text(wire, "ce_seq"), "offset": offset, "reason": reason, "meaning": meaning}
            self._unread = self.head.hash

    def _out_of_order(self, message: Message, wire: Wire) -> None:
        reason = f"offset {message.offset} comes after offset {self._offset}"
        self.unexplained += 1
        if self.broken is None:
            meaning = "messages were doubled or put into another order"
            self.broken = {"seq": _text(wire, "ce_seq"), "offset": message.offset, "reason": reason, "meaning": meaning}

    def _orphan(self, message: Message, wire: Wire, reason: str) -> None:
        digest = record_hash(wire)
        kind = self._kind(wire, digest)
        self.kinds[kind] += 1
        if kind == "breaks-chain":
            self.unexplained += 1
            if self.broken is None or self._unread == self.head.hash:  # the next record says that it was changed
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
        if _text(wire, "ce_domain") != self.domain or seq is None or epoch is None:
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
            gone = f"record {expected} is" if seq == expected + 1 else f"records {expected} to {seq - 1} are"
            meaning = f"{gone} missing, or changed so that it is not recognised"
            if expected == 0:
                meaning = "the beginning of the log is missing"
        elif _text(wire, "ce_prev") != self.head.hash:
            meaning = f"record {expected - 1} is not what its writer wrote: it was changed afterwards, or replaced"
        else:
            meaning = "the record follows the one before it, but its own headers contradict the log"
        return {"seq": _text(wire, "ce_seq"), "offset": message.offset, "reason": reason, "meaning": meaning}


def _text(wire: Wire, name: str) -> str:
    return dict(wire.headers).get(name, b"").decode(errors="replace")


def _number(wire: Wire, name: str) -> int | None:
    text = _text(wire, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _writer(wire: Wire) -> str:
    return _text(wire, "ce_source").rpartition("/")[2]
