"""Projects: usage, quota and fair share as data; policies with one project added, changed or removed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from bailiff_core.humanize import gpus_text, memory_text, thousandths_text
from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.project_tree import DIRECT
from bailiff_core.model.resource_vector import UNLIMITED, Bounds, ResourceVector
from bailiff_core.model.state import ENDED, PoolState

from .errors import ClientError, ExitCode


class AmountsRow(TypedDict):
    """Amounts of the three resources; null: unlimited. Rounded down."""

    gpu_milli: int | None
    cpu_milli: int | None
    memory_bytes: int | None


class ProjectRow(TypedDict):
    """One project in `bailiff project list`. All amounts include its subprojects.

    project: empty for jobs without a project. borrowed: usage above the quota. usage_text: the GPUs as text,
    as in `8/4 over quota`. depth: 0 at the top.
    """

    project: str
    parent: str | None
    depth: int
    description: str
    priority: int
    weight: dict[str, int]
    used: AmountsRow
    non_preemptible: AmountsRow
    quota: AmountsRow
    limit: AmountsRow
    fair_share: AmountsRow
    borrowed: AmountsRow
    usage_text: str
    jobs_running: int
    jobs_pending: int


def rows(state: PoolState) -> list[ProjectRow]:
    """Every project under its parent, siblings in the policy's order."""
    from bailiff_core.queue.order import shares_now  # imported here: `bailiff list` uses this module and loads no engine rules
    from bailiff_core.scheduling_snapshot import current_snapshot

    snapshot = current_snapshot(state)
    usage, shares = snapshot.usage, shares_now(snapshot)
    found = []
    counts = _counts(state)
    for project, depth in in_tree_order(state.rules):
        own = [counts[name] for name in below(state.rules, project.name) if name in counts]
        found.append(_row(project, depth, usage.allocated(project.name), usage.non_preemptible(project.name), shares, own))
    names = dict.fromkeys(project.name for project in state.rules.projects)
    without_project = [count for name, count in counts.items() if name not in names]
    if found and without_project:
        no_project = Project.model_construct(name=DIRECT)
        row = _row(no_project, 0, usage.allocated(DIRECT), usage.non_preemptible(DIRECT), shares, without_project)
        found.append({**row, "project": "", "description": "jobs without a project"})
    return found


def _counts(state: PoolState) -> dict[str, Counter[str]]:
    """Number of jobs that have not ended, by project (without subprojects) and phase."""
    found: dict[str, Counter[str]] = {}
    for (project, phase), count in Counter((job.project, job.phase) for job in state.jobs.values()).items():
        if phase not in ENDED:
            found.setdefault(project, Counter())[phase] = count
    return found


def in_tree_order(policy: Policy) -> Iterator[tuple[Project, int]]:
    """Each project with its depth, children directly after their parent."""

    def walk(parent: str | None, depth: int) -> Iterator[tuple[Project, int]]:
        for project in policy.projects:
            if project.parent == parent:
                yield project, depth
                yield from walk(project.name, depth + 1)

    return walk(None, 0)


def below(policy: Policy, project: str) -> list[str]:
    """The project and its subprojects."""
    found, more = [project], [project]
    while more:
        above = more.pop()
        children = [each.name for each in policy.projects if each.parent == above]
        found += children
        more += children
    return found


def _row(
    project: Project,
    depth: int,
    used: ResourceVector,
    non_preemptible: ResourceVector,
    shares: Mapping[str, ResourceVector],
    jobs: list[Counter[str]],
) -> ProjectRow:
    quota = _bounds(project.quota, gpu_milli=0)
    own, share = _amounts(used), shares.get(project.name)
    return {
        "project": project.name,
        "parent": project.parent,
        "depth": depth,
        "description": project.description,
        "priority": project.priority,
        "weight": project.over_quota_weight.model_dump(),
        "used": own,
        "non_preemptible": _amounts(non_preemptible),
        "quota": quota,
        "limit": _bounds(project.limit),
        "fair_share": _amounts(share) if share is not None else _bounds(Bounds()),
        "borrowed": _above(own, quota),
        "usage_text": usage_text(own["gpu_milli"] or 0, quota["gpu_milli"]),
        "jobs_running": sum(count[phase] for count in jobs for phase in ("starting", "running", "evicting")),
        "jobs_pending": sum(count[phase] for count in jobs for phase in ("pending", "reserved")),
    }


def usage_text(used_milli: int, quota_milli: int | None) -> str:
    """`8/4 over quota`, `4/4`, `3 of unlimited`."""
    used = thousandths_text(used_milli)
    if quota_milli is None:
        return f"{used} of unlimited"
    return f"{used}/{thousandths_text(quota_milli)}" + (" over quota" if used_milli > quota_milli else "")


def _amounts(amounts: ResourceVector) -> AmountsRow:
    gpu, cpu, memory = (int(each) for each in amounts)
    return {"gpu_milli": gpu, "cpu_milli": cpu, "memory_bytes": memory}


def _bounds(bounds: Bounds, gpu_milli: int | None = None) -> AmountsRow:
    gpu = bounds.gpu_milli if bounds.gpu_milli is not None else gpu_milli
    found = {"gpu_milli": gpu, "cpu_milli": bounds.cpu_milli, "memory_bytes": bounds.memory_bytes}
    none = {name: None if value == UNLIMITED else value for name, value in found.items()}
    return {"gpu_milli": none["gpu_milli"], "cpu_milli": none["cpu_milli"], "memory_bytes": none["memory_bytes"]}


def _above(used: AmountsRow, quota: AmountsRow) -> AmountsRow:
    def above(own: int | None, bound: int | None) -> int:
        return 0 if bound is None else max(0, (own or 0) - bound)

    return {
        "gpu_milli": above(used["gpu_milli"], quota["gpu_milli"]),
        "cpu_milli": above(used["cpu_milli"], quota["cpu_milli"]),
        "memory_bytes": above(used["memory_bytes"], quota["memory_bytes"]),
    }


def amounts_text(row: AmountsRow, *, none: str = "unlimited") -> str:
    """`4 GPUs, 32 CPU, 64GiB`; unbounded resources are omitted. none: text if all are unbounded."""
    gpu, cpu, memory = row["gpu_milli"], row["cpu_milli"], row["memory_bytes"]
    parts = [] if gpu is None else [gpus_text(gpu)]
    parts += [] if cpu is None else [f"{thousandths_text(cpu)} CPU"]
    parts += [] if memory is None else [memory_text(memory)]
    return ", ".join(parts) or none


# --- a policy with a change


def with_new(policy: Policy, name: str, fields: Mapping[str, Any]) -> Policy:
    """The policy with one project added, as the youngest. Raises `ClientError` if it exists or is invalid."""
    if any(project.name == name for project in policy.projects):
        raise ClientError(ExitCode.USAGE, f"project {name!r} exists already", f"to change it: bailiff project update {name}")
    created = max((project.created for project in policy.projects), default=0) + 1
    return _with_projects(policy, [*_documents(policy), {"name": name, "created": created, **fields}])


def with_changed(policy: Policy, name: str, fields: Mapping[str, Any]) -> Policy:
    """The policy with these fields of one project changed; quota, limit and weight per resource. Raises `ClientError`."""
    find(policy, name)
    documents = _documents(policy)
    for document in documents:
        if document["name"] == name:
            for field, value in fields.items():
                document[field] = {**document[field], **value} if isinstance(value, dict) else value
    return _with_projects(policy, documents)


def without(policy: Policy, name: str) -> Policy:
    """The policy without the project. Raises `ClientError` if it is unknown or has subprojects."""
    find(policy, name)
    children = [project.name for project in policy.projects if project.parent == name]
    if children:
        advice = "delete them first, or move them: bailiff project update CHILD --parent OTHER"
        raise ClientError(ExitCode.USAGE, f"project {name} has subprojects: {', '.join(children)}", advice)
    return _with_projects(policy, [document for document in _documents(policy) if document["name"] != name])


def find(policy: Policy, name: str) -> Project:
    """The project of that name. Raises `ClientError` if there is none."""
    for project in policy.projects:
        if project.name == name:
            return project
    known = ", ".join(project.name for project in policy.projects) or "none yet: bailiff project create NAME --gpus 4"
    raise ClientError(ExitCode.NOT_FOUND, f"there is no project {name!r}", f"existing projects: {known}")


def users_of(state: PoolState, name: str) -> list[str]:
    """Jobs of this project, without subprojects, that have not ended."""
    return [job.id for job in state.jobs.values() if job.project == name and job.phase not in ENDED]


def _documents(policy: Policy) -> list[dict[str, Any]]:
    return [project.model_dump(mode="json") for project in policy.projects]


def _with_projects(policy: Policy, projects: list[dict[str, Any]]) -> Policy:
    from pydantic import ValidationError

    from bailiff_bus.validation_errors import describe_errors

    data = policy.model_dump(mode="json")
    try:
        return Policy.model_validate({**data, "projects": projects}, strict=False)
    except ValidationError as error:
        raise ClientError(ExitCode.USAGE, describe_errors(error.errors(include_url=False)).removeprefix("data: ")) from None
