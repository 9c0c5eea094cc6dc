"""A record as bytes on the wire: CloudEvents 1.0, Kafka binary mode, and its hash (docs/reference/log-protocol.md)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from operator import methodcaller
from typing import NamedTuple

from .layout import TAG, Layout, Values, layout_of, prefixed
from .payload import AUDIT_TYPES, Payload

CONTENT_TYPE = ("content-type", b"application/json")
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
Header = tuple[str, bytes]
SPEC_VERSION: Header = ("ce_specversion", b"1.0")
CYCLE_ENDS: Header = ("ce_cycleend", b"true")
CYCLE_CONTINUES: Header = ("ce_cycleend", b"false")


class UnreadableRecord(Exception):
    """A record that continues the chain cannot be understood; a reader must stop here. The text says why."""


# Nobody changes these two, but they are not frozen: to make a frozen one takes longer than to hash it.
@dataclass(slots=True)
class Wire:
    """Headers in their order and the value, as Kafka carries them."""

    headers: tuple[tuple[str, bytes], ...]
    value: bytes


@dataclass(slots=True)
class Record:
    """One event of the audit log. `time` is µs UTC; `prev` is the hash of the record before, in hex.

    cause: a seq of this log, or `topic/partition/offset` of the input. inputs: next offsets that changed, by
    `topic/partition`. data is None for an unknown type that the fold does not need.
    """

    pool: str
    seq: int
    epoch: int
    cycle: int
    cycle_end: bool
    time: int
    prev: str
    writer: str
    engine: str
    policy: int
    type: str
    data: Payload | None
    cause: str = ""
    inputs: tuple[tuple[str, int], ...] = ()
    actor: str = ""
    auth: str = ""

    def continuing(self, prev: str) -> "Record":
        """The same with this `prev`. By hand: `dataclasses.replace` takes three times as long."""
        return Record(
            self.pool, self.seq, self.epoch, self.cycle, self.cycle_end, self.time, prev, self.writer, self.engine,
            self.policy, self.type, self.data, self.cause, self.inputs, self.actor, self.auth,
        )  # fmt: skip


def time_text(time: int) -> str:
    """µs UTC as RFC 3339 with six digits, so that text order is time order."""
    second, micros = divmod(time, 1_000_000)
    return f"{_second_text(second)}.{micros:06d}Z"


@lru_cache(maxsize=64)  # the records of a turn have one time
def _time_bytes(time: int) -> bytes:
    return time_text(time).encode()


@lru_cache(maxsize=64)  # much happens within a second
def _second_text(second: int) -> str:
    day, second = divmod(second, 86_400)
    return f"{_day_text(day)}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


@lru_cache(maxsize=64)
def _day_text(day: int) -> str:
    return (EPOCH_START + timedelta(days=day)).date().isoformat()


@lru_cache(maxsize=64)  # the records of a turn have one time
def time_value(text: str) -> int:
    """µs UTC of the text that `time_text` writes. Raises `ValueError` for any other."""
    time = (datetime.fromisoformat(text) - EPOCH_START) // MICROSECOND if text.endswith("Z") else 0
    if time_text(time) != text:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00.000000Z")
    return time


def encode(record: Record) -> Wire:
    """The bytes of a record. Equal records have equal bytes."""
    data = record.data
    if data is None:
        raise ValueError(f"{record.type} has no data to encode")
    same = _same(record.pool, record.writer, record.engine, record.type, data.ESSENTIAL)
    headers = [
        CONTENT_TYPE,
        SPEC_VERSION,
        ("ce_id", b"%b:%d" % (same.pool[1], record.seq)),
        same.source,
        same.type,
        ("ce_time", _time_bytes(record.time)),
        same.pool,
        ("ce_seq", b"%d" % record.seq),
        ("ce_epoch", b"%d" % record.epoch),
        ("ce_cycle", b"%d" % record.cycle),
        CYCLE_ENDS if record.cycle_end else CYCLE_CONTINUES,
        ("ce_prev", record.prev.encode()),
        same.essential,
        same.engine,
        ("ce_policy", b"%d" % record.policy),
    ]
    if record.cause:
        headers.append(("ce_cause", record.cause.encode()))
    if record.inputs:
        headers.append(("ce_inputs", ",".join([f"{position}={offset}" for position, offset in record.inputs]).encode()))
    if record.actor:
        headers.append(("ce_actor", record.actor.encode()))
    if record.auth:
        headers.append(("ce_auth", record.auth.encode()))
    return Wire(tuple([header for header in headers if header[1]]), data.to_json())


class _Same(NamedTuple):
    """Headers that many records have alike."""

    source: Header
    type: Header
    pool: Header
    essential: Header
    engine: Header


@lru_cache(maxsize=256)
def _same(pool: str, writer: str, engine: str, kind: str, essential: bool) -> _Same:
    return _Same(
        ("ce_source", f"/bailiff/{pool}/{writer}".encode()),
        ("ce_type", kind.encode()),
        ("ce_pool", pool.encode()),
        ("ce_essential", b"true" if essential else b"false"),
        ("ce_engine", engine.encode()),
    )


def record_hash(wire: Wire) -> str:
    """SHA-256 over the format tag, each `ce_*` header sorted by name, and the value; every part length-prefixed.

    Lengths are 4 bytes, big-endian; before the headers stands their number. Bytes are taken as on the wire.
    """
    return hash_of(wire, *parse_headers(wire))


ParsedHeaders = tuple[Layout, Values]


def parse_headers(wire: Wire) -> ParsedHeaders:
    """The layout of the record, and the values that it is about."""
    names, values = zip(("", b""), *wire.headers, ("", wire.value), strict=True)
    return layout_of(names), values


def hash_of(wire: Wire, layout: Layout, values: Values) -> str:
    """`record_hash` of what was laid out."""
    if layout.hashed is None:
        hashed = sorted(header for header in wire.headers if header[0].startswith("ce_"))
        parts = [TAG, len(hashed).to_bytes(4, "big")]
        for name, value in hashed:
            parts += (prefixed(name.encode()), prefixed(value))
        return sha256(b"".join([*parts, prefixed(wire.value)])).hexdigest()
    picked = layout.hashed(values)
    parts = layout.befores.copy()
    parts[1::3] = map(_length, map(len, picked))
    parts[2::3] = picked
    return sha256(b"".join(parts)).hexdigest()


_at_last_equals = methodcaller("rpartition", "=")


class _Lengths(dict[int, bytes]):
    def __missing__(self, length: int) -> bytes:
        return length.to_bytes(4, "big")


_length = _Lengths({length: length.to_bytes(4, "big") for length in range(1024)}).__getitem__


def decode(wire: Wire) -> Record:
    """The record that these bytes say. Raises `UnreadableRecord` for anything a reader must not pass over."""
    layout, values = parse_headers(wire)
    found = layout.pick(values)
    try:
        pool, prev, time = found[0].decode(), found[2].decode(), found[5].decode()
        return decode_following(wire, layout, found, pool, int(found[1]), int(found[4]), prev, time)
    except ValueError as error:
        raise UnreadableRecord(f"{_where(found)}: {f'it lacks {layout.missing}' if layout.missing else error}") from error


def decode_following(wire: Wire, layout: Layout, found: Values, pool: str, seq: int, epoch: int, prev: str, time: str) -> Record:
    """As `decode`, where the chain has said already where the record stands. found: what the layout picks."""
    _, _, _, kind, _, _, source, engine, policy, essential, cycle, cycle_end, cause, inputs, actor, auth = found
    try:
        if layout.missing:
            raise ValueError(f"it lacks {layout.missing}")
        about = _about(kind, essential, source, engine, policy)
        if about.refused:
            raise ValueError(about.refused)
        return Record(
            pool, seq, epoch, int(cycle), cycle_end == b"true", time_value(time), prev, about.writer, about.engine,
            about.policy, about.type, None if about.read is None else about.read(wire.value),
            cause.decode(), _positions(inputs.decode()) if inputs else (),
            actor.decode() if actor else "", auth.decode() if auth else "",
        )  # fmt: skip
    except ValueError as error:  # pydantic's are ValueErrors, too
        raise UnreadableRecord(f"{_where(found)}: {error}") from error


class _About(NamedTuple):
    """What many records of a writer say alike. read: of the data; None for an unknown type. refused: why a reader stops."""

    writer: str
    engine: str
    policy: int
    type: str
    read: Callable[[bytes], Payload] | None
    refused: str


@lru_cache(maxsize=256)
def _about(kind: bytes, essential: bytes, source: bytes, engine: bytes, policy: bytes) -> _About:
    name = kind.decode()
    known = AUDIT_TYPES.get(name)
    refused = ""
    if known is None and essential != b"false":
        refused = "this release does not know the type, and the fold needs it; use a newer one"
    read = None if known is None else known.__pydantic_validator__.validate_json
    return _About(source.decode().rpartition("/")[2], engine.decode(), int(policy), name, read, refused)


def _where(found: Values) -> str:
    pool, seq, _, kind = (value.decode(errors="replace") or "?" for value in found[:4])
    return f"{pool}#{seq} {kind}"


def _positions(text: str) -> tuple[tuple[str, int], ...]:
    return tuple([(position, int(offset)) for position, _, offset in map(_at_last_equals, text.split(","))])
