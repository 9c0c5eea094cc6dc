"""The chain rule: which record continues a log. All readers keep the same head and so follow the same records."""

from collections.abc import Mapping
from dataclasses import dataclass

from .wire import Record, Wire, decode_following, hash_of

GENESIS = "0" * 64
WRITER_STARTED = "bailiff.audit.WriterStarted.v1"
DOMAIN_CREATED = "bailiff.audit.DomainCreated.v1"
_STARTS_WRITER, _CREATES_DOMAIN = WRITER_STARTED.encode(), DOMAIN_CREATED.encode()
LONGEST_EPOCH = 16


@dataclass(slots=True)  # never changed, but made for every record: see `Wire`
class ChainHead:
    """Where a log stands: the seq that comes next, the hash of the last record, its epoch and time."""

    domain: str
    next_seq: int = 0
    hash: str = GENESIS
    epoch: int = 0
    time: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """Why a record does not continue the chain."""

    reason: str


def continues(head: ChainHead, wire: Wire) -> ChainHead | Break:
    """The head after this record, or why it is an orphan. Looks at headers only, never at what the data means.

    A record continues when domain, seq and prev fit, time does not go back, and its epoch is the head's; only
    `WriterStarted` raises the epoch.
    """
    return _judged(head, wire, dict(wire.headers))


def follow(head: ChainHead, wire: Wire) -> tuple[ChainHead, Record] | Break:
    """As `continues`, and the record that these bytes say: both in one look. Raises `UnreadableRecord`."""
    at = dict(wire.headers)
    after = _judged(head, wire, at)
    if isinstance(after, Break):
        return after
    return after, decode_following(wire, at, head.domain, head.next_seq, after.epoch, head.hash)


def _judged(head: ChainHead, wire: Wire, at: Mapping[str, bytes]) -> ChainHead | Break:
    if at.get("ce_domain") != head.domain.encode():
        return Break(f"domain is {_text(at, 'ce_domain')!r}, expected {head.domain!r}")
    if at.get("ce_seq") != b"%d" % head.next_seq:
        return Break(f"seq is {_text(at, 'ce_seq') or '?'}, expected {head.next_seq}")
    if at.get("ce_prev") != head.hash.encode():
        return Break(f"prev is {(_text(at, 'ce_prev') or '?')[:12]}…, expected {head.hash[:12]}…")
    kind = at.get("ce_type", b"")
    if (head.next_seq == 0) != (kind == _CREATES_DOMAIN):
        return Break(f"{_text(at, 'ce_type') or 'a record without a type'} at seq {head.next_seq}")
    epoch_text = at.get("ce_epoch", b"")
    epoch = int(epoch_text) if epoch_text.isdigit() and len(epoch_text) <= LONGEST_EPOCH else -1
    if kind == _STARTS_WRITER:
        if epoch <= head.epoch:
            return Break(f"a writer started with epoch {epoch}, but {head.epoch} is taken")
    elif epoch != head.epoch:
        return Break(f"epoch is {_text(at, 'ce_epoch')!r}, expected {head.epoch}")
    time = _text(at, "ce_time")
    if len(time) != 27 or time < head.time:
        return Break(f"time is {time!r}, before {head.time!r}")
    return ChainHead(head.domain, head.next_seq + 1, hash_of(wire, at), epoch, time)


def _text(headers: Mapping[str, bytes], name: str) -> str:
    return headers.get(name, b"").decode(errors="replace")
