"""Disabled actions and likely mistakes in a pool's policy. None of them is an error."""

from collections.abc import Iterator
from typing import NamedTuple

from bailiff_core.humanize import count_text, duration_text, gpus_text
from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.queue import start_slo

OFF = {
    "allocate": "no job is ever placed, though there be room",
    "consolidate": "no job is moved to make room in one piece",
    "reclaim": "projects over their quota keep what they borrowed until their jobs end",
    "preempt": "no job displaces another one by priority",
}
SHOW = "bailiff policy show -o yaml > policy.yaml, then bailiff policy apply policy.yaml"


class Oddity(NamedTuple):
    """A finding, and the advice if it is not intended."""

    found: str
    advice: str


def oddities(state: PoolState) -> list[Oddity]:
    """All findings, most important first."""
    policy = state.rules
    return [
        *_verbs(policy),
        *_quotas(state, policy),
        *_bounds(policy),
        *_classes(policy),
        *_promises(state),
        *_protections(policy),
        *_labels(state, policy),
    ]


def _verbs(policy: Policy) -> Iterator[Oddity]:
    for action, means in OFF.items():
        if action not in policy.preemption.actions and not (action == "reclaim" and not policy.projects):
            yield Oddity(f"{action} is disabled: {means}", f"to enable it, list it under preemption.actions: {SHOW}")


def _quotas(state: PoolState, policy: Policy) -> Iterator[Oddity]:
    if not policy.projects:
        return
    gpus = sum(len(node.devices) for node in state.nodes.values()) * 1000
    if not any(project.quota.gpu_milli for project in policy.projects) and gpus:
        yield Oddity(
            "no project has a quota of GPUs: nobody is due anything", "give them one: bailiff project update NAME --gpus 4"
        )
    tops = [project for project in policy.projects if project.parent is None]
    deserved = _sum(tops)
    if gpus and deserved > gpus:
        text = f"quotas add up to {gpus_text(deserved)}, the pool has {gpus_text(gpus)}: the quotas cannot all be used at once"
        yield Oddity(text, "lower them: bailiff project list, bailiff project update NAME --gpus 4")
    for parent in policy.projects:
        children = [project for project in policy.projects if project.parent == parent.name]
        own = parent.quota.gpu_milli or 0
        if children and own != UNLIMITED and _sum(children) > own:
            text = f"quotas below {parent.name} add up to {gpus_text(_sum(children))}, it has {gpus_text(own)} itself"
            yield Oddity(text, f"its quota is divided among them: bailiff project update {parent.name} --gpus N")
    strays = sum(not job.project for job in state.jobs.values() if job.phase not in ENDED)
    if strays:
        yield Oddity(
            f"{count_text(strays, 'job')} without a project: they have no quota and only borrow",
            "bailiff submit --project NAME",
        )


def _sum(projects: list[Project]) -> int:
    return sum(max(0, project.quota.gpu_milli or 0) for project in projects)


def _bounds(policy: Policy) -> Iterator[Oddity]:
    for project in policy.projects:
        for name in ("gpu_milli", "cpu_milli", "memory_bytes"):
            quota, limit = getattr(project.quota, name), getattr(project.limit, name)
            if limit not in (None, UNLIMITED) and quota is not None and (quota > limit or (quota == UNLIMITED)):
                what = {"gpu_milli": "GPUs", "cpu_milli": "CPU", "memory_bytes": "memory"}[name]
                yield Oddity(
                    f"project {project.name} has a {what} limit below its quota",
                    "raise the limit, or lower the quota",
                )
        if not project.quota.gpu_milli and project.over_quota_weight.gpu == 0:
            text = f"project {project.name} has neither a GPU quota nor a weight: it is entitled to no GPUs"
            yield Oddity(text, f"bailiff project update {project.name} --gpus 1, or --weight 1")


def _classes(policy: Policy) -> Iterator[Oddity]:
    names = [entry.name for entry in policy.priority_classes]
    for name, users in policy.identity.class_users.items():
        if name not in names:
            yield Oddity(f"identity.class_users names the class {name}, which does not exist", f"classes: {', '.join(names)}")
        elif not users:
            yield Oddity(
                f"no user may use the class {name}: identity.class_users lists none", "name users, or leave the class out"
            )
    displacing = [entry.name for entry in policy.priority_classes if entry.preemption_policy == "PreemptLowerPriority"]
    if "preempt" in policy.preemption.actions:
        if not any(entry.preemptible for entry in policy.priority_classes):
            yield Oddity(
                "no class is preemptible: only jobs that say so themselves can ever be displaced", "set preemptible: true on one"
            )
        if not displacing:
            yield Oddity(
                "every class has preemption_policy Never: preempt is on, and nobody uses it", "PreemptLowerPriority lets a class"
            )


def _promises(state: PoolState) -> Iterator[Oddity]:
    for kept in start_slo.slo_status(state):
        if kept.missed:
            promise = f"{kept.percent} of 100 should start within {duration_text(kept.within)}"
            late = f"{kept.late} of {count_text(kept.jobs, 'job')} started later, or are pending for longer"
            text = f"class {kept.class_name}: {late}; {promise}"
            yield Oddity(text, "bailiff explain JOB says what one of them waited for; more quota, or immediate: true, helps")


def _protections(policy: Policy) -> Iterator[Oddity]:
    for budget in policy.protections.budgets:
        if budget.max_disruptions == 0:
            yield Oddity(f"budget {budget.name} allows no disruption of its jobs at any time", "use excluded if this is intended")
    for labels in policy.protections.excluded:
        if not labels:
            yield Oddity("protections.excluded has an entry without labels", "name the labels of the jobs that are left alone")
    if policy.protections.stale_gang is None:
        yield Oddity(
            "a gang that lost a member keeps its room for ever: protections.stale_gang is null", "say how long, as in 60s"
        )


def _labels(state: PoolState, policy: Policy) -> Iterator[Oddity]:
    known = {label for node in state.nodes.values() for label in node.labels}
    for topology in policy.topologies:
        missing = [level for level in topology.levels if level not in known]
        if missing and state.nodes:
            text = f"topology {topology.name}: no node has the label {', '.join(missing)}, so no gang can be placed by it"
            yield Oddity(text, "agents tell their labels: labels in BAILIFF_NODES")
