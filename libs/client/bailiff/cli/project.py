"""Commands about projects: list, describe, create, update, delete. A change applies the policy with one project changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bailiff.client.answers import ANSWER_WITHIN, require_accepted
from bailiff.client.errors import ClientError, ExitCode, UsageError

from .job_list import LIMIT, say_more
from .jobs import watch_or_show
from .parameters import Reason, Several, Watch, each_of
from .policy_confirmation import Yes, confirm_effects
from .session import Session, command

if TYPE_CHECKING:
    from bailiff.client.client import Client, Outcome
    from bailiff_core.model.policy import Policy
    from bailiff_core.model.state import PoolState

TRIES = 5
NONE = ("none", "unlimited", "-1")

Name = Annotated[str, typer.Argument(metavar="PROJECT", help="The project's name.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOptions:
    """Fields of a project that options set."""

    gpus: Annotated[str | None, typer.Option(help="GPU quota, as in 4; none: unlimited.")] = None
    cpu: Annotated[str | None, typer.Option(help="CPU quota in cores, as in 32. Default: as of the GPUs.")] = None
    memory: Annotated[str | None, typer.Option(help="Memory quota, as in 256GiB. Default: as of the GPUs.")] = None
    model: Annotated[
        Several,
        typer.Option(metavar="MODEL=N,...", help="Quota of a GPU model, group or MIG profile, as in h100=8; none: states none."),
    ] = None
    limit_model: Annotated[Several, typer.Option(metavar="MODEL=N,...", help="Limit of one, likewise.")] = None
    limit_gpus: Annotated[str | None, typer.Option(help="GPU limit, including borrowed ones; none: unlimited.")] = None
    limit_cpu: Annotated[str | None, typer.Option(help="CPU limit in cores.")] = None
    limit_memory: Annotated[str | None, typer.Option(help="Memory limit.")] = None
    weight: Annotated[int | None, typer.Option(min=0, help="Over-quota weight relative to other projects; 0: no borrowing.")] = (
        None
    )
    priority: Annotated[int | None, typer.Option(help="Priority for over-quota resources; higher first.")] = None
    parent: Annotated[str | None, typer.Option(help="Parent project; none: top level.")] = None
    description: Annotated[str | None, typer.Option(help="Short description.")] = None
    safe_from_preempt: Annotated[
        str | None, typer.Option(metavar="TIME", help="Minimum run time before its jobs can be preempted.")
    ] = None
    safe_from_reclaim: Annotated[
        str | None, typer.Option(metavar="TIME", help="Minimum run time before its jobs can be reclaimed.")
    ] = None


@command("project list", names="project")
async def list_projects(session: Session, watch: Watch = False) -> None:
    """List projects as a tree: usage, quota, borrowed, fair share, limit, jobs. With -o wide also CPU and memory."""
    from bailiff.render.serializers.projects import ProjectRow, rows
    from bailiff.tables.projects import projects_table
    from bailiff_core.explain.budgets import budgets_near
    from bailiff_core.explain.open_job_limits import near_limits
    from bailiff_core.explain.share_turns import turns_to_come

    async with session.client() as client:
        below = list[str]()

        async def look() -> list[ProjectRow]:
            state = (await client.projection(session.pool)).state
            below[:] = [*turns_to_come(state), *near_limits(state), *budgets_near(state)]
            return rows(state)

        wide = session.output.value == "wide"
        await watch_or_show(session, look, lambda rows: projects_table(rows, wide=wide, below=below), watch=watch)


@command("project describe")
async def describe(session: Session, project: Name) -> None:
    """Show one project: usage, quota, subprojects, jobs."""
    from bailiff.client import projects
    from bailiff.client.job_filter import JobFilter, page
    from bailiff.render.serializers.projects import rows
    from bailiff.render.serializers.times import moment
    from bailiff.tables.projects import project_block
    from bailiff_core.explain.open_job_limits import project_limit_sentences
    from bailiff_core.views import budget_views

    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        projects.find(state.rules, project)
        all_rows = rows(state)
        listed = page(state, client.now(), JobFilter(project=project), limit=LIMIT)
        found = {
            "summary": next(row for row in all_rows if row["project"] == project),
            "below": [row for row in all_rows if row["parent"] == project],
            "job_list": listed.rows,
            "budgets": [each for each in budget_views(state) if each["project"] == project],
            "near_limits": [each.text for each in project_limit_sentences(state, project)],
            "reclaimed_at": moment(state.reclaimed_at.get(project)),
        }
        session.show(found, lambda: project_block(found))
        say_more(listed)


@command("project create")
async def create(session: Session, project: Name, options: ProjectOptions, reason: Reason = "", yes: Yes = False) -> None:
    """Add a project: bailiff project create vision --gpus 8 --parent research

    Jobs that would become evictable, or would be evicted now, are shown first, and confirmed.
    The policy in force is read, changed and applied. If another policy was applied meanwhile, this is retried on that
    one, so that no change is overwritten.
    """
    from bailiff.client import projects

    fields = fields_of(options)
    await _change(session, project, lambda policy, _: projects.with_new(policy, project, fields), "created", reason, yes)


@command("project update")
async def update(session: Session, project: Name, options: ProjectOptions, reason: Reason = "", yes: Yes = False) -> None:
    """Update a project; options that are not given are unchanged. Running jobs are not evicted."""
    from bailiff.client import projects

    fields = fields_of(options)
    if not fields:
        raise UsageError("project update: nothing to change", "bailiff project update PROJECT --gpus 8")
    await _change(session, project, lambda policy, _: projects.with_changed(policy, project, fields), "changed", reason, yes)


@command("project delete")
async def delete(session: Session, project: Name, reason: Reason = "", yes: Yes = False) -> None:
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

    await _change(session, project, without, "deleted", reason, yes)


async def _change(
    session: Session, project: str, change: Callable[[Policy, PoolState], Policy], done: str, reason: str, yes: bool
) -> None:
    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        confirm_effects(session, client, state, change(state.rules, state), f"project {project}", yes=yes)
        outcome, before, after = await apply_changed(client, session.pool, change, reason)
        pool = (await client.pool(session.pool)).name
        text_lines = [f"project {project} {'unchanged' if after == before else done}  ({pool}#{outcome.seq})"]
        if before.scope != after.scope:
            scope_text = "jobs of their own project only" if after.scope == "project" else "jobs of the whole pool"
            text_lines.append(
                f"jobs can now preempt {scope_text}: preemption.scope is unset, so it depends on whether there are projects"
            )
        if after.projects and not before.projects:
            text_lines.append("jobs must now name a project, unless there is a project `default`")
        session.show({"project": project, "pool": pool, "seq": outcome.seq}, lambda: "\n".join(text_lines))


async def apply_changed(
    client: Client, pool: str | None, change: Callable[[Policy, PoolState], Policy], reason: str = ""
) -> tuple[Outcome, Policy, Policy]:
    """Applies the policy in force with a change; retries on the newest policy if another one was applied meanwhile."""
    from bailiff.client.client import Outcome
    from bailiff.policy.apply import ALREADY
    from bailiff_core.admission.pool import in_force
    from bailiff_core.records.pool_requests import ApplyPolicy

    for left in reversed(range(TRIES)):
        projection = await client.projection(pool)
        before = projection.state.rules
        after = change(before, projection.state)
        body = ApplyPolicy(policy=after, expected_revision=projection.state.policy_revision, reason=reason)
        if in_force(projection.state, body) is not None:
            return Outcome(True, projection.state.policy_revision), before, after
        sent = await client.request(projection.pool, body)
        outcome = await client.outcome_of(sent, ANSWER_WITHIN)
        if outcome is None or outcome.code not in ("policy-changed", ALREADY) or not left:
            break
    return await require_accepted(client, sent), before, after


def fields_of(options: ProjectOptions) -> dict[str, Any]:
    """The fields of a project set by these options. Raises `ClientError`."""
    from bailiff.client.job_parser import memory
    from bailiff_core.model.amounts import cores

    given = asdict(options)
    readers = {"gpu_milli": ("gpus", _gpus), "cpu_milli": ("cpu", cores), "memory_bytes": ("memory", memory)}
    fields: dict[str, Any] = {}
    for field, before in (("quota", ""), ("limit", "limit_")):
        named = {name: (f"{before}{option}", read) for name, (option, read) in readers.items()}
        found: dict[str, Any] = {
            name: _bound(option, given[option], read) for name, (option, read) in named.items() if given[option] is not None
        }
        if given[f"{before}model"]:
            found["by_model"] = _by_model(f"--{before}model".replace("_", "-"), each_of(given[f"{before}model"]))
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


def _by_model(option: str, texts: Sequence[str]) -> dict[str, int | None]:
    """Thousandths by model; None: nothing is stated of it."""
    found: dict[str, int | None] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not name or not equals or name in found:
            raise UsageError(f"{option}: expected each model once, as in h100=8, found {text!r}")
        try:
            found[name] = None if number == "none" else _gpus(number)
        except ValueError as error:
            raise UsageError(f"{option}: {name}: {error}, or none") from None
    return found


def _bound(option: str, text: str, read: Callable[[object], int]) -> int:
    from bailiff_core.model.resource_vector import UNLIMITED

    if text in NONE:
        return UNLIMITED
    try:
        return read(text)
    except ValueError as error:
        raise UsageError(f"--{option.replace('_', '-')}: {error}, or none for unlimited") from None


def _gpus(value: object) -> int:
    from bailiff_core.model.amounts import thousandths

    return thousandths(value, "a number of GPUs, as in 4 or 0.5")
