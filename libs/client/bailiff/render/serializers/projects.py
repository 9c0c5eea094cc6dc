"""Projects: usage, quota and fair share as data."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from bailiff_core.humanize import gpus_text, memory_text, thousandths_text
from bailiff_core.model.mig import gpu_kinds_of, profile_of
from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.project_tree import DIRECT, ROOT, ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector, shortened
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.model.undecoded import Undecoded, shared_of
from bailiff_core.views import Amounts, Gpus, ProjectView, project_view


class KindRow(TypedDict):
    """What a project uses and may use of one kind of GPU that a quota or a limit names: GPUs, or MIG devices; null: unlimited."""

    kind: Annotated[str, Field(description="GPU model, group of models, or MIG profile.")]
    used: Gpus | None
    quota: Gpus | None
    quota_in_force: Gpus | None
    limit: Gpus | None
    fair_share: Gpus | None


class ProjectRow(ProjectView):
    """One project in `bailiff project list`; the empty name: jobs without a project.

    Attributes:
        usage_text: The GPUs as text, as in `8/4 over quota`.
        depth: 0 at the top.
        kinds: By kind of GPU, where some project states a quota or a limit of one.
    """

    parent: str | None
    depth: int
    description: str
    priority: int
    weight: dict[str, int]
    usage_text: str
    jobs_running: int
    jobs_pending: int
    kinds: list[KindRow]


def rows(state: PoolState) -> list[ProjectRow]:
    """Every project under its parent, siblings in the policy's order."""
    from bailiff_log.quota_usage_rows import project_usage, usage_by_kind  # imported here: `bailiff list` loads no engine rules

    usage, by_kind = project_usage(state), usage_by_kind(state)
    if not any(usage[ROOT]["requested"]):
        for name, quota in _quotas_of_idle_pool(state).items():
            usage[name]["quota"] = [None if amount == UNLIMITED else int(amount) for amount in quota[:3]]
            for amounts, amount in zip(by_kind[name].values(), quota[3:], strict=True):
                amounts["quota"] = None if amount == UNLIMITED else int(amount)
    found = []
    counts = _counts(state)
    for project, depth in in_tree_order(state.rules):
        own = [counts[name] for name in below(state.rules, project.name) if name in counts]
        found.append(_row(project, depth, project_view(project.name, usage[project.name]), by_kind[project.name], own))
    names = dict.fromkeys(project.name for project in state.rules.projects)
    without_project = [count for name, count in counts.items() if name not in names]
    if found and without_project:
        no_project = Project.model_construct(name=DIRECT, description="jobs without a project")
        found.append(_row(no_project, 0, project_view("", usage[DIRECT]), by_kind[DIRECT], without_project))
    return found


def capacity_of(state: PoolState, policy: Policy | None = None) -> ResourceVector:
    """What the pool's nodes have, whether or not they take tasks now.

    Args:
        policy: Whose quotas and limits name kinds of GPU; default: that in force.
    """
    nodes, kinds = state.nodes.values(), gpu_kinds_of(policy or state.policy)
    of_kinds = kinds.amounts((kinds.at(device.model, profile_of(device)), 1000) for node in nodes for device in node.devices)
    return shortened(
        (
            1000 * sum(len(node.devices) for node in nodes),
            sum(node.capacity.cpu_milli for node in nodes),
            sum(node.capacity.memory_bytes for node in nodes),
            *of_kinds,
        )
    )


def _quotas_of_idle_pool(state: PoolState) -> Mapping[str, ResourceVector]:
    """What unstated quotas will be once jobs can use all nodes. Until there is a job, no node counts, and they are nothing."""
    from bailiff_core.quota.quotas_in_full import quotas_in_full

    capacity = capacity_of(state)
    return quotas_in_full(ProjectTree(state.rules.projects), capacity, capacity.gpu_milli)


def _counts(state: PoolState) -> dict[str, Counter[str]]:
    """Number of jobs that have not ended, by project (without subprojects) and phase."""
    found: dict[str, Counter[str]] = {}
    stored = isinstance(state.jobs, Undecoded)
    jobs = (shared_of(state.jobs, name) for name in state.jobs) if stored else state.jobs.values()
    for (project, phase), count in Counter((job.project, job.phase) for job in jobs).items():
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
    view: ProjectView,
    by_kind: Mapping[str, Mapping[str, int | None]],
    jobs: list[Counter[str]],
) -> ProjectRow:
    return {
        **view,
        "parent": project.parent,
        "depth": depth,
        "description": project.description,
        "priority": project.priority,
        "weight": project.over_quota_weight.model_dump(),
        "usage_text": usage_text(view["used"]["gpus"] or 0, view["quota"]["gpus"], view["quota_in_force"]["gpus"]),
        "jobs_running": sum(count[phase] for count in jobs for phase in ("starting", "running", "evicting")),
        "jobs_pending": sum(count[phase] for count in jobs for phase in ("pending", "reserved")),
        "kinds": [_kind_row(kind, amounts) for kind, amounts in by_kind.items()],
    }


def _kind_row(kind: str, amounts: Mapping[str, int | None]) -> KindRow:
    def gpus(name: str) -> float | None:
        milli = amounts[name]
        return None if milli is None else milli / 1000

    return {
        "kind": kind,
        "used": gpus("used"),
        "quota": gpus("quota"),
        "quota_in_force": gpus("quota_in_force"),
        "limit": gpus("limit"),
        "fair_share": gpus("fair_share"),
    }


def kind_text(row: KindRow) -> str:
    """As `usage_text`, of one kind."""
    return usage_text(row["used"] or 0, row["quota"], row["quota_in_force"])


def usage_text(used: float, quota: float | None, in_force: float | None) -> str:
    """`8/4 over quota`, `4/4`, `3 of unlimited`; `4/4 over quota (2 in force)` where more is asked for than there is."""
    if quota is None:
        return f"{used:.10g} of unlimited"
    shrunk = f" ({in_force:.10g} in force)" if in_force is not None and in_force < quota else ""
    return f"{used:.10g}/{quota:.10g}" + (" over quota" if used > (quota if in_force is None else in_force) else "") + shrunk


def amounts_text(row: Amounts, *, none: str = "unlimited") -> str:
    """`4 GPUs, 32 CPU, 64GiB`; unbounded resources are omitted."""
    gpus, cpu, memory = row["gpus"], row["cpu_milli"], row["memory_bytes"]
    parts = [] if gpus is None else [gpus_text(round(gpus * 1000))]
    parts += [] if cpu is None else [f"{thousandths_text(cpu)} CPU"]
    parts += [] if memory is None else [memory_text(memory)]
    return ", ".join(parts) or none
