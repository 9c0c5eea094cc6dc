"""Renders records as short lines and as sentences."""

from collections.abc import Sequence

from bailiff.render.plain_text import plain
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record

from .entries import ENTRIES
from .line import Line, Statement
from .phrases import joined, requested_by


def statements(record: Record, state: PoolState | None = None) -> Sequence[Statement]:
    """Statements of a record: one, or one per victim. For a type of a later release only its name."""
    if record.data is None:
        return [Statement(record.type.removeprefix("bailiff.audit."), "", "written by a later release", "quiet")]
    return ENTRIES[type(record.data)].describe(record.data, state if state is not None else PoolState())


def lines(record: Record, state: PoolState | None = None) -> list[Line]:
    """The record's lines: one, or one per victim."""
    by = requested_by(record)
    return [
        Line(
            record.time,
            record.pool,
            record.seq,
            Statement(each.what, plain(each.subject), plain(joined(each.detail, by)), each.tone),
        )
        for each in statements(record, state)
    ]


def lines_about(record: Record, job: str, state: PoolState | None = None) -> list[Line]:
    """Of a preemption, the line about this victim; of its preemptor, and of any other record, all lines."""
    found = lines(record, state)
    subjects = (f"{job} ", f"{job}/")
    return [line for line in found if "→" in line.statement.subject and line.statement.subject.startswith(subjects)] or found


PREDICATES = ("needs ", "for ", "→ ", "(")
"""Beginnings of details that continue the subject, without a comma: `train-7 needs 4 GPUs`."""


def sentence(record: Record, state: PoolState | None = None) -> str:
    """The record as one sentence: `Job pending: train-7 needs 4 GPUs, no node has them.` Of several victims, the total."""
    found = [line.statement for line in lines(record, state)]
    what, last = found[0].what, found[-1]
    continues = last.subject and last.detail.startswith(PREDICATES)
    rest = f"{last.subject} {last.detail}" if continues else joined(last.subject, last.detail)
    what = what[:1].upper() + what[1:]
    return f"{what}: {rest.rstrip('.')}." if rest else f"{what}."


def event_word(record: Record, state: PoolState) -> str:
    """The event type of the record; empty if it is not an event."""
    return "" if record.data is None else ENTRIES[type(record.data)].event(record, record.data, state)
