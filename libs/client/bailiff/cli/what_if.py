"""`bailiff what-if`: the pool's own past under another policy."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from bailiff.moments import wall_clock
from bailiff.policyfile import read_policy
from bailiff.simulating import simulator
from bailiff.tables.whatif import what_if_table
from bailiff.whatif import Tell, other_past, whole_log
from bailiff.written import check, write

from .audit import PANEL, FromArchive, FromFile, source_of
from .session import Session, command


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
    check(report)
    rules = read_policy(policy)
    async with source_of(session, file, archive) as source:
        log = await whole_log(source)
    now = wall_clock() if source.path is None else log[-1].time if log else 0
    with Progress(console=session.err, transient=True, disable=not session.err.is_terminal) as bars:
        found, comparison = other_past(source.domain, log, rules, begin, to, _told(bars), now)
    said: dict[str, Any] = {"pool": source.domain, "policy": str(policy), **comparison}
    session.show(said, lambda: what_if_table(said))
    if report is not None:
        write(report, simulator("what_if_report").page(found, said))
        session.say(f"{report}: the same with plots")


def _told(bars: Progress) -> Tell:
    tasks = {label: bars.add_task(text, total=None) for label, text in (("simulated", "as it was"), ("other", "another policy"))}
    return lambda label, done, of: bars.update(tasks[label], completed=done, total=of)
