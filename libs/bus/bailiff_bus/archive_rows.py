"""What stands beside a record's bytes in the archive: the columns by which it is found, all of which follow from the bytes.

A row is made twice here: as values, to compare, and as the bytes of PostgreSQL's binary COPY, to write, which takes a third
of the time.
"""

import struct
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Decision, Payload
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import packed, without_nul
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
JobIn = Callable[[Any], str | None]


def record_row(domain: int, message: Message, record: Record, digest: bytes) -> tuple[Any, ...]:
    """A record's row, as `RECORD_COLUMNS` has it. digest: its hash."""
    of = _kind_of(record)
    return (
        domain, record.seq, message.offset, message.time, EPOCH_START + record.time * MICROSECOND, record.epoch, record.turn,
        record.type.removeprefix("bailiff.audit."), issubclass(of, Decision), _job_in(of)(record.data) or None,
        without_nul(record.actor) or None, digest, message.key, packed(message.headers), message.value,
    )  # fmt: skip


def record_bytes(domain: int, message: Message, headers: bytes, record: Record, digest: bytes) -> bytes:
    """The same row as binary COPY has it; all of them stand between `COPY_BEGIN` and `COPY_END`. headers: as `packed`."""
    alike, job_in = _alike(record.type, _kind_of(record))
    job, key, value = job_in(record.data), message.key, message.value
    return b"".join([
        _numbers(
            len(RECORD_COLUMNS), 2, domain, 8, record.seq, 8, message.offset, 8, message.time, 8, record.time - YEAR_2000,
            8, record.epoch, 8, record.turn,
        ),
        alike, _field(job.encode()) if job else _NULL,
        _field(without_nul(record.actor).encode()) if record.actor else _NULL, _HASH, digest,
        _NULL if key is None else _field(key),
        _length(len(headers)), headers, _length(len(value)), value,
    ])  # fmt: skip


def _field(raw: bytes) -> bytes:
    return _length(len(raw)) + raw


def _kind_of(record: Record) -> type[Payload]:
    return Payload if record.data is None else type(record.data)


@cache
def _alike(name: str, kind: type[Payload]) -> tuple[bytes, JobIn]:
    """The columns type and decision, and how to find the job, of all records of this type."""
    return _field(name.removeprefix("bailiff.audit.").encode()) + _field(bytes([issubclass(kind, Decision)])), _job_in(kind)


@cache
def _job_in(kind: type[Payload]) -> JobIn:
    """How to find the job that data of this type is mainly about: empty, or None, where there is none."""
    if kind is facts.JobSubmitted:
        return attrgetter("demand.job")
    if kind in (decisions.PreemptionDecided, decisions.PreemptionRefused):
        return attrgetter("asker.job")
    return attrgetter("job") if "job" in kind.model_fields else _no_job


def _no_job(_: object) -> None:
    return None
