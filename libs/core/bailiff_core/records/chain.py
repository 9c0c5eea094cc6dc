"""The chain rule: which record continues a log. All readers apply it, and so read the same records."""

from dataclasses import dataclass

from .layout import Layout, Values
from .wire import ParsedHeaders, Record, Wire, decode_following, hash_of, parse_headers

GENESIS = "0" * 64
WRITER_STARTED = "bailiff.audit.WriterStarted.v1"
POOL_CREATED = "bailiff.audit.PoolCreated.v1"
_STARTS_WRITER, _CREATES_POOL = WRITER_STARTED.encode(), POOL_CREATED.encode()
MAX_EPOCH_DIGITS = 16


@dataclass(slots=True)  # not frozen, for speed: see `Wire`
class ChainHead:
    """Head of a log: the next seq; hash, epoch and time of the last record."""

    pool: str
    next_seq: int = 0
    hash: str = GENESIS
    epoch: int = 0
    time: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """Why a record does not continue the chain."""

    reason: str


def continues(head: ChainHead, wire: Wire) -> ChainHead | Break:
    """Returns the head after this record, or why it is an orphan. Reads headers only.

    A record continues the chain when pool, seq and prev match, time does not go back, and its epoch is the head's; only
    `WriterStarted` raises the epoch.
    """
    layout, values = parse_headers(wire)
    return _check(head, wire, layout, values, layout.pick(values))


def follow(head: ChainHead, wire: Wire, parsed: ParsedHeaders | None = None) -> tuple[ChainHead, Record] | Break:
    """As `continues`, and decodes the record. Raises `UnreadableRecord`.

    parsed: the result of `parse_headers`, if the caller has it.
    """
    layout, values = parsed or parse_headers(wire)
    found = layout.pick(values)
    after = _check(head, wire, layout, values, found)
    if isinstance(after, Break):
        return after
    return after, decode_following(wire, layout, found, head.pool, head.next_seq, after.epoch, head.hash, after.time)


def _check(head: ChainHead, wire: Wire, layout: Layout, values: Values, found: Values) -> ChainHead | Break:
    pool, seq, prev, kind, epoch_text, time_text = found[:6]
    if pool != head.pool.encode():
        return Break(f"pool is {_text(pool)!r}, expected {head.pool!r}")
    if seq != b"%d" % head.next_seq:
        return Break(f"seq is {_text(seq) or '?'}, expected {head.next_seq}")
    if prev != head.hash.encode():
        return Break(f"prev is {(_text(prev) or '?')[:12]}…, expected {head.hash[:12]}…")
    if (head.next_seq == 0) != (kind == _CREATES_POOL):
        return Break(f"{_text(kind) or 'a record without a type'} at seq {head.next_seq}")
    epoch = int(epoch_text) if epoch_text.isdigit() and len(epoch_text) <= MAX_EPOCH_DIGITS else -1
    if kind == _STARTS_WRITER:
        if epoch <= head.epoch:
            return Break(f"a writer started with epoch {epoch}, but {head.epoch} is taken")
    elif epoch != head.epoch:
        return Break(f"epoch is {_text(epoch_text)!r}, expected {head.epoch}")
    time = _text(time_text)
    if len(time) != 27 or time < head.time:
        return Break(f"time is {time!r}, before {head.time!r}")
    return ChainHead(head.pool, head.next_seq + 1, hash_of(wire, layout, values), epoch, time)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
