"""What stands beside a record's bytes in the archive: the columns by which it is found, all of which follow from the bytes.

A row is made twice here: as values, to compare, and as the bytes of PostgreSQL's binary COPY, to write, which takes a third
of the time.
"""

import struct
from functools import cache
from typing import Any

from bailiff_core.explain.said import jobs_of
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Decision, Payload
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import packed
from .port import Message

RECORD_COLUMNS = (
    "domain", "seq", "offset", "appended_at", "time", "epoch", "turn", "type", "decision", "job", "actor", "hash", "key",
    "headers", "value",
)  # fmt: skip
COPY_BEGIN, COPY_END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"
YEAR_2000 = 946_684_800_000_000  # µs: where PostgreSQL's times begin
_numbers = struct.Struct(">h ih iq iq iq iq iq iq".replace(" ", "")).pack
_length = struct.Struct(">i").pack
_NULL, _HASH = _length(-1), _length(32)


def record_row(domain: int, message: Message, record: Record, digest: bytes) -> tuple[Any, ...]:
    """A record's row, as `RECORD_COLUMNS` has it. digest: its hash."""
    return (
        domain, record.seq, message.offset, message.time, EPOCH_START + record.time * MICROSECOND, record.epoch, record.turn,
        record.type.removeprefix("bailiff.audit."), isinstance(record.data, Decision), _about(record), record.actor or None,
        digest, message.key, packed(message.headers), message.value,
    )  # fmt: skip


def record_bytes(
    domain: int, offset: int, appended_at: int, key: bytes | None, headers: bytes, value: bytes, record: Record, digest: bytes
) -> bytes:
    """The same row as binary COPY has it; all of them stand between `COPY_BEGIN` and `COPY_END`. headers: as `packed`."""
    job = _about(record)
    return b"".join([
        _numbers(
            len(RECORD_COLUMNS), 2, domain, 8, record.seq, 8, offset, 8, appended_at, 8, record.time - YEAR_2000,
            8, record.epoch, 8, record.turn,
        ),
        _kind(record.type, isinstance(record.data, Decision)), _NULL if job is None else _field(job.encode()),
        _field(record.actor.encode()) if record.actor else _NULL, _HASH, digest, _NULL if key is None else _field(key),
        _length(len(headers)), headers, _length(len(value)), value,
    ])  # fmt: skip


def _field(raw: bytes) -> bytes:
    return _length(len(raw)) + raw


@cache
def _kind(name: str, decision: bool) -> bytes:
    return _field(name.removeprefix("bailiff.audit.").encode()) + _field(bytes([decision]))


def _about(record: Record) -> str | None:
    """The job that the record is mainly about."""
    data = record.data
    if data is None:
        return None
    kind = type(data)
    if _says_job(kind):
        job: str = data.job  # type: ignore[attr-defined]
        if job:
            return job
    return next(iter(jobs_of(record)), None) if kind in SAY_JOBS else None


SAY_JOBS = (facts.JobSubmitted, decisions.PreemptionDecided, decisions.PreemptionRefused)


@cache
def _says_job(kind: type[Payload]) -> bool:
    return "job" in kind.model_fields
