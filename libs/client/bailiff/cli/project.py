"""Commands about projects: list, describe, create, update, delete. A change applies the policy with one project changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import ANSWER_WITHIN, require_accepted
from bailiff.client.errors import ClientError, ExitCode

from .jobs import watch_or_show
from .policy_confirmation import Yes, confirm_effects
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client import projects
    from bailiff.client.client import Client, Outcome
    from bailiff_core.model.policy import Policy
    from bailiff_core.model.state import PoolState

PANEL = "Machines and pools"
TRIES = 5
NONE = ("none", "unlimited", "-1")

Name = Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")]
Gpus = Annotated[str | None, typer.Option(help="GPU quota, as in 4; none: unlimited.")]
Cpu = Annotated[str | None, typer.Option(help="CPU quota in cores, as in 32. Default: unlimited.")]
Memory = Annotated[str | None, typer.Option(help="Memory quota, as in 256GiB. Default: unlimited.")]
LimitGpus = Annotated[str | None, typer.Option(help="GPU limit, including borrowed ones; none: unlimited.")]
LimitCpu = Annotated[str | None, typer.Option(help="CPU limit in cores.")]
LimitMemory = Annotated[str | None, typer.Option(help="Memory limit.")]
Weight = Annotated[int | None, typer.Option(min=0, help="Over-quota weight relative to other projects; 0: no borrowing.")]
Priority = Annotated[int | None, typer.Option(help="Priority for over-quota resources; higher first.")]
Parent = Annotated[str | None, typer.Option(help="Parent project; none: top level.")]
Description = Annotated[str | None, typer.Option(help="Short description.")]
SafeFromPreempt = Annotated[str | None, typer.Option(metavar="TIME", help="Minimum run time before its jobs can be preempted.")]
SafeFromReclaim = Annotated[str | None, typer.Option(metavar="TIME", help="Minimum run time before its jobs can be reclaimed.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    project = typer.Typer(help="Projects: quota, usage and fair share.", no_args_is_help=True)
    command(project, "list")(list_projects)
    command(project)(describe)
    command(project)(create)
    command(project)(update)
    command(project)(delete)
    app.add_typer(project, name="project", rich_help_panel=PANEL)


async def list_projects(
    session: Session, watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh whenever it changes.")] = False
) -> None:
    """List projects as a tree: usage, quota, borrowed, fair share, limit, jobs. With -o wide also CPU and memory."""
    from bailiff.client import projects
    from bailiff.render.tables.projects import projects_table

    async with session.client() as client:

        async def look() -> list[projects.ProjectRow]:
            return projects.rows((await client.projection(session.pool)).state)

        wide = session.output.value == "wide"
        await watch_or_show(session, look, lambda rows: projects_table(rows, wide=wide), watch=watch)


async def describe(session: Session, project: Name) -> None:
    """Show one project: usage, quota, subprojects, jobs."""
    from bailiff.client import projects
    from bailiff.render.serializers.jobs import job_rows
    from bailiff.render.serializers.times import moment
    from bailiff.render.tables.projects import project_block

    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        projects.find(state.rules, project)
        rows = projects.rows(state)
        found = {
            "summary": next(row for row in rows if row["project"] == project),
            "below": [row for row in rows if row["parent"] == project],
            "job_list": job_rows(state, client.now(), project=project),
            "reclaimed_at": moment(state.reclaimed_at.get(project)),
        }
        session.show(found, lambda: project_block(found))


async def create(
    session: Session,
    project: Name,
    gpus: Gpus = None,
    cpu: Cpu = None,
    memory: Memory = None,
    limit_gpus: LimitGpus = None,
    limit_cpu: LimitCpu = None,
    limit_memory: LimitMemory = None,
    weight: Weight = None,
    priority: Priority = None,
    parent: Parent = None,
    description: Description = None,
    safe_from_preempt: SafeFromPreempt = None,
    safe_from_reclaim: SafeFromReclaim = None,
    yes: Yes = False,
) -> None:
    """Add a project: bailiff project create vision --gpus 8 --parent research

    Jobs that would become evictable, or would be evicted now, are shown first, and confirmed.
    The policy in force is read, changed and applied. If another policy was applied meanwhile, this is retried on that
    one, so that no change is overwritten.
    """
    from bailiff.client import projects

    fields = fields_of(locals())
    await _change(session, project, lambda policy, _: projects.with_new(policy, project, fields), "created", yes)


async def update(
    session: Session,
    project: Name,
    gpus: Gpus = None,
    cpu: Cpu = None,
    memory: Memory = None,
    limit_gpus: LimitGpus = None,
    limit_cpu: LimitCpu = None,
    limit_memory: LimitMemory = None,
    weight: Weight = None,
    priority: Priority = None,
    parent: Parent = None,
    description: Description = None,
    safe_from_preempt: SafeFromPreempt = None,
    safe_from_reclaim: SafeFromReclaim = None,
    yes: Yes = False,
) -> None:
    """Update a project; options that are not given are unchanged. Running jobs are not evicted."""
    from bailiff.client import projects

    fields = fields_of(locals())
    if not fields:
        raise ClientError(ExitCode.USAGE, "project update: nothing to change", "bailiff project update PROJECT --gpus 8")
    await _change(session, project, lambda policy, _: projects.with_changed(policy, project, fields), "changed", yes)


async def delete(session: Session, project: Name, yes: Yes = False) -> None:
    """Delete a project without jobs and without subprojects."""
    from bailiff.client import projects

    def without(policy: Policy, state: PoolState) -> Policy:
        after = projects.without(policy, project)
        users = projects.users_of(state, project)
        if users:
            some = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
            advice = f"wait for their end, or cancel them: bailiff cancel {users[0]}"
            raise ClientError(ExitCode.REJECTED, f"project {project} is in use: {some}", advice)
        return after

    await _change(session, project, without, "deleted", yes)


async def _change(session: Session, project: str, change: Callable[[Policy, PoolState], Policy], done: str, yes: bool) -> None:
    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        confirm_effects(session, state, change(state.rules, state), f"project {project}", yes=yes, now=client.now())
        outcome, before, after = await apply_changed(client, session.pool, change)
        pool = (await client.pool(session.pool)).name
        text_lines = [f"project {project} {done}  ({pool}#{outcome.seq})"]
        if before.scope != after.scope:
            scope_text = "jobs of their own project only" if after.scope == "project" else "jobs of the whole pool"
            text_lines.append(
                f"jobs can now preempt {scope_text}: preemption.scope is unset, so it depends on whether there are projects"
            )
        if after.projects and not before.projects:
            text_lines.append("jobs must now name a project, unless there is a project `default`")
        session.show({"project": project, "pool": pool, "seq": outcome.seq}, lambda: "\n".join(text_lines))


async def apply_changed(
    client: Client, pool: str | None, change: Callable[[Policy, PoolState], Policy]
) -> tuple[Outcome, Policy, Policy]:
    """Applies the policy in force with a change; retries on the newest policy if another one was applied meanwhile."""
    from bailiff_bus.messages import ApplyPolicy

    for left in reversed(range(TRIES)):
        projection = await client.projection(pool)
        before = projection.state.rules
        after = change(before, projection.state)
        body = ApplyPolicy(policy=after, expected_revision=projection.state.policy_revision)
        sent = await client.request(projection.pool, body)
        outcome = await client.outcome_of(sent, ANSWER_WITHIN)
        if outcome is None or outcome.code != "policy-changed" or not left:
            break
    return await require_accepted(client, sent), before, after


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a project set by these options. Raises `ClientError`."""
    from bailiff.client import job_parser

    readers = {"gpu_milli": ("gpus", _gpus), "cpu_milli": ("cpu", job_parser.cpu), "memory_bytes": ("memory", job_parser.memory)}
    fields: dict[str, Any] = {}
    for field, before in (("quota", ""), ("limit", "limit_")):
        named = {name: (f"{before}{option}", read) for name, (option, read) in readers.items()}
        found = {name: _bound(option, given[option], read) for name, (option, read) in named.items() if given[option] is not None}
        if found:
            fields[field] = found
    if given["weight"] is not None:
        fields["over_quota_weight"] = dict.fromkeys(("gpu", "cpu", "memory"), given["weight"])
    if given["parent"] is not None:
        fields["parent"] = None if given["parent"] in ("none", "") else given["parent"]
    fields |= {name: given[name] for name in ("priority", "description") if given[name] is not None}
    safe = {action: given[f"safe_from_{action}"] for action in ("preempt", "reclaim") if given[f"safe_from_{action}"] is not None}
    if safe:
        fields["min_runtime"] = safe
    return fields


def _bound(option: str, text: str, read: Callable[[object], int]) -> int:
    from bailiff.client import job_parser
    from bailiff_core.model.resource_vector import UNLIMITED

    if text in NONE:
        return UNLIMITED
    try:
        return read(text)
    except job_parser.InvalidValue as error:
        raise ClientError(ExitCode.USAGE, f"--{option.replace('_', '-')}: {error}, or none for unlimited") from None


def _gpus(value: object) -> int:
    from bailiff.client import job_parser

    return job_parser.thousandths(value, "a number of GPUs, as in 4 or 0.5")
