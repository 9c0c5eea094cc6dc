"""Encoding of records: CloudEvents 1.0 in Kafka binary mode, and the record hash (docs/reference/log-protocol.md)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from operator import methodcaller
from typing import NamedTuple

from bailiff_core.model.identity import is_verified

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
    """A record continues the chain but cannot be decoded; a reader must stop. The text is the reason."""


# Not frozen, although never changed: constructing a frozen dataclass takes longer than hashing the record.
@dataclass(slots=True)
class Wire:
    """Headers, in order, and value of a Kafka record."""

    headers: tuple[tuple[str, bytes], ...]
    value: bytes


@dataclass(slots=True)
class Record:
    """One record of the audit log. `time` is µs UTC; `prev` is the hash of the record before, in hex.

    Attributes:
        cause: A seq of this log, or `topic/partition/offset` of the input.
        inputs: Next offsets that changed, by `topic/partition`.
        data: None for an unknown type that is not essential.
        next_content: In a signed log, `content_hash` of the next record that the writer appended together with this one.
        signature: The writer's signature, over the first of these records.
        request: JSON of the `SignedRequest` that caused the record; empty if the request was not signed.
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
    next_content: str = ""
    signature: str = ""
    request: str = ""

    @property
    def actor_verified(self) -> bool:
        """Whether a signature or the topic's access list shows that the request is the actor's."""
        return is_verified(self.auth)

    def continuing(self, prev: str) -> "Record":
        """Returns a copy with this `prev`; `dataclasses.replace` takes three times as long."""
        return Record(
            self.pool,
            self.seq,
            self.epoch,
            self.cycle,
            self.cycle_end,
            self.time,
            prev,
            self.writer,
            self.engine,
            self.policy,
            self.type,
            self.data,
            self.cause,
            self.inputs,
            self.actor,
            self.auth,
            self.next_content,
            self.signature,
            self.request,
        )


def time_text(time: int) -> str:
    """Returns µs UTC as RFC 3339 with six digits, so that text order is time order."""
    second, micros = divmod(time, 1_000_000)
    return f"{_second_text(second)}.{micros:06d}Z"


@lru_cache(maxsize=64)  # the records of a cycle have one time
def _time_bytes(time: int) -> bytes:
    return time_text(time).encode()


@lru_cache(maxsize=64)  # many records fall into one second
def _second_text(second: int) -> str:
    day, second = divmod(second, 86_400)
    return f"{_day_text(day)}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


@lru_cache(maxsize=64)
def _day_text(day: int) -> str:
    return (EPOCH_START + timedelta(days=day)).date().isoformat()


@lru_cache(maxsize=64)  # the records of a cycle have one time
def time_value(text: str) -> int:
    """Parses the output of `time_text` to µs UTC.

    Raises:
        ValueError: For any other text.
    """
    time = (datetime.fromisoformat(text) - EPOCH_START) // MICROSECOND if text.endswith("Z") else 0
    if time_text(time) != text:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00.000000Z")
    return time


def encode(record: Record) -> Wire:
    """Encodes a record. Equal records have equal bytes.

    Raises:
        ValueError: If it has no data.
    """
    data = record.data
    if data is None:
        raise ValueError(f"{record.type} has no data to encode")
    common = _common_headers(record.pool, record.writer, record.engine, record.type, data.ESSENTIAL)
    headers = [
        CONTENT_TYPE,
        SPEC_VERSION,
        ("ce_id", b"%b:%d" % (common.pool[1], record.seq)),
        common.source,
        common.type,
        ("ce_time", _time_bytes(record.time)),
        common.pool,
        ("ce_seq", b"%d" % record.seq),
        ("ce_epoch", b"%d" % record.epoch),
        ("ce_cycle", b"%d" % record.cycle),
        CYCLE_ENDS if record.cycle_end else CYCLE_CONTINUES,
        ("ce_prev", record.prev.encode()),
        common.essential,
        common.engine,
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
    if record.request:
        headers.append(("ce_request", record.request.encode()))
    if record.next_content:
        headers.append(("ce_nextcontent", record.next_content.encode()))
    if record.signature:
        headers.append(("ce_sig", record.signature.encode()))
    return Wire(tuple([header for header in headers if header[1]]), data.to_json())


class _CommonHeaders(NamedTuple):
    """Headers that many records share."""

    source: Header
    type: Header
    pool: Header
    essential: Header
    engine: Header


@lru_cache(maxsize=256)
def _common_headers(pool: str, writer: str, engine: str, kind: str, essential: bool) -> _CommonHeaders:
    return _CommonHeaders(
        ("ce_source", f"/bailiff/{pool}/{writer}".encode()),
        ("ce_type", kind.encode()),
        ("ce_pool", pool.encode()),
        ("ce_essential", b"true" if essential else b"false"),
        ("ce_engine", engine.encode()),
    )


def record_hash(wire: Wire) -> str:
    """Returns the SHA-256 over the format tag, each `ce_*` header sorted by name, and the value; every part length-prefixed.

    Lengths are 4 bytes, big-endian; the number of headers precedes them. Bytes are hashed as on the wire.
    """
    return hash_of(wire, *parse_headers(wire))


ParsedHeaders = tuple[Layout, Values]


def parse_headers(wire: Wire) -> ParsedHeaders:
    """Returns the layout of the record, and its values."""
    names, values = zip(("", b""), *wire.headers, ("", wire.value), strict=True)
    return layout_of(names), values


def hash_of(wire: Wire, layout: Layout, values: Values) -> str:
    """Returns `record_hash` from parsed headers."""
    if layout.hashed is None:
        hashed = sorted(header for header in wire.headers if header[0].startswith("ce_"))
        parts = [TAG, len(hashed).to_bytes(4, "big")]
        for name, value in hashed:
            parts += (prefixed(name.encode()), prefixed(value))
        return sha256(b"".join([*parts, prefixed(wire.value)])).hexdigest()
    return sha256(b"".join(_hashed_parts(layout.hashed, layout, values))).hexdigest()


def content_hash(wire: Wire) -> str:
    """Returns the hash over what the record says: as `record_hash`, with another format tag, without the values of `ce_prev`
    and `ce_sig`. Empty where a header occurs twice.
    """
    layout, values = parse_headers(wire)
    return _content_hash(layout, _hashed_parts(layout.hashed, layout, values)) if layout.hashed is not None else ""


def hashes_of(wire: Wire, layout: Layout, values: Values) -> tuple[str, str]:
    """Returns `record_hash` and `content_hash` from parsed headers."""
    if layout.hashed is None:
        return hash_of(wire, layout, values), ""
    parts = _hashed_parts(layout.hashed, layout, values)
    return sha256(b"".join(parts)).hexdigest(), _content_hash(layout, parts)


def _content_hash(layout: Layout, parts: list[bytes]) -> str:
    parts[0] = layout.content_begin
    for slot, _ in layout.not_content.values():
        parts[slot], parts[slot + 1] = _NO_LENGTH, b""
    return sha256(b"".join(parts)).hexdigest()


def _hashed_parts(pick: Callable[[Values], Values], layout: Layout, values: Values) -> list[bytes]:
    picked = pick(values)
    parts = layout.prefixes.copy()
    parts[1::3] = map(_length, map(len, picked))
    parts[2::3] = picked
    return parts


class HashedRecord(NamedTuple):
    """A record with its parsed headers and its hash."""

    wire: Wire
    layout: Layout
    values: Values
    hash: str


def hashed_record(wire: Wire) -> HashedRecord:
    """Parses and hashes the record."""
    layout, values = parse_headers(wire)
    return HashedRecord(wire, layout, values, hash_of(wire, layout, values))


class UnchainedRecord:
    """The bytes of a record before its `prev` and signature are known: placeholders stand for them. content: its content hash."""

    __slots__ = ("_layout", "_parts", "_values", "_wire", "content")

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._layout, self._values = layout, values = parse_headers(wire)
        assert layout.hashed is not None  # `encode` writes each header once
        self._parts = _hashed_parts(layout.hashed, layout, values)
        self.content = _content_hash(layout, self._parts)

    def chained(self, prev: bytes, signature: bytes) -> HashedRecord:
        """The record with these values; without a signature, if that is empty. Call it once."""
        layout, parts = self._layout, self._parts
        headers, values = list(self._wire.headers), list(self._values)
        parts[0] = layout.prefixes[0]
        for name, value in (("ce_prev", prev), ("ce_sig", signature)):
            if value:
                slot, at = layout.not_content[name]
                headers[at], values[at + 1] = (name, value), value
                parts[slot], parts[slot + 1] = _length(len(value)), value
        wire = Wire(tuple(headers), self._wire.value)
        return HashedRecord(wire, layout, tuple(values), sha256(b"".join(parts)).hexdigest())


_split_at_last_equals = methodcaller("rpartition", "=")


class _Lengths(dict[int, bytes]):
    def __missing__(self, length: int) -> bytes:
        return length.to_bytes(4, "big")


_NO_LENGTH = (0).to_bytes(4, "big")
_length = _Lengths({length: length.to_bytes(4, "big") for length in range(1024)}).__getitem__


def decode(wire: Wire, parsed: ParsedHeaders | None = None) -> Record:
    """Decodes a record.

    Args:
        parsed: The result of `parse_headers`, if the caller has it.

    Raises:
        UnreadableRecord: For anything that a reader must not skip.
    """
    layout, values = parsed or parse_headers(wire)
    found = layout.pick(values)
    try:
        pool, prev, time = found[0].decode(), found[2].decode(), found[5].decode()
        return decode_following(wire, layout, found, pool, int(found[1]), int(found[4]), prev, time)
    except ValueError as error:
        raise UnreadableRecord(f"{_where(found)}: {f'it lacks {layout.missing}' if layout.missing else error}") from error


def decode_following(wire: Wire, layout: Layout, found: Values, pool: str, seq: int, epoch: int, prev: str, time: str) -> Record:
    """As `decode`, for a record whose position the chain has checked.

    Args:
        found: The values of `READ_HEADERS`.
    """
    (
        _,
        _,
        _,
        kind,
        _,
        _,
        source,
        engine,
        policy,
        essential,
        cycle,
        cycle_end,
        cause,
        inputs,
        actor,
        auth,
        following,
        sig,
        request,
    ) = found
    try:
        if layout.missing:
            raise ValueError(f"it lacks {layout.missing}")
        fields = _common_fields(kind, essential, source, engine, policy)
        if fields.refused:
            raise ValueError(fields.refused)
        return Record(
            pool,
            seq,
            epoch,
            int(cycle),
            cycle_end == b"true",
            time_value(time),
            prev,
            fields.writer,
            fields.engine,
            fields.policy,
            fields.type,
            None if fields.read is None else fields.read(wire.value),
            cause.decode(),
            _positions(inputs.decode()) if inputs else (),
            actor.decode() if actor else "",
            auth.decode() if auth else "",
            following.decode(),
            sig.decode() if sig else "",
            request.decode() if request else "",
        )
    except ValueError as error:  # pydantic's errors are ValueErrors, too
        raise UnreadableRecord(f"{_where(found)}: {error}") from error


class _CommonFields(NamedTuple):
    """Fields that many records share. read: decodes the data; None for an unknown type. refused: why a reader stops."""

    writer: str
    engine: str
    policy: int
    type: str
    read: Callable[[bytes], Payload] | None
    refused: str


@lru_cache(maxsize=256)
def _common_fields(kind: bytes, essential: bytes, source: bytes, engine: bytes, policy: bytes) -> _CommonFields:
    name = kind.decode()
    known = AUDIT_TYPES.get(name)
    refused = ""
    if known is None and essential != b"false":
        refused = "this release does not know the type, and the fold needs it; use a newer one"
    read = None if known is None else known.__pydantic_validator__.validate_json
    return _CommonFields(source.decode().rpartition("/")[2], engine.decode(), int(policy), name, read, refused)


def _where(found: Values) -> str:
    pool, seq, _, kind = (value.decode(errors="replace") or "?" for value in found[:4])
    return f"{pool}#{seq} {kind}"


def _positions(text: str) -> tuple[tuple[str, int], ...]:
    return tuple([(position, int(offset)) for position, _, offset in map(_split_at_last_equals, text.split(","))])
