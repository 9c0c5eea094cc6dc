"""Commands about projects: list, describe, create, update, delete. A change is the policy in force with one project changed."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from bailiff import friendly, projects
from bailiff.client import Client, Outcome
from bailiff.present.jobs import job_rows
from bailiff.present.times import moment
from bailiff.problem import ExitCode, Problem
from bailiff.tables.projects import project_block, projects_table
from bailiff_bus.messages import ApplyPolicy
from bailiff_core.model.amounts import UNLIMITED
from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import Pool

from .jobs import ANSWER_WITHIN, answered, shown
from .session import Session, command

PANEL = "Machines and pools"
TRIES = 5
NONE = ("none", "unlimited", "-1")

Name = Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")]
Gpus = Annotated[str | None, typer.Option(help="Quota: GPUs that it deserves, as in 4; none: no bound.")]
Cpu = Annotated[str | None, typer.Option(help="Quota: cores, as in 32. Default: no bound.")]
Memory = Annotated[str | None, typer.Option(help="Quota: memory, as in 256GiB. Default: no bound.")]
LimitGpus = Annotated[str | None, typer.Option(help="Never more GPUs than this, whoever is idle; none: no limit.")]
LimitCpu = Annotated[str | None, typer.Option(help="Never more cores than this.")]
LimitMemory = Annotated[str | None, typer.Option(help="Never more memory than this.")]
Weight = Annotated[int | None, typer.Option(min=0, help="Its part of what is left over, beside the others'; 0: nothing of it.")]
Priority = Annotated[int | None, typer.Option(help="Higher is served first from what is left over.")]
Parent = Annotated[str | None, typer.Option(help="The project above it; none: the top.")]
Description = Annotated[str | None, typer.Option(help="In a few words.")]
SafeFromPreempt = Annotated[str | None, typer.Option(metavar="TIME", help="Its jobs are not preempted for so long.")]
SafeFromReclaim = Annotated[str | None, typer.Option(metavar="TIME", help="Its jobs are not reclaimed for so long.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    project = typer.Typer(help="Projects: whose quota, who borrows, who is due what.", no_args_is_help=True)
    command(project, "list")(list_projects)
    command(project)(describe)
    command(project)(create)
    command(project)(update)
    command(project)(delete)
    app.add_typer(project, name="project", rich_help_panel=PANEL)


async def list_projects(
    session: Session, watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again whenever it changes.")] = False
) -> None:
    """Projects as a tree: used and quota, what they borrow, fair share, limit, jobs. With -o wide CPU and memory, too."""
    async with session.client() as client:

        async def look() -> list[projects.ProjectRow]:
            return projects.rows((await client.view(session.domain)).pool)

        wide = session.output.value == "wide"
        await shown(session, look, lambda rows: projects_table(rows, wide=wide), watch=watch)


async def describe(session: Session, project: Name) -> None:
    """One project: what it uses and may use, who lies below it, its jobs."""
    async with session.client() as client:
        pool = (await client.view(session.domain)).pool
        projects.find(pool.rules, project)
        rows = projects.rows(pool)
        found = {
            "summary": next(row for row in rows if row["project"] == project),
            "below": [row for row in rows if row["parent"] == project],
            "job_list": job_rows(pool, client.now(), project=project),
            "reclaimed_at": moment(pool.reclaimed_at.get(project)),
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
) -> None:
    """Add a project: bailiff project create vision --gpus 8 --parent research

    The policy in force is read, changed and applied; where somebody else has applied another one meanwhile, that one is
    read, so that nobody's change is lost.
    """
    fields = fields_of(locals())
    await _change(session, project, lambda policy, _: projects.with_new(policy, project, fields), "created")


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
) -> None:
    """Change what is said of a project; what is not named stays. By itself this evicts nobody."""
    fields = fields_of(locals())
    if not fields:
        raise Problem(ExitCode.USAGE, "project update: say what to change", "bailiff project update PROJECT --gpus 8")
    await _change(session, project, lambda policy, _: projects.with_changed(policy, project, fields), "changed")


async def delete(session: Session, project: Name) -> None:
    """Remove a project that nobody uses and that has none below it."""

    def without(policy: Policy, pool: Pool) -> Policy:
        after = projects.without(policy, project)
        users = projects.users_of(pool, project)
        if users:
            some = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
            advice = f"let them end, or end them: bailiff cancel {users[0]}"
            raise Problem(ExitCode.REJECTED, f"project {project} is in use: {some}", advice)
        return after

    await _change(session, project, without, "deleted")


async def _change(session: Session, project: str, change: Callable[[Policy, Pool], Policy], done: str) -> None:
    async with session.client() as client:
        outcome, before, after = await apply_changed(client, session.domain, change)
        domain = (await client.domain(session.domain)).name
        said = [f"project {project} {done}  ({domain}#{outcome.seq})"]
        if before.scope != after.scope:
            whose = "jobs of its own project only" if after.scope == "project" else "jobs of the whole pool"
            said.append(f"from now on a job preempts {whose}: the policy leaves preemption.scope to whether there are projects")
        if after.projects and not before.projects:
            said.append("from now on each job has to name its project, but where there is a project `default`")
        session.show({"project": project, "pool": domain, "seq": outcome.seq}, lambda: "\n".join(said))


async def apply_changed(
    client: Client, domain: str | None, change: Callable[[Policy, Pool], Policy]
) -> tuple[Outcome, Policy, Policy]:
    """Apply the policy in force with a change, made anew on the newest one as often as somebody else was faster."""
    for left in reversed(range(TRIES)):
        view = await client.view(domain)
        before = view.pool.rules
        after = change(before, view.pool)
        body = ApplyPolicy(policy=after, expected_revision=view.pool.policy_revision)
        asked = await client.request(view.domain, body)
        outcome = await client.outcome_of(asked, ANSWER_WITHIN)
        if outcome is None or outcome.code != "policy-changed" or not left:
            break
    return await answered(client, asked), before, after


def fields_of(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a project that these options name. Raises `Problem`."""
    readers = {"gpu_milli": ("gpus", _gpus), "cpu_milli": ("cpu", friendly.cpu), "memory_bytes": ("memory", friendly.memory)}
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
    safe = {verb: given[f"safe_from_{verb}"] for verb in ("preempt", "reclaim") if given[f"safe_from_{verb}"] is not None}
    if safe:
        fields["min_runtime"] = safe
    return fields


def _bound(option: str, text: str, read: Callable[[object], int]) -> int:
    if text in NONE:
        return UNLIMITED
    try:
        return read(text)
    except friendly.Unfriendly as error:
        raise Problem(ExitCode.USAGE, f"--{option.replace('_', '-')}: {error}, or none for no bound") from None


def _gpus(value: object) -> int:
    return friendly.thousandths(value, "a number of GPUs, as in 4 or 0.5")
