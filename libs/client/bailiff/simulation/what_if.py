"""A pool's own past under another policy: what `bailiff what-if` and the console do with a log."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bailiff.audit.chain_report import ChainVerifier, entries
from bailiff.audit.log_positions import point
from bailiff.audit.log_sources import Source
from bailiff.client.errors import ExitCode, Problem
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record
from bailiff_core.records.wire import time_text

from .options import simulator

if TYPE_CHECKING:
    from bailiff_sim.what_if import WhatIf

Tell = Callable[[str, int, int], None]
"""Called with `simulated` or `other`, and how much of how much is done."""


async def whole_log(source: Source, seen: Callable[[int], None] = lambda _: None) -> list[Record]:
    """Every record. seen: called with how many there are so far. Raises `Problem` where the log does not begin with the first."""
    source.from_its_beginning("what-if")
    found: list[Record] = []
    async for entry in entries(ChainVerifier(source.pool), source.messages, "see: bailiff audit verify"):
        found.append(entry.record)
        seen(len(found))
    return found


def other_past(
    pool: str, log: list[Record], rules: Policy, begin: str | None, to: str | None, tell: Tell, now: int | None = None
) -> tuple["WhatIf", dict[str, Any]]:
    """Both simulations, and their comparison as data. begin, to: as `moments.point` reads them. Raises `Problem`.

    now: µs UTC, from which a time ago counts; left out: the log's end.
    """
    since, until = (_moment(option, text, log, now) for option, text in (("--from", begin), ("--to", to)))
    if since is not None and until is not None and until <= since:
        raise Problem(ExitCode.USAGE, f"--to {to} is not after --from {begin}")
    try:
        read = simulator("from_log").from_log(log, pool, until)
    except ValueError as error:
        raise Problem(ExitCode.NOT_FOUND, f"{pool}: {error}") from None
    if since is not None and since >= read.end:
        raise Problem(ExitCode.NOT_FOUND, f"--from ({time_text(since)}) is not before the end of it all, {time_text(read.end)}")
    if read.end < read.begin:
        raise Problem(ExitCode.NOT_FOUND, f"--to ({time_text(read.end)}) is before the log begins, {time_text(read.begin)}")
    found: WhatIf = simulator("what_if").what_if(read, rules, since, tell)
    if not found.again.jobs:
        window = f"between {time_text(found.since)} and {time_text(found.to)}"
        text = f"no job was in {pool} {window}, so there is nothing to compare"
        raise Problem(ExitCode.NOT_FOUND, text, "another --from or --to")
    return found, simulator("what_if").compared(found)


def _moment(option: str, text: str | None, log: list[Record], now: int | None) -> int | None:
    if text is None:
        return None
    found = point(text, option).at(now if now is not None else log[-1].time if log else 0)
    if found.seq is None:
        return found.time
    if found.seq >= len(log):
        raise Problem(ExitCode.NOT_FOUND, f"{option}: there is no record #{found.seq}: the log ends at #{len(log) - 1}")
    return log[found.seq].time
