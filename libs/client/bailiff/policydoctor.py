"""What in a pool's policy is switched off, and what in it can hardly be meant. Reading only; nothing of it is an error."""

from collections.abc import Iterator
from typing import NamedTuple

from bailiff_core.model.amounts import UNLIMITED
from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.pool import ENDED, Pool
from bailiff_core.protections import start_within
from bailiff_core.words import count_text, duration_text, gpus_text

OFF = {
    "allocate": "no job is ever placed, though there be room",
    "consolidate": "no job is moved to make room in one piece",
    "reclaim": "projects over their quota keep what they borrowed until their jobs end",
    "preempt": "no job displaces another one by priority",
}
SHOW = "bailiff policy show -o yaml > policy.yaml, then bailiff policy apply policy.yaml"


class Oddity(NamedTuple):
    """What was found, and what to do about it if it is not meant."""

    found: str
    advice: str


def oddities(pool: Pool) -> list[Oddity]:
    """Everything worth a second look, most important first."""
    policy = pool.rules
    return [
        *_verbs(policy),
        *_quotas(pool, policy),
        *_bounds(policy),
        *_classes(policy),
        *_promises(pool),
        *_protections(policy),
        *_labels(pool, policy),
    ]


def _verbs(policy: Policy) -> Iterator[Oddity]:
    for verb, means in OFF.items():
        if verb not in policy.preemption.verbs and not (verb == "reclaim" and not policy.projects):
            yield Oddity(f"{verb} is switched off: {means}", f"to switch it on, name it under preemption.verbs: {SHOW}")


def _quotas(pool: Pool, policy: Policy) -> Iterator[Oddity]:
    if not policy.projects:
        return
    gpus = sum(len(node.devices) for node in pool.nodes.values()) * 1000
    if not any(project.quota.gpu_milli for project in policy.projects) and gpus:
        yield Oddity(
            "no project has a quota of GPUs: nobody is due anything", "give them one: bailiff project update NAME --gpus 4"
        )
    tops = [project for project in policy.projects if project.parent is None]
    deserved = _sum(tops)
    if gpus and deserved > gpus:
        text = f"quotas add up to {gpus_text(deserved)}, the pool has {gpus_text(gpus)}: not everybody can have its own at once"
        yield Oddity(text, "lower them: bailiff project list, bailiff project update NAME --gpus 4")
    for parent in policy.projects:
        children = [project for project in policy.projects if project.parent == parent.name]
        own = parent.quota.gpu_milli or 0
        if children and own != UNLIMITED and _sum(children) > own:
            text = f"quotas below {parent.name} add up to {gpus_text(_sum(children))}, it has {gpus_text(own)} itself"
            yield Oddity(text, f"what it has is shared out among them: bailiff project update {parent.name} --gpus N")
    strays = sum(not job.project for job in pool.jobs.values() if job.phase not in ENDED)
    if strays:
        yield Oddity(
            f"{count_text(strays, 'job')} without a project: they deserve nothing and only borrow",
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
                    f"project {project.name} may use less {what} than its quota: its limit is lower",
                    "raise the limit, or lower the quota",
                )
        if not project.quota.gpu_milli and project.over_quota_weight.gpu == 0:
            text = f"project {project.name} has neither a quota of GPUs nor a weight: it is never due any"
            yield Oddity(text, f"bailiff project update {project.name} --gpus 1, or --weight 1")


def _classes(policy: Policy) -> Iterator[Oddity]:
    names = [entry.name for entry in policy.priority_classes]
    for name, users in policy.identity.class_users.items():
        if name not in names:
            yield Oddity(f"identity.class_users names the class {name}, which there is none of", f"classes: {', '.join(names)}")
        elif not users:
            yield Oddity(
                f"nobody may use the class {name}: identity.class_users lists no user of it", "name users, or leave the class out"
            )
    displacing = [entry.name for entry in policy.priority_classes if entry.preemption_policy == "PreemptLowerPriority"]
    if "preempt" in policy.preemption.verbs:
        if not any(entry.preemptible for entry in policy.priority_classes):
            yield Oddity(
                "no class is preemptible: only jobs that say so themselves can ever be displaced", "set preemptible: true on one"
            )
        if not displacing:
            yield Oddity(
                "every class has preemption_policy Never: preempt is on, and nobody uses it", "PreemptLowerPriority lets a class"
            )


def _promises(pool: Pool) -> Iterator[Oddity]:
    for kept in start_within.kept(pool):
        if kept.missed:
            promise = f"{kept.percent} of 100 are to start within {duration_text(kept.within)}"
            late = f"{kept.late} of {count_text(kept.jobs, 'job')} started later, or wait longer"
            text = f"class {kept.class_name}: {late}; {promise}"
            yield Oddity(text, "bailiff explain JOB says what one of them waited for; more quota, or immediate: true, helps")


def _protections(policy: Policy) -> Iterator[Oddity]:
    for budget in policy.protections.budgets:
        if budget.most == 0:
            yield Oddity(f"budget {budget.name} lets none of its jobs leave at any time", "say excluded, if that is meant")
    for labels in policy.protections.excluded:
        if not labels:
            yield Oddity("protections.excluded has an entry without labels", "name the labels of the jobs that are left alone")
    if policy.protections.stale_gang < 0:
        yield Oddity(
            "a gang that lost a member keeps its room for ever: protections.stale_gang is negative", "say how long, as in 60s"
        )


def _labels(pool: Pool, policy: Policy) -> Iterator[Oddity]:
    known = {label for node in pool.nodes.values() for label in node.labels}
    for topology in policy.topologies:
        missing = [level for level in topology.levels if level not in known]
        if missing and pool.nodes:
            text = (
                f"topology {topology.name}: no node has the label {', '.join(missing)}, so that no gang can stand there together"
            )
            yield Oddity(text, "agents tell their labels: labels in BAILIFF_NODES")
