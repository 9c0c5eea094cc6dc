"""The chain rule: which record continues a log. All readers apply it, and so read the same records.

In a signed log the writer signs the first of the records that it appends together, and each of them names the content of the
next. So every record can be judged when it arrives, and whoever has no certificate of a writer cannot put one between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from .layout import Layout, Values
from .log_keys import KEY_RECORDS, InvalidKeys, LogKeys, SignatureCheck, keys_after
from .payload import AUDIT_TYPES
from .wire import HashedRecord, ParsedHeaders, Record, Wire, content_hash, decode_following, hash_of, hashes_of, parse_headers

GENESIS = "0" * 64
WRITER_STARTED = "bailiff.audit.WriterStarted.v1"
POOL_CREATED = "bailiff.audit.PoolCreated.v1"
_STARTS_WRITER, _CREATES_POOL = WRITER_STARTED.encode(), POOL_CREATED.encode()
_KEY_RECORDS = frozenset(kind.encode() for kind in KEY_RECORDS)
NOT_ANNOUNCED = "its content is not what the record before it announces"
MAX_EPOCH_DIGITS = 16


@dataclass(slots=True)  # not frozen, for speed: see `Wire`
class ChainHead:
    """Head of a log: the next seq; hash, epoch and time of the last record.

    Attributes:
        keys: The keys of a signed log.
        next_content: Hash of the content that the next record must have; empty: the next record must be signed.
    """

    pool: str
    next_seq: int = 0
    hash: str = GENESIS
    epoch: int = 0
    time: str = ""
    next_content: str = ""
    keys: LogKeys | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "ChainHead":
        """The inverse of `dataclasses.asdict`, also after JSON.

        Raises:
            TypeError: It is no head.
            KeyError: It is no head.
        """
        keys = data.get("keys")
        return cls(**{**data, "keys": keys and LogKeys.from_data(keys)})


@dataclass(frozen=True, slots=True)
class Break:
    """Why a record does not continue the chain.

    Attributes:
        signed: False where, in a signed log, only a valid signature is missing.
    """

    reason: str
    signed: bool = True


def continues(
    head: ChainHead, wire: Wire, check: SignatureCheck | None = None, parsed: ParsedHeaders | None = None
) -> ChainHead | Break:
    """Returns the head after this record, or why it is an orphan. Reads headers, and the data of records about keys.

    A record continues the chain when pool, seq and prev match, time does not go back, and its epoch is the head's; only
    `WriterStarted` raises the epoch. In a signed log it is also signed, or is what the record before it announces.

    Args:
        check: None leaves out the signatures.
        parsed: The result of `parse_headers`, if the caller has it.
    """
    layout, values = parsed or parse_headers(wire)
    return _check(head, wire, layout, values, layout.pick(values), check)


def continues_hashed(head: ChainHead, record: HashedRecord, check: SignatureCheck | None = None) -> ChainHead | Break:
    """As `continues`, for a record whose hash is known."""
    wire, layout, values, whole = record
    return _check(head, wire, layout, values, layout.pick(values), check, whole)


def follow(
    head: ChainHead, wire: Wire, parsed: ParsedHeaders | None = None, check: SignatureCheck | None = None
) -> tuple[ChainHead, Record] | Break:
    """As `continues`, and decodes the record.

    Args:
        parsed: The result of `parse_headers`, if the caller has it.

    Raises:
        UnreadableRecord: If it is invalid.
    """
    layout, values = parsed or parse_headers(wire)
    found = layout.pick(values)
    after = _check(head, wire, layout, values, found, check)
    if isinstance(after, Break):
        return after
    return after, decode_following(wire, layout, found, head.pool, head.next_seq, after.epoch, head.hash, after.time)


def _check(
    head: ChainHead, wire: Wire, layout: Layout, values: Values, found: Values, check: SignatureCheck | None, whole: str = ""
) -> ChainHead | Break:
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
    keys = head.keys
    # Nothing is signed in this log: the hash is all there is to follow.
    if keys is None and kind != _CREATES_POOL:
        return ChainHead(head.pool, head.next_seq + 1, whole or hash_of(wire, layout, values), epoch, time)
    announced = head.next_content
    # A record that the one before did not announce needs a signature of its own; so does one that changes keys.
    if not announced or kind in _KEY_RECORDS or keys is None:
        whole = whole or hash_of(wire, layout, values)
        try:
            keys = _signed_by(head, wire, _text(kind), time, _text(found[17]), check)
        except InvalidKeys as error:
            return Break(str(error), signed=False)
        if keys is None:
            return ChainHead(head.pool, head.next_seq + 1, whole, epoch, time)
    # The caller compares the contents later, many at once.
    elif check is not None and check.deferred is not None:
        check.deferred.append((announced, wire))
        whole = whole or hash_of(wire, layout, values)
    else:
        whole, content = hashes_of(wire, layout, values)
        if content != announced:
            return Break(NOT_ANNOUNCED, signed=False)
    if time > keys.writer_until:
        return Break(f"the writer's certificate has expired on {keys.writer_until}", signed=False)
    return ChainHead(head.pool, head.next_seq + 1, whole, epoch, time, _text(found[16]), keys)


def _signed_by(head: ChainHead, wire: Wire, kind: str, time: str, signature: str, check: SignatureCheck | None) -> LogKeys | None:
    """The log's keys after this record; None if it is not signed. Raises `InvalidKeys`: it is neither signed nor announced."""
    keys = head.keys
    if kind in KEY_RECORDS:
        try:
            data = AUDIT_TYPES[kind].model_validate_json(wire.value)
        except ValidationError:
            raise InvalidKeys(f"the data of {kind} is not valid") from None
        keys = keys_after(keys, data, head.pool, time, check)
    signer = keys if kind in (POOL_CREATED, WRITER_STARTED) else head.keys
    if keys is None or signer is None:
        return None
    if head.next_content and kind != WRITER_STARTED:
        if content_hash(wire) != head.next_content:
            raise InvalidKeys(NOT_ANNOUNCED)
        return keys
    if not signature:
        raise InvalidKeys("it is not signed")
    if signer.writer_key in signer.revoked:
        raise InvalidKeys(f"the writer's key {signer.writer_key} was revoked")
    refused = "" if check is None else check.record(signer, signature, head.hash, wire)
    if refused:
        raise InvalidKeys(refused)
    return keys


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
