"""`bailiff list`: jobs by state, user, project, class, node, label, time and name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .jobs import PANEL, moment_of, pairs_of, watch_or_show
from .session import Session, command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bailiff.render.serializers.jobs import JobRow

Several = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, "list", rich_help_panel=PANEL)(list_jobs)


async def list_jobs(
    session: Session,
    name: Annotated[Several, typer.Argument(metavar="[NAME...]", help="Only these; with * and ?.", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include jobs that have ended, with start and end.")] = False,
    state: Annotated[
        Several, typer.Option("--state", "-s", metavar="STATE,...", help="Only jobs in these states, as in pending,running.")
    ] = None,
    user: Annotated[Several, typer.Option("--user", "-u", metavar="USER,...", help="Only jobs of these users.")] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only this project and its subprojects. Also: BAILIFF_PROJECT.")
    ] = None,
    all_projects: Annotated[
        bool, typer.Option("--all-projects", "-A", help="All projects, even if BAILIFF_PROJECT is set.")
    ] = False,
    class_: Annotated[Several, typer.Option("--class", "-c", metavar="CLASS,...", help="Only these priority classes.")] = None,
    node: Annotated[
        Several, typer.Option("--node", metavar="NODE,...", help="Only jobs that run on, or have reservations on, these nodes.")
    ] = None,
    label: Annotated[Several, typer.Option(metavar="NAME=VALUE", help="Only jobs with this label; repeatable.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Submitted since then, as in 2d (ago) or 2026-01-31T12:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Submitted before then.")] = None,
    sort: Annotated[
        Several, typer.Option(metavar="FIELD,...", help="Sort by fields, as in user,-submitted. Default: the queue order.")
    ] = None,
    columns: Annotated[Several, typer.Option(metavar="COLUMN,...", help="Only these columns, in this order.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh whenever it changes.")] = False,
) -> None:
    """List jobs: active jobs first, then pending jobs in queue order. # is the number of pending jobs ahead.

    TRY is the attempt, EVICTED the number of evictions. GPUS is the total of the gang. With -o wide also the project, the
    placed and total tasks (and the minimum), and the nodes on which resources are reserved.

    In a pipe the columns are separated by one tab and not padded: bailiff list | cut -f 2
    """
    from bailiff.client.job_filter import JobFilter, selected
    from bailiff.render.tables.job_columns import chosen, jobs_table, jobs_text

    wanted = JobFilter(
        states=[each.lower() for each in each_of(state)], users=each_of(user), classes=each_of(class_), nodes=each_of(node),
        project=None if all_projects else project or session.settings.project,
        labels=pairs_of("label", label or []), names=name or [], ended=all_,
        since=moment_of("--since", since), until=moment_of("--until", until),
    )  # fmt: skip
    named, order, wide = each_of(columns), each_of(sort), session.output.value == "wide"
    chosen([], named)  # refuses unknown columns before anything is read

    def shown(rows: list[JobRow]) -> RenderableType:
        made = jobs_table if session.out.is_terminal else jobs_text
        return made(rows, named, wide=wide, times=wanted.with_ended)

    async with session.client() as client:

        async def look() -> list[JobRow]:
            return selected((await client.projection(session.pool)).state, client.now(), wanted, order)

        await watch_or_show(session, look, shown, watch=watch)


def each_of(texts: Several) -> list[str]:
    """The values of an option that is repeatable and takes several, separated by commas."""
    return [part.strip() for text in texts or [] for part in text.split(",") if part.strip()]
