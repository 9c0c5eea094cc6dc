"""What all adapters read in the same way: labels, annotations, pod templates."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bailiff_core.humanize import value_text
from bailiff_kubernetes import names
from bailiff_kubernetes.quantities import whole_number
from bailiff_kubernetes.resources import Object, Resource, annotations_of, labels_of, owner_of, uid_of
from bailiff_kubernetes_bridge.annotations import STATUS, STOPPED_FOR

from .model import Role, Workload
from .node_affinity import required_terms
from .quantities import BadPodSpec, pod_resources
from .volumes import claiming

DEFAULT_GRACE_S = 30
"""Of pods that state none: the API server's."""
CHECKPOINT = (names.LAST_CHECKPOINT_STEP, names.LAST_CHECKPOINT_TIME)


def described(item: Object, resource: Resource, templates: Mapping[str, tuple[int, Object]]) -> Workload:
    """The workload of this object. templates: the pod template of each role, and how many pods it makes."""
    labels, annotations = labels_of(item), annotations_of(item)
    roles, problem = [], ""
    for role, (count, template) in templates.items():
        try:
            roles.append(make_role(role, count, template.get("spec") or {}))
        except BadPodSpec as error:
            problem = problem or f"pods of {role}: {error}"
    pool = labels.get(names.POOL, "")
    unlabelled = [role for role, (_, template) in templates.items() if _template_labels(template).get(names.POOL) != pool]
    if pool and unlabelled and not problem:
        problem = f"the pod template of {', '.join(unlabelled)} lacks the label {names.POOL}: {pool}, so its pods are not gated"
    minimum = annotations.get(names.MIN_TASKS) or labels.get(names.MIN_TASKS)
    if minimum is not None and whole_number(minimum) is None:
        problem = problem or f"{names.MIN_TASKS}: expected a whole number, found {value_text(minimum)}"
    if not problem and sum(role.count for role in roles) == 0:
        problem = "it asks for no pods"
    spec = item.get("spec") or {}
    specs = [template.get("spec") or {} for _, template in templates.values()]
    return Workload(
        resource=resource,
        namespace=item["metadata"]["namespace"],
        name=item["metadata"]["name"],
        uid=uid_of(item),
        resource_version=str(item["metadata"].get("resourceVersion", "")),
        generation=int(item["metadata"].get("generation", 1)),
        pool=pool,
        roles=tuple(roles),
        submitted_by=annotations.get(names.SUBMITTED_BY, ""),
        owner=owner_of(item),
        min_tasks=whole_number(minimum),
        priority_class=labels.get(names.PRIORITY_CLASS, ""),
        kubernetes_priority_class=(specs[0].get("priorityClassName") if specs else None) or "",
        project=labels.get(names.PROJECT, ""),
        grace=annotations.get(names.GRACE) or grace_of(specs),
        preempts=all(spec.get("preemptionPolicy") != "Never" for spec in specs),
        suspended=spec.get("suspend") is True,
        deleting=item["metadata"].get("deletionTimestamp") is not None,
        problem=problem,
        stopped_for=annotations.get(STOPPED_FOR, ""),
        status=annotations.get(STATUS, ""),
        checkpoint=checkpoint_of(item),
    )


def ended(workload: Workload, item: Object, complete: Mapping[str, str], failed: Mapping[str, str]) -> Workload:
    """With its outcome, from its status conditions. complete, failed: types of conditions, and what people call them."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        kind, text = str(condition.get("type")), condition.get("message") or condition.get("reason") or ""
        if condition.get("status") == "True" and kind in complete:
            return replace(workload, outcome="complete", outcome_reason=complete[kind])
        if condition.get("status") == "True" and kind in failed:
            return replace(workload, outcome="failed", outcome_reason=f"{failed[kind]}: {text}" if text else failed[kind])
    return workload


def checkpoint_of(item: Object) -> tuple[tuple[str, str], ...]:
    """The annotations about its last checkpoint."""
    annotations = annotations_of(item)
    return tuple((name, annotations[name]) for name in CHECKPOINT if name in annotations)


def grace_of(specs: Iterable[Object]) -> str:
    """The longest time that these pods have to end, as a job file has it: never 0, with which the object would go first."""
    return f"{max((1, *(spec.get('terminationGracePeriodSeconds', DEFAULT_GRACE_S) for spec in specs)))}s"


def template_of(value: Any) -> Object:
    """A pod template, or an empty one."""
    return value if isinstance(value, dict) else {}


def count_of(value: Any, default: int = 1) -> int:
    """A number of pods; the default where it is left out."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def make_role(name: str, count: int, spec: Object) -> Role:
    """So many pods of this spec. Raises `BadPodSpec`."""
    selector, terms = dict(spec.get("nodeSelector") or {}), tuple(required_terms(spec))
    return Role(name, count, pod_resources(spec), selector, terms, claiming(spec))


def _template_labels(template: Object) -> Mapping[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}
