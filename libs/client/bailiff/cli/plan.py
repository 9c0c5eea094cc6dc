"""`bailiff plan`: runs the scheduling engine on a snapshot or, with --live, on the current state, without the services."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff.client.errors import UsageError

from .session import Session, command

if TYPE_CHECKING:
    from bailiff_core.plan import PlanAction


PLANS = "of a snapshot: bailiff plan snapshot.yaml; of one more job in the live pool: bailiff plan --live job.yaml"


@command("plan")
async def plan(
    session: Session,
    snapshot: Annotated[str | None, typer.Argument(metavar="SNAPSHOT", help="YAML or JSON; - reads standard input.")] = None,
    actions: Annotated[
        str | None,
        typer.Option(metavar="ACTION,...", help="Only these of allocate, consolidate, reclaim, preempt.", show_default=False),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Number of scheduling cycles.")] = 1,
    step: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Time between two cycles.")] = 0,
    live: Annotated[
        Path | None,
        typer.Option(metavar="JOB", help="Instead of a snapshot: a job file (as for submit) to try in the live pool."),
    ] = None,
) -> None:
    """Show what the scheduler would decide for a snapshot of a pool. Needs no Kafka.

    The snapshot lists nodes, projects and jobs, and what runs where. docs/how-to/plan.md documents its fields.

    With --live it reads the current state of the pool and shows the outcome for one more job: whether it would run, where,
    which jobs it would preempt, and at which cost. Nothing is submitted.
    """
    from bailiff.client.plan_files import contradictions, read_source, snapshot_from
    from bailiff.tables.plan import plan_table
    from bailiff_core.plan import InvalidSnapshot, run

    if live is not None:
        if snapshot is not None:
            raise UsageError(f"--live uses the live pool and takes no snapshot, found {snapshot!r}")
        await _ask_live(session, live)
        return
    if snapshot is None:
        raise UsageError("expected a snapshot, found nothing", PLANS)
    source = read_source(snapshot)
    found = snapshot_from(source)
    try:
        report = run(found, actions_from(actions), rounds, round(step * 1_000_000))
    except InvalidSnapshot as error:
        raise contradictions(source, error) from None
    session.show(report.model_dump(mode="json"), lambda: plan_table(report))


async def _ask_live(session: Session, file: Path) -> None:
    from bailiff.client import job_parser, live_plan
    from bailiff.client.requester import requester_of

    document, source = job_parser.read_job_file(file)
    document.setdefault("name", file.stem)
    document.setdefault("command", ["true"])
    job = job_parser.job_from(document, source)
    async with session.client() as client:
        projection = await client.projection(session.pool)
        state = projection.state
        data, sentences = live_plan.predict(state, job.demand, time.time_ns() // 1000, requester_of(client, state))
        session.show(data, lambda: "\n".join(sentences))


def actions_from(text: str | None) -> tuple[PlanAction, ...]:
    """The actions named by the option, in execution order. Raises `ClientError`."""
    from bailiff_core.plan import ALL_ACTIONS

    if text is None:
        return ALL_ACTIONS
    named = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in named if each not in ALL_ACTIONS]
    if unknown or not named:
        found = f"found {unknown[0]!r}" if unknown else "found none"
        raise UsageError(f"--actions: expected some of {', '.join(ALL_ACTIONS)}, {found}")
    return tuple(action for action in ALL_ACTIONS if action in named)
