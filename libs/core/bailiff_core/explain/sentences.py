"""Building blocks of explanations: sentences with the records that prove them, and formatting helpers."""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.humanize import user_text
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.wire import time_text

MAX_NAMED = 5


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


def victims_of(data: decisions.PreemptionDecided) -> list[str]:
    """The victims' job ids, each once, in the order of the record."""
    return list(dict.fromkeys(choice.job for choice in data.victims))


def jobs_of(record: Record) -> dict[str, None]:
    """Ids of the jobs that the record is about."""
    data = record.data
    found: dict[str, None] = {}
    job = getattr(data, "job", None)
    if isinstance(job, str) and job:
        found[job] = None
    if isinstance(data, facts.JobSubmitted):
        found[data.demand.job] = None
    if isinstance(data, decisions.PreemptionDecided | decisions.PreemptionRefused):
        found[data.preemptor.job] = None
    if isinstance(data, decisions.PreemptionDecided):
        found |= dict.fromkeys([*victims_of(data), *data.unneeded_victims, *data.cancelled_evictions])
    return found


def clock(moment: int | None) -> str:
    """Day and time, UTC: `11-21 12:04:31`."""
    return time_text(moment or 0)[5:19].replace("T", " ")


def seqs_of(*seqs: int | None) -> tuple[int, ...]:
    """Distinct seqs that are not None, in order."""
    return tuple(dict.fromkeys(seq for seq in seqs if seq is not None))


def first_names(names: Sequence[str], total: int | None = None) -> str:
    """The first few names, and the number of others. total: number of all names, if `names` is not complete."""
    more = (len(names) if total is None else total) - len(names[:MAX_NAMED])
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


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


def actor_text(record: Record) -> str:
    """Who requested it: `ada`, `dora (not verified)`. Empty for a record of no request."""
    return user_text(record.actor, record.actor_verified)
