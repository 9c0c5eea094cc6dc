"""Rows of the archive's `records` table: the indexed columns, derived from a record's bytes.

As values for comparison, and as PostgreSQL binary COPY, which takes a third of the time to write.
"""

import struct
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

from bailiff_bus.port import Message
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Decision, Payload
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import pack_headers, without_nul

RECORD_COLUMNS = (
    "pool",
    "seq",
    "offset",
    "appended_at",
    "time",
    "epoch",
    "cycle",
    "type",
    "decision",
    "job",
    "actor",
    "hash",
    "key",
    "headers",
    "value",
)
COPY_BEGIN, COPY_END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"
YEAR_2000 = 946_684_800_000_000  # µs: PostgreSQL's epoch
_numbers = struct.Struct(">h ih iq iq iq iq iq iq".replace(" ", "")).pack
_length = struct.Struct(">i").pack
_NULL, _HASH = _length(-1), _length(32)
JobIn = Callable[[Any], str | None]


def record_row(pool: int, message: Message, record: Record, digest: bytes) -> tuple[Any, ...]:
    """A record's row, in the order of `RECORD_COLUMNS`. digest: its hash."""
    of = _kind_of(record)
    return (
        pool,
        record.seq,
        message.offset,
        message.time,
        EPOCH_START + record.time * MICROSECOND,
        record.epoch,
        record.cycle,
        record.type.removeprefix("bailiff.audit."),
        issubclass(of, Decision),
        _job_in(of)(record.data) or None,
        without_nul(record.actor) or None,
        digest,
        message.key,
        pack_headers(message.headers),
        message.value,
    )


def record_bytes(pool: int, message: Message, headers: bytes, record: Record, digest: bytes) -> bytes:
    """The same row in binary COPY format, between `COPY_BEGIN` and `COPY_END`. headers: from `pack_headers`."""
    constants, job_in = _constant_columns(record.type, _kind_of(record))
    job, key, value = job_in(record.data), message.key, message.value
    return b"".join(
        [
            _numbers(
                len(RECORD_COLUMNS),
                2,
                pool,
                8,
                record.seq,
                8,
                message.offset,
                8,
                message.time,
                8,
                record.time - YEAR_2000,
                8,
                record.epoch,
                8,
                record.cycle,
            ),
            constants,
            _field(job.encode()) if job else _NULL,
            _field(without_nul(record.actor).encode()) if record.actor else _NULL,
            _HASH,
            digest,
            _NULL if key is None else _field(key),
            _length(len(headers)),
            headers,
            _length(len(value)),
            value,
        ]
    )


def _field(raw: bytes) -> bytes:
    return _length(len(raw)) + raw


def _kind_of(record: Record) -> type[Payload]:
    return Payload if record.data is None else type(record.data)


@cache
def _constant_columns(name: str, kind: type[Payload]) -> tuple[bytes, JobIn]:
    """The columns type and decision of all records of this type, and a getter for the job."""
    return _field(name.removeprefix("bailiff.audit.").encode()) + _field(bytes([issubclass(kind, Decision)])), _job_in(kind)


@cache
def _job_in(kind: type[Payload]) -> JobIn:
    """A getter for the job that data of this type is about; it returns an empty string or None without one."""
    if kind is facts.JobSubmitted:
        return attrgetter("demand.job")
    if kind in (decisions.PreemptionDecided, decisions.PreemptionRefused):
        return attrgetter("preemptor.job")
    return attrgetter("job") if "job" in kind.model_fields else _no_job


def _no_job(_: object) -> None:
    return None
