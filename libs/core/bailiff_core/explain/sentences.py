"""Building blocks of explanations: sentences with the records that prove them, and formatting helpers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bailiff_core.humanize import user_text
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.records import Record, decisions
from bailiff_core.records.wire import time_text


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement, and the seqs of the records that prove it."""

    text: str
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A question, and the sentences that answer it."""

    question: str
    sentences: tuple[Sentence, ...]


def clock(moment: int | None) -> str:
    """Day and time, UTC: `11-21 12:04:31`."""
    return time_text(moment or 0)[5:19].replace("T", " ")


def seqs_of(*seqs: int | None) -> tuple[int, ...]:
    """Distinct seqs that are not None, in order."""
    return tuple(dict.fromkeys(seq for seq in seqs if seq is not None))


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def was_or_were(names: Sequence[str]) -> str:
    """`was` for one name, `were` for several."""
    return "was" if len(names) == 1 else "were"


def has_or_have(names: Sequence[str]) -> str:
    """`has` for one name, `have` for several."""
    return "has" if len(names) == 1 else "have"


def tasks_text(ranges: str) -> str:
    """`task 3`, `tasks 4-7`."""
    return f"task {ranges}" if ranges.isdigit() else f"tasks {ranges}"


def without_stop(text: str) -> str:
    """The text without its full stop, for use within a sentence."""
    return text.rstrip(".")


def newest_of(history: Sequence[Record], *kinds: type[object]) -> Record | None:
    """The last record of one of these types."""
    return next((record for record in reversed(history) if isinstance(record.data, kinds)), None)


def shrunk_together(records: Iterable[Record]) -> Iterator[tuple[Record, tuple[int, ...]]]:
    """Yields the records with their seqs; successive `JobShrunk` of a job, whose tasks leave one by one, as one for all."""
    parts: list[Record] = []
    for record in (*records, None):
        if parts and (record is None or not isinstance(record.data, decisions.JobShrunk)):
            yield _together(parts), seqs_of(*(each.seq for each in parts))
            parts = []
        if record is not None and isinstance(record.data, decisions.JobShrunk):
            parts.append(record)
        elif record is not None:
            yield record, (record.seq,)


def _together(parts: Sequence[Record]) -> Record:
    shrunk = [each.data for each in parts if isinstance(each.data, decisions.JobShrunk)]
    tasks = ranges(sorted(index for each in shrunk for index in numbers(each.tasks)))
    lost = sum(each.lost_gpu_ms for each in shrunk)
    return replace(parts[-1], data=shrunk[-1].model_copy(update={"tasks": tasks, "lost_gpu_ms": lost}))


def actor_text(record: Record) -> str:
    """Who requested it: `ada`, `dora (not verified)`. Empty for a record of no request."""
    return user_text(record.actor, record.actor_verified)
