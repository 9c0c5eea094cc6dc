"""What stands beside a record's bytes in the archive: the columns by which it is found, all of which follow from the bytes."""

from typing import Any

from bailiff_core.explain.said import jobs_of
from bailiff_core.records import Record
from bailiff_core.records.payload import Decision
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .archive import packed
from .port import Message

RECORD_COLUMNS = (
    "domain", "seq", "offset", "appended_at", "time", "epoch", "turn", "type", "decision", "job", "actor", "hash", "key",
    "headers", "value",
)  # fmt: skip


def record_row(domain: int, message: Message, record: Record, digest: bytes) -> tuple[Any, ...]:
    """A record's row, as `RECORD_COLUMNS` has it. digest: its hash."""
    return (
        domain, record.seq, message.offset, message.time, EPOCH_START + record.time * MICROSECOND, record.epoch, record.turn,
        record.type.removeprefix("bailiff.audit."), isinstance(record.data, Decision), _about(record), record.actor or None,
        digest, message.key, packed(message.headers), message.value,
    )  # fmt: skip


def _about(record: Record) -> str | None:
    """The job that the record is mainly about."""
    job = getattr(record.data, "job", None)
    if isinstance(job, str) and job:
        return job
    return next(iter(jobs_of(record)), None)
