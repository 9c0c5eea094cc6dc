"""`bailiff what-if`: the pool's own past under another policy."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from bailiff.moments import point, wall_clock
from bailiff.policyfile import read_policy
from bailiff.problem import ExitCode, Problem
from bailiff.simulating import simulator
from bailiff.walk import Walk, records
from bailiff.whatiftable import what_if_table
from bailiff.written import write
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record
from bailiff_core.records.wire import time_text

from .audit import PANEL, FromArchive, FromFile, source_of
from .session import Session, command

if TYPE_CHECKING:
    from bailiff_sim.what_if import WhatIf


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, "what-if", rich_help_panel=PANEL)(what_if)


async def what_if(
    session: Session,
    policy: Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The other policy, in YAML.")],
    begin: Annotated[
        str | None, typer.Option("--from", metavar="SEQ|TIME", help="It comes into force there. Default: with the first record.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="SEQ|TIME", help="Figures end there. Default: with the log.")] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML page with plots, too.")] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """What would have differed under another policy: waits, evictions, work lost, by project and class, and for which jobs.

    The log is read whole. Its arrivals, failures, requests by hand and run times are simulated twice: under the policies that
    were in force, which shows how far the simulation is from what happened, and under the other one. Nothing is sent to anybody.
    TIME is as in 2026-01-31T12:00:00Z, or -2h: before now, of a file before its end.
    """
    rules = read_policy(policy)
    async with source_of(session, file, archive) as source:
        source.from_its_beginning("what-if")
        read = [record async for record in records(Walk(source.domain), source.messages, "see: bailiff audit verify")]
    now = wall_clock() if source.path is None or not read else read[-1].time
    with Progress(console=session.err, transient=True, disable=not session.err.is_terminal) as bars:
        found = _compared(source.domain, read, rules, (_moment("--from", begin, read, now), _moment("--to", to, read, now)), bars)
    said: dict[str, Any] = {"pool": source.domain, "policy": str(policy), **simulator("what_if").compared(found)}
    session.show(said, lambda: what_if_table(said))
    if report is not None:
        write(report, simulator("what_if_report").page(found, said))
        session.say(f"{report}: the same with plots")


def _compared(
    domain: str, records: list[Record], rules: Policy, window: tuple[int | None, int | None], bars: Progress
) -> "WhatIf":
    since, until = window
    if since is not None and until is not None and until <= since:
        raise Problem(ExitCode.USAGE, f"--to ({time_text(until)}) is not after --from ({time_text(since)})")
    try:
        log = simulator("from_log").from_log(records, domain, until)
    except ValueError as error:
        raise Problem(ExitCode.NOT_FOUND, f"{domain}: {error}") from None
    if since is not None and since >= log.end:
        raise Problem(ExitCode.NOT_FOUND, f"--from ({time_text(since)}) is not before the end of it all, {time_text(log.end)}")
    found: WhatIf = simulator("what_if").what_if(log, rules, since, _told(bars))
    return found


def _moment(option: str, text: str | None, records: list[Record], now: int) -> int | None:
    """µs UTC of a point of the log; a time ago counts from `now`. Raises `Problem`."""
    if text is None:
        return None
    found = point(text, option).at(now)
    if found.seq is None:
        return found.time
    if found.seq >= len(records):
        raise Problem(ExitCode.NOT_FOUND, f"{option}: there is no record #{found.seq}: the log ends at #{len(records) - 1}")
    return records[found.seq].time


def _told(bars: Progress) -> Callable[[str, int, int], None]:
    tasks = {label: bars.add_task(text, total=None) for label, text in (("simulated", "as it was"), ("other", "another policy"))}
    return lambda label, done, of: bars.update(tasks[label], completed=done, total=of)
