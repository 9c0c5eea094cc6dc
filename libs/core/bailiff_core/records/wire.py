"""A record as bytes on the wire: CloudEvents 1.0, Kafka binary mode, and its hash (docs/log-protocol.md)."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from pydantic import ValidationError

from bailiff_core.canonical import canonical_json

from .payload import AUDIT_TYPES, Payload

FORMAT_TAG = b"bailiff-audit-1"
CONTENT_TYPE = ("content-type", b"application/json")
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_TAG = len(FORMAT_TAG).to_bytes(4, "big") + FORMAT_TAG


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


@lru_cache(maxsize=64)  # the records of a turn have one time
def time_text(time: int) -> str:
    """µs UTC as RFC 3339 with six digits, so that text order is time order."""
    moment = EPOCH_START + timedelta(microseconds=time)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@lru_cache(maxsize=64)
def time_value(text: str) -> int:
    """µs UTC of the text that `time_text` writes."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return (moment - EPOCH_START) // timedelta(microseconds=1)


def encode(record: Record) -> Wire:
    """The bytes of a record. Equal records have equal bytes."""
    if record.data is None:
        raise ValueError(f"{record.type} has no data to encode")
    attributes = {
        "specversion": "1.0",
        "id": f"{record.domain}:{record.seq}",
        "source": f"/bailiff/{record.domain}/{record.writer}",
        "type": record.type,
        "time": time_text(record.time),
        "domain": record.domain,
        "seq": str(record.seq),
        "epoch": str(record.epoch),
        "turn": str(record.turn),
        "turnend": "true" if record.turn_end else "false",
        "prev": record.prev,
        "essential": "true" if record.data.ESSENTIAL else "false",
        "engine": record.engine,
        "policy": str(record.policy),
        "cause": record.cause,
        "inputs": ",".join(f"{position}={offset}" for position, offset in record.inputs),
        "actor": record.actor,
        "auth": record.auth,
    }
    headers = tuple((f"ce_{name}", value.encode()) for name, value in attributes.items() if value)
    return Wire((CONTENT_TYPE, *headers), canonical_json(record.data.to_data()))


def record_hash(wire: Wire) -> str:
    """SHA-256 over the format tag, each `ce_*` header sorted by name, and the value; every part length-prefixed.

    Lengths are 4 bytes, big-endian; before the headers stands their number. Bytes are taken as on the wire.
    """
    headers = wire.headers
    order, count = _hash_order(tuple([name for name, _ in headers]))
    if order is None:
        order, count = _sorted_by_value_too(wire)
    parts = [_TAG, count]
    for place, prefixed in order:
        value = headers[place][1]
        parts += (prefixed, len(value).to_bytes(4, "big"), value)
    parts += (len(wire.value).to_bytes(4, "big"), wire.value)
    return hashlib.sha256(b"".join(parts)).hexdigest()


_Order = tuple[tuple[int, bytes], ...]


@lru_cache(maxsize=64)  # nearly all records have the same few sets of headers
def _hash_order(names: tuple[str, ...]) -> tuple[_Order | None, bytes]:
    """Where the hashed headers stand, in order of their names; nothing where one name stands twice."""
    places = [place for place, name in enumerate(names) if name.startswith("ce_")]
    if len({names[place] for place in places}) < len(places):
        return None, b""
    places.sort(key=lambda place: names[place])
    return tuple((place, _prefixed_name(names[place])) for place in places), len(places).to_bytes(4, "big")


def _sorted_by_value_too(wire: Wire) -> tuple[_Order, bytes]:
    places = [place for place, (name, _) in enumerate(wire.headers) if name.startswith("ce_")]
    places.sort(key=lambda place: wire.headers[place])
    return tuple((place, _prefixed_name(wire.headers[place][0])) for place in places), len(places).to_bytes(4, "big")


def _prefixed_name(name: str) -> bytes:
    part = name.encode()
    return len(part).to_bytes(4, "big") + part


def decode(wire: Wire) -> Record:
    """The record that these bytes say. Raises `UnreadableRecord` for anything a reader must not pass over."""
    at = dict(wire.headers)
    try:
        name = at["ce_type"].decode()
        kind = AUDIT_TYPES.get(name)
        if kind is None and at.get("ce_essential") != b"false":
            raise UnreadableRecord(f"{_where(at)}: this release does not know the type, and the fold needs it; use a newer one")
        return Record(
            at["ce_domain"].decode(), int(at["ce_seq"]), int(at["ce_epoch"]), int(at["ce_turn"]), at["ce_turnend"] == b"true",
            time_value(at["ce_time"].decode()), at["ce_prev"].decode(), at["ce_source"].decode().rpartition("/")[2],
            at["ce_engine"].decode(), int(at["ce_policy"]), name,
            None if kind is None else kind.__pydantic_validator__.validate_json(wire.value),
            at.get("ce_cause", b"").decode(), _positions(at.get("ce_inputs", b"").decode()),
            at.get("ce_actor", b"").decode(), at.get("ce_auth", b"").decode(),
        )  # fmt: skip
    except (KeyError, ValueError, ValidationError) as error:
        raise UnreadableRecord(f"{_where(at)}: {error}") from error


def _where(at: dict[str, bytes]) -> str:
    domain, seq, kind = (at.get(f"ce_{name}", b"?").decode(errors="replace") for name in ("domain", "seq", "type"))
    return f"{domain}#{seq} {kind}"


def _positions(text: str) -> tuple[tuple[str, int], ...]:
    if not text:
        return ()
    pairs = [part.rpartition("=") for part in text.split(",")]
    return tuple([(position, int(offset)) for position, _, offset in pairs])
