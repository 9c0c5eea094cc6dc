"""`bailiff what-if`: compares a pool's recorded past with a simulation under another policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.errors import UsageError
from bailiff.simulation.options import progress_bar

from .log_source import FromArchive, FromFile, source_of
from .session import Session, command


@command("what-if")
async def what_if(
    session: Session,
    policy: Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The other policy (YAML).")],
    begin: Annotated[
        str | None, typer.Option("--from", metavar="SEQ|TIME", help="Start of the other policy. Default: the first record.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="SEQ|TIME", help="End of the comparison. Default: the end of the log.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Also write an HTML report with plots.")] = None,
    file: FromFile = None,
    archive: FromArchive = None,
) -> None:
    """Compare the recorded past with another policy: waiting times, evictions and work lost by project, class and job.

    The whole log is read. Its arrivals, failures, user requests and run times are simulated twice: under the recorded policies,
    which shows the error of the simulation, and under the other policy. Nothing is sent.
    --file also takes a folder of `bailiff import`.
    TIME is as in 2026-01-31T12:00:00Z, or -2h: before now, of a file before its end.
    """
    from bailiff.audit.log_positions import wall_clock
    from bailiff.client.safe_write import check
    from bailiff.policy.policy_files import read_policy
    from bailiff.simulation.what_if import is_history, other_past, whole_log

    check(report)
    if file is not None and is_history(file):
        _of_history(session, file, policy, begin, to, report)
        return
    rules = read_policy(policy)
    async with source_of(session, file, archive) as source:
        log = await whole_log(source)
    now = wall_clock() if source.path is None else log[-1].time if log else 0
    with progress_bar(session.err) as progress:
        found, comparison = other_past(source.pool, log, rules, begin, to, progress, now)
    _show(session, found, {"pool": source.pool, "policy": str(policy), **comparison}, report)


def _of_history(session: Session, folder: Path, policy: Path, begin: str | None, to: str | None, report: Path | None) -> None:
    """The same for a folder of `bailiff import`."""
    from bailiff.simulation.history import history_what_if

    if begin is not None or to is not None:
        text = "--from and --to are for a log, and this is an imported history"
        raise UsageError(text, f"a part of it: bailiff simulate history:{folder} --skip 7d --length 7d")
    with progress_bar(session.err) as progress:
        found, comparison = history_what_if(folder, policy, progress)
    _show(session, found, {"pool": str(folder), "policy": str(policy), **comparison}, report)


def _show(session: Session, found: Any, result: dict[str, Any], report: Path | None) -> None:
    from bailiff.client.safe_write import write
    from bailiff.simulation.options import simulator
    from bailiff.tables.whatif import what_if_table

    session.show(result, lambda: what_if_table(result))
    if report is not None:
        write(report, simulator("what_if_report").page(found, result))
        session.say(f"{report}: report with plots")
