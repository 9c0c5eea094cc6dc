"""Findings about a pool's policy: disabled actions and likely mistakes. None of them is an error."""

from collections.abc import Iterator

from bailiff.render.serializers.projects import capacity_of
from bailiff_core.humanize import count_text, duration_text, first_names
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.permissions import operators_with_keys
from bailiff_core.queue import start_slo

from .quota_findings import PolicyFinding, quota_findings

OFF = {
    "allocate": "no job is placed, even on free resources",
    "consolidate": "no job is migrated to defragment nodes",
    "reclaim": "projects over their quota keep borrowed resources until their jobs end",
    "preempt": "no job preempts another by priority",
}
SHOW = "bailiff policy show -o yaml > policy.yaml, then bailiff policy apply policy.yaml"


def all_findings(state: PoolState) -> list[PolicyFinding]:
    """All findings, most important first."""
    policy = state.rules
    return [
        *_actions(policy),
        *_identity(policy),
        *_projects(state, policy),
        *_classes(policy),
        *_start_slos(state),
        *_protections(policy),
        *_claims(state, policy),
        *_labels(state, policy),
    ]


def _actions(policy: Policy) -> Iterator[PolicyFinding]:
    for action, means in OFF.items():
        if action not in policy.preemption.actions and not (action == "reclaim" and not policy.projects):
            yield PolicyFinding(f"{action} is disabled: {means}", f"to enable it, list it under preemption.actions: {SHOW}")


def _identity(policy: Policy) -> Iterator[PolicyFinding]:
    identity = policy.identity
    if identity.keys and not identity.operators:
        yield PolicyFinding(
            "no operators are named: everybody who can send requests may change the policy and drain nodes",
            "name them and their keys: identity.operators, identity.keys",
        )
    without = [name for name in identity.operators if name not in operators_with_keys(policy)]
    if without:
        yield PolicyFinding(
            f"operators without a key: {', '.join(without[:5])}; an operator's requests must be signed",
            "add their keys: identity.keys",
        )


def _projects(state: PoolState, policy: Policy) -> Iterator[PolicyFinding]:
    if not policy.projects:
        return
    capacity = capacity_of(state, policy)
    if not any(project.quota.gpu_milli or project.quota.by_model for project in policy.projects) and capacity[0]:
        yield PolicyFinding(
            "no project has a GPU quota: no project is entitled to GPUs", "set quotas: bailiff project update NAME --gpus 4"
        )
    yield from quota_findings(policy, capacity)
    without_project = sum(not job.project for job in state.jobs.values() if job.phase not in ENDED)
    if without_project:
        yield PolicyFinding(
            f"{count_text(without_project, 'job')} without a project: they have no quota and only borrow",
            "bailiff submit --project NAME",
        )
    for project in policy.projects:
        if not (project.quota.gpu_milli or project.quota.by_model) and project.over_quota_weight.gpu == 0:
            text = f"project {project.name} has neither a GPU quota nor a weight: it is entitled to no GPUs"
            yield PolicyFinding(text, f"bailiff project update {project.name} --gpus 1, or --weight 1")


def _classes(policy: Policy) -> Iterator[PolicyFinding]:
    names = [entry.name for entry in policy.priority_classes]
    for name, users in policy.identity.class_users.items():
        if name not in names:
            yield PolicyFinding(
                f"identity.class_users names the class {name}, which does not exist", f"classes: {', '.join(names)}"
            )
        elif not users:
            yield PolicyFinding(
                f"no user may use the class {name}: identity.class_users lists none", "name users, or remove the class from it"
            )
    preempting = [entry.name for entry in policy.priority_classes if entry.preemption_policy == "PreemptLowerPriority"]
    if "preempt" in policy.preemption.actions:
        if not any(entry.preemptible for entry in policy.priority_classes):
            yield PolicyFinding(
                "no class is preemptible: only jobs with preemptible: true can be victims", "set preemptible: true on one"
            )
        if not preempting:
            yield PolicyFinding(
                "every class has preemption_policy Never: preempt is enabled but unused", "set PreemptLowerPriority on a class"
            )


def _start_slos(state: PoolState) -> Iterator[PolicyFinding]:
    for slo in start_slo.slo_status(state):
        if slo.missed:
            slo_text = f"{slo.percent} of 100 should start within {duration_text(slo.within)}"
            late = f"{slo.late} of {count_text(slo.jobs, 'job')} started later, or are pending for longer"
            text = f"class {slo.class_name}: {late}; {slo_text}"
            yield PolicyFinding(
                text, "see what one of them waited for: bailiff explain JOB; consider a higher quota, or immediate: true"
            )


def _protections(policy: Policy) -> Iterator[PolicyFinding]:
    for budget in policy.protections.budgets:
        if budget.max_disruptions == 0:
            yield PolicyFinding(
                f"budget {budget.name} allows no disruption of its jobs at any time",
                "use protections.excluded if this is intended",
            )
    for labels in policy.protections.excluded:
        if not labels:
            yield PolicyFinding("protections.excluded has an entry without labels", "name the labels of the excluded jobs")
    if policy.protections.stale_gang is None:
        yield PolicyFinding(
            "a gang below its minimum keeps its resources indefinitely: protections.stale_gang is null", "set a time, as in 60s"
        )


LONG_GRACE = 3_600_000_000


def _claims(state: PoolState, policy: Policy) -> Iterator[PolicyFinding]:
    protections, general = policy.protections, policy.claims
    if general is None:
        yield PolicyFinding(
            "it was applied before claims were limited: every job may claim not to be preemptible",
            f"apply it again, with claims for those who need them: {SHOW}",
        )
        return
    stated = [general, *(entry.claims for entry in policy.priority_classes), *(project.claims for project in policy.projects)]
    by_labels = bool(protections.excluded) or any(budget.labels for budget in protections.budgets)
    if by_labels and not any(claims.protective_labels for claims in stated):
        yield PolicyFinding(
            "protections.excluded and budgets select by labels, which no job may claim: they protect none",
            "grant it to the projects or classes that need it: claims: {protective_labels: true}",
        )
    if general.non_preemptible:
        yield PolicyFinding(
            "claims.non_preemptible: every job may claim not to be preemptible", "grant it to single projects or classes instead"
        )
    longest = max(claims.grace or 0 for claims in stated)
    if longest > LONG_GRACE:
        yield PolicyFinding(
            f"a job may claim a grace of {duration_text(longest)}, and keeps its GPUs for as long after its eviction",
            "lower claims.grace to what saving a checkpoint takes",
        )
    claimed = [
        job for job in state.jobs.values() if job.phase not in ENDED and job.demand.preemptible is False and job.preemptible
    ]
    if claimed:
        names = first_names([job.id for job in claimed], 5)
        yield PolicyFinding(
            f"{count_text(len(claimed), 'job')} with preemptible: false, which is not granted: {names}",
            "if they should keep it, set non_preemptible: true in the claims of their class or project",
        )


def _labels(state: PoolState, policy: Policy) -> Iterator[PolicyFinding]:
    known = {label for node in state.nodes.values() for label in node.labels}
    for topology in policy.topologies:
        missing = [level for level in topology.levels if level not in known]
        if missing and state.nodes:
            text = f"topology {topology.name}: no node has the label {', '.join(missing)}, so no gang can be placed by it"
            yield PolicyFinding(text, "set the label on nodes: labels in BAILIFF_NODES")
