"""`bailiff list`: jobs by state, user, project, class, node, label, time and name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .jobs import moment_of, pairs_of
from .parameters import OfClasses, OfUsers, Several, Watch, each_of
from .session import Session, command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bailiff.client.job_filter import JobPage
    from bailiff.render.serializers.jobs import JobRow

LIMIT = 200  # rows of a list of jobs, where no other number is asked for


@command("list", names="job")
async def list_jobs(
    session: Session,
    name: Annotated[Several, typer.Argument(metavar="[NAME...]", help="Only these; with * and ?.", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include jobs that have ended, with start and end.")] = False,
    state: Annotated[
        Several, typer.Option("--state", "-s", metavar="STATE,...", help="Only jobs in these states, as in pending,running.")
    ] = None,
    user: OfUsers = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Only this project and its subprojects. Also: BAILIFF_PROJECT.")
    ] = None,
    all_projects: Annotated[
        bool, typer.Option("--all-projects", "-A", help="All projects, even if BAILIFF_PROJECT is set.")
    ] = False,
    class_: OfClasses = None,
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
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=0, help="Rows at most; 0: all.")] = LIMIT,
    after: Annotated[str | None, typer.Option(metavar="TOKEN", help="The next page, as the page before names it.")] = None,
    columns: Annotated[Several, typer.Option(metavar="COLUMN,...", help="Only these columns, in this order.")] = None,
    watch: Watch = False,
) -> None:
    """List jobs: active jobs first, then pending jobs in queue order. # is the number of pending jobs ahead.

    TRY is the attempt. EVICTED is how often others evicted it: evictions by its owner, or for a job of the same owner, do not
    count. TIME is how long its present or last attempt runs, or it is pending. GPUS is the total of the gang. BELIEVED is
    shown where some job is believed less than others about its checkpoints, NOTE where there is something to say. With -o wide
    also the project, the placed and total tasks (and the minimum), and the nodes on which resources are reserved.

    With more jobs than --limit, yours are first, and standard error says how many more there are and how to see them.
    The newest first: --sort -submitted

    In a pipe the columns are separated by one tab and not padded: bailiff list | cut -f 2
    """
    from bailiff.client.job_filter import JobFilter, page
    from bailiff.client.requester import requester_of
    from bailiff.tables.job_columns import chosen, jobs_table, jobs_text

    wanted = JobFilter(
        states=[each.lower() for each in each_of(state)],
        users=each_of(user),
        classes=each_of(class_),
        nodes=each_of(node),
        project=None if all_projects else project or session.settings.project,
        labels=pairs_of("label", label or []),
        names=name or [],
        ended=all_,
        since=moment_of("--since", since),
        until=moment_of("--until", until),
    )
    named, order, wide = each_of(columns), each_of(sort), session.output.value == "wide"
    chosen([], named)  # refuses unknown columns before anything is read

    def shown(rows: list[JobRow]) -> RenderableType:
        made = jobs_table if session.on_terminal else jobs_text
        return made(rows, named, wide=wide, times=wanted.with_ended)

    async with session.client() as client:

        async def look() -> JobPage:
            state = (await client.projection(session.pool)).state
            own = requester_of(client, state).actor
            return page(state, client.now(), wanted, order, limit=limit or None, after=after, own=own)

        async def rows() -> list[JobRow]:
            return (await look()).rows

        if watch:
            await session.watch(rows, shown)
        else:
            found = await look()
            session.show(found.rows, lambda: shown(found.rows))
            say_more(found)


def say_more(found: JobPage) -> None:
    """Says on standard error how many more jobs there are."""
    if found.next is not None:
        more = found.total - int(found.next.partition(".")[0])
        print(f"{more} more of {found.total} jobs; the next page: --after {found.next}", file=sys.stderr)
