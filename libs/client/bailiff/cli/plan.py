"""`bailiff plan`: the engine on a snapshot, without the services."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bailiff import friendly, planlive
from bailiff.planfile import contradictions, read_source, snapshot_from
from bailiff.problem import ExitCode, Problem
from bailiff.tables.plan import plan_table
from bailiff_core.plan import ALL_VERBS, Contradiction, PlanVerb, run

from .session import Session, command

PANEL = "Machines and pools"


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, "plan", rich_help_panel=PANEL)(plan)


async def plan(
    session: Session,
    snapshot: Annotated[str | None, typer.Argument(metavar="SNAPSHOT", help="YAML or JSON; - reads standard input.")] = None,
    verbs: Annotated[
        str | None, typer.Option(metavar="VERB,...", help=f"Only these of {', '.join(ALL_VERBS)}.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="How many passes.")] = 1,
    step: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How far time moves between two passes.")] = 0,
    live: Annotated[
        Path | None, typer.Option(metavar="JOB", help="Instead: would this job (YAML, as for submit) run now in the pool?")
    ] = None,
) -> None:
    """What would the engine decide about this pool? Needs no Kafka: a file in, decisions out.

    The snapshot says which nodes, projects and jobs there are and what runs where. docs/plan.md has all of its fields.

    With --live it reads the pool as it is now and tells what would become of one more job: would it run, where, whom
    would it displace, what would that cost. Nothing is submitted.
    """
    if live is not None:
        if snapshot is not None:
            raise Problem(ExitCode.USAGE, f"--live asks the running pool and takes no snapshot, found {snapshot!r}")
        await _ask_live(session, live)
        return
    if snapshot is None:
        raise Problem(ExitCode.USAGE, "expected a snapshot, found nothing", "bailiff plan snapshot.yaml")
    source = read_source(snapshot)
    found = snapshot_from(source)
    try:
        report = run(found, verbs_from(verbs), rounds, round(step * 1_000_000))
    except Contradiction as error:
        raise contradictions(source, error) from None
    session.show(report.model_dump(mode="json"), lambda: plan_table(report))


async def _ask_live(session: Session, file: Path) -> None:
    document, source = friendly.read_job_file(file)
    document.setdefault("name", file.stem)
    document.setdefault("command", ["true"])
    job = friendly.job_from(document, source)
    async with session.client() as client:
        view = await client.view(session.domain)
        data, sentences = planlive.ask(view.pool, job.demand, time.time_ns() // 1000)
        session.show(data, lambda: "\n".join(sentences))


def verbs_from(text: str | None) -> tuple[PlanVerb, ...]:
    """The verbs that the option names, in the order in which they run. Raises `Problem`."""
    if text is None:
        return ALL_VERBS
    named = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in named if each not in ALL_VERBS]
    if unknown or not named:
        found = f"found {unknown[0]!r}" if unknown else "found none"
        raise Problem(ExitCode.USAGE, f"--verbs: expected some of {', '.join(ALL_VERBS)}, {found}")
    return tuple(verb for verb in ALL_VERBS if verb in named)
