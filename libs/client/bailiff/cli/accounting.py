"""`bailiff accounting`: GPU-hours used, borrowed, lost and waited for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from bailiff.client.errors import UsageError

from .jobs import moment_of
from .parameters import OfClasses, OfUsers, Several, each_of
from .session import Output, Session, command


class Format(StrEnum):
    """How the figures are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


@command("accounting", leave_out=("output", "kafka", "actor", "key"))
async def accounting(
    session: Session,
    by: Annotated[
        Several,
        typer.Option(
            "--by",
            "-b",
            metavar="KEY,...",
            help="A row for each user, project, class, job, model, preemptor, preemptor-project, and minute, hour, day or month.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then, as in 30d (ago) or 2026-01-01. Default: seven days ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then. Default: now.")] = None,
    user: OfUsers = None,
    project: Annotated[
        Several, typer.Option("--project", "-p", metavar="PROJECT,...", help="Only jobs of these projects.")
    ] = None,
    class_: OfClasses = None,
    job: Annotated[Several, typer.Option("--job", "-j", metavar="JOB,...", help="Only these jobs.")] = None,
    month: Annotated[
        str | None,
        typer.Option(metavar="MONTH", help="Instead, the report of this month (UTC), as in 2026-12: budgets, use, lost to whom."),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
) -> None:
    """Show GPU-hours used, borrowed, lost to preemption, and waited for. They are read from the archive (BAILIFF_API).

    BORROWED is the part of USED above the project's quota. LOST is work lost to preemption, LOST OTHER to drains, failures and
    other ends of attempts that were started again. WAITING is what pending jobs requested. All in GPU-hours.

    With PREEMPTOR, each row is what was lost to that job; what no preemption took is one row without a name.

    bailiff accounting --by project,day --since 30d -o csv

    bailiff accounting --project vision --by preemptor-project --since 30d

    bailiff accounting --month 2026-12 -o json
    """
    from bailiff.client.accounting import Wanted, as_csv
    from bailiff.client.accounting import accounting as ask
    from bailiff.tables.accounting import accounting_table

    if month is not None:
        await _report(session, month, output, others=(by, since, until, user, project, class_, job))
        return
    keys = list(dict.fromkeys(each_of(by)))
    wanted = Wanted(
        keys,
        moment_of("--since", since),
        moment_of("--until", until),
        each_of(user),
        each_of(project),
        each_of(class_),
        each_of(job),
    )
    found = await ask(session.settings, session.pool, wanted)
    if output is Format.CSV:
        session.write(as_csv(found, keys))
        return
    session.output = Output(output.value)
    session.show(found, lambda: accounting_table(found, keys))


async def _report(session: Session, month: str, output: Format, others: Sequence[object]) -> None:
    from bailiff.client.accounting import month_report
    from bailiff.tables.accounting import month_tables

    if any(others) or output is Format.CSV:
        raise UsageError("--month takes no other option than --pool and --output table, json or yaml")
    found = await month_report(session.settings, session.pool, month)
    session.output = Output(output.value)
    session.show(found, lambda: month_tables(found))
