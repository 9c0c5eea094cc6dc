"""A record as bytes on the wire: CloudEvents 1.0, Kafka binary mode, and its hash (docs/log-protocol.md)."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter

from pydantic import ValidationError

from .payload import AUDIT_TYPES, Payload

FORMAT_TAG = b"bailiff-audit-1"
CONTENT_TYPE = ("content-type", b"application/json")
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


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

    domain: str
    seq: int
    epoch: int
    turn: int
    turn_end: bool
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
            self.domain, self.seq, self.epoch, self.turn, self.turn_end, self.time, prev, self.writer, self.engine,
            self.policy, self.type, self.data, self.cause, self.inputs, self.actor, self.auth,
        )  # fmt: skip


def time_text(time: int) -> str:
    """µs UTC as RFC 3339 with six digits, so that text order is time order."""
    second, micros = divmod(time, 1_000_000)
    return f"{_second_text(second)}.{micros:06d}Z"


@lru_cache(maxsize=64)  # much happens within a second
def _second_text(second: int) -> str:
    return (EPOCH_START + timedelta(seconds=second)).isoformat().removesuffix("+00:00")


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
    inputs = ",".join([f"{position}={offset}" for position, offset in record.inputs]) if record.inputs else ""
    headers = [
        CONTENT_TYPE,
        ("ce_specversion", b"1.0"),
        ("ce_id", b"%b:%d" % (record.domain.encode(), record.seq)),
        ("ce_source", f"/bailiff/{record.domain}/{record.writer}".encode()),
        ("ce_type", record.type.encode()),
        ("ce_time", time_text(record.time).encode()),
        ("ce_domain", record.domain.encode()),
        ("ce_seq", b"%d" % record.seq),
        ("ce_epoch", b"%d" % record.epoch),
        ("ce_turn", b"%d" % record.turn),
        ("ce_turnend", b"true" if record.turn_end else b"false"),
        ("ce_prev", record.prev.encode()),
        ("ce_essential", b"true" if data.ESSENTIAL else b"false"),
        ("ce_engine", record.engine.encode()),
        ("ce_policy", b"%d" % record.policy),
        ("ce_cause", record.cause.encode()),
        ("ce_inputs", inputs.encode()),
        ("ce_actor", record.actor.encode()),
        ("ce_auth", record.auth.encode()),
    ]
    return Wire(tuple([header for header in headers if header[1]]), data.to_json())


def record_hash(wire: Wire) -> str:
    """SHA-256 over the format tag, each `ce_*` header sorted by name, and the value; every part length-prefixed.

    Lengths are 4 bytes, big-endian; before the headers stands their number. Bytes are taken as on the wire.
    """
    return hash_of(wire, dict(wire.headers))


def hash_of(wire: Wire, at: Mapping[str, bytes]) -> str:
    """`record_hash`, given the headers by name."""
    if len(at) < len(wire.headers):  # one name stands twice
        hashed = sorted(header for header in wire.headers if header[0].startswith("ce_"))
        parts = [_TAG, len(hashed).to_bytes(4, "big")]
        for name, value in hashed:
            parts += (_prefixed(name.encode()), _prefixed(value))
        return hashlib.sha256(b"".join([*parts, _prefixed(wire.value)])).hexdigest()
    pick, parts = _layout(tuple(at))
    values = (*pick(at), wire.value)
    parts = parts.copy()
    parts[1::3] = map(_LENGTHS.__getitem__, map(len, values))
    parts[2::3] = values
    return hashlib.sha256(b"".join(parts)).hexdigest()


Pick = Callable[[Mapping[str, bytes]], tuple[bytes, ...]]


@lru_cache(maxsize=64)  # nearly all records have the same few sets of headers
def _layout(names: tuple[str, ...]) -> tuple[Pick, list[bytes]]:
    """How to pick the hashed values in order of their names; and what stands before each, with room for length and value."""
    hashed = sorted(name for name in names if name.startswith("ce_"))
    pick = itemgetter(*hashed) if len(hashed) > 1 else lambda at: tuple(at[name] for name in hashed)
    befores = [_prefixed(name.encode()) for name in hashed] + [b""]
    befores[0] = _TAG + len(hashed).to_bytes(4, "big") + befores[0]
    return pick, [part for before in befores for part in (before, b"", b"")]


def _prefixed(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


class _Lengths(dict[int, bytes]):
    def __missing__(self, length: int) -> bytes:
        return length.to_bytes(4, "big")


_LENGTHS = _Lengths({length: length.to_bytes(4, "big") for length in range(1024)})
_TAG = _prefixed(FORMAT_TAG)


def decode(wire: Wire) -> Record:
    """The record that these bytes say. Raises `UnreadableRecord` for anything a reader must not pass over."""
    at = dict(wire.headers)
    try:
        domain, prev = at["ce_domain"].decode(), at["ce_prev"].decode()
        return decode_following(wire, at, domain, int(at["ce_seq"]), int(at["ce_epoch"]), prev)
    except (KeyError, ValueError) as error:
        raise UnreadableRecord(f"{_where(at)}: {error}") from error


def decode_following(wire: Wire, at: Mapping[str, bytes], domain: str, seq: int, epoch: int, prev: str) -> Record:
    """As `decode`, where the chain has said already where the record stands. at: its headers by name."""
    try:
        name = at["ce_type"].decode()
        kind = AUDIT_TYPES.get(name)
        if kind is None and at.get("ce_essential") != b"false":
            raise UnreadableRecord(f"{_where(at)}: this release does not know the type, and the fold needs it; use a newer one")
        get = at.get
        return Record(
            domain, seq, epoch, int(at["ce_turn"]), at["ce_turnend"] == b"true",
            time_value(at["ce_time"].decode()), prev, at["ce_source"].decode().rpartition("/")[2],
            at["ce_engine"].decode(), int(at["ce_policy"]), name,
            None if kind is None else kind.__pydantic_validator__.validate_json(wire.value),
            get("ce_cause", b"").decode(), _positions(get("ce_inputs", b"").decode()),
            get("ce_actor", b"").decode(), get("ce_auth", b"").decode(),
        )  # fmt: skip
    except (KeyError, ValueError, ValidationError) as error:
        raise UnreadableRecord(f"{_where(at)}: {error}") from error


def _where(at: Mapping[str, bytes]) -> str:
    domain, seq, kind = (at.get(f"ce_{name}", b"?").decode(errors="replace") for name in ("domain", "seq", "type"))
    return f"{domain}#{seq} {kind}"


def _positions(text: str) -> tuple[tuple[str, int], ...]:
    if not text:
        return ()
    pairs = [part.rpartition("=") for part in text.split(",")]
    return tuple([(position, int(offset)) for position, _, offset in pairs])
