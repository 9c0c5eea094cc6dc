"""Simulates a pool's recorded past under another policy; used by `bailiff what-if` and the console."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bailiff.audit.chain_report import entries
from bailiff.audit.log_positions import point
from bailiff.audit.log_sources import Source
from bailiff.client.errors import NotFound, UsageError
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record
from bailiff_core.records.wire import time_text
from bailiff_log.chain_verifier import ChainVerifier

from .options import simulator

if TYPE_CHECKING:
    from bailiff_sim.what_if import WhatIf

ProgressCallback = Callable[[str, int, int], None]
"""Progress callback: the run (`simulated` or `other`), the steps done and in total."""


async def whole_log(source: Source, seen: Callable[[int], None] = lambda _: None) -> list[Record]:
    """Reads all records.

    Args:
        seen: Called with the number of records read so far.

    Raises:
        ClientError: The first records are missing.
    """
    source.from_its_beginning("what-if")
    found: list[Record] = []
    async for entry in entries(ChainVerifier(source.pool), source.messages, "see: bailiff audit verify"):
        found.append(entry.record)
        seen(len(found))
    return found


def is_history(path: Path) -> bool:
    """Whether `bailiff import` wrote this folder."""
    found: bool = simulator("history.folder").is_history(path)
    return found


def other_past(
    pool: str,
    log: list[Record],
    rules: Policy,
    begin: str | None,
    to: str | None,
    progress: ProgressCallback,
    now: int | None = None,
) -> tuple["WhatIf", dict[str, Any]]:
    """Simulates the past under its policies and under another one.

    Args:
        begin: A position as `log_positions.point` reads it.
        to: As `begin`.
        now: µs UTC, the origin of durations ago; default: the log's end.

    Returns:
        Both simulations, and their comparison as data.

    Raises:
        ClientError: The log cannot be simulated in this range.
    """
    since, until = (_moment(option, text, log, now) for option, text in (("--from", begin), ("--to", to)))
    if since is not None and until is not None and until <= since:
        raise UsageError(f"--to {to} is not after --from {begin}")
    try:
        read = simulator("from_log").from_log(log, pool, until)
    except ValueError as error:
        raise NotFound(f"{pool}: {error}") from None
    if since is not None and since >= read.end:
        raise NotFound(f"--from ({time_text(since)}) is not before the end of the log, {time_text(read.end)}")
    if read.end < read.begin:
        raise NotFound(f"--to ({time_text(read.end)}) is before the beginning of the log, {time_text(read.begin)}")
    found: WhatIf = simulator("what_if").what_if(read, rules, since, progress)
    if not found.again.jobs:
        window = f"between {time_text(found.since)} and {time_text(found.to)}"
        raise NotFound(f"no job was in {pool} {window}, so there is nothing to compare", "choose another --from or --to")
    if found.rejected and not found.changed.jobs:
        name, reason = next(iter(found.rejected.items()))
        text = f"the other policy rejects every job, so there is nothing to compare; the first is {name}: {reason}"
        raise NotFound(text, "give the other policy the projects and classes of the jobs")
    return found, simulator("what_if").compared(found)


def _moment(option: str, text: str | None, log: list[Record], now: int | None) -> int | None:
    if text is None:
        return None
    found = point(text, option).at(now if now is not None else log[-1].time if log else 0)
    if found.seq is None:
        return found.time
    if found.seq >= len(log):
        raise NotFound(f"{option}: there is no record #{found.seq}: the log ends at #{len(log) - 1}")
    return log[found.seq].time
