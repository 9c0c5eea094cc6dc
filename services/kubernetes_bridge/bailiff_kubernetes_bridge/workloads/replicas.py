"""ReplicaSets, as Deployments make them, and StatefulSets: their pods serve, so that they are one job that may lack some."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bailiff_kubernetes import names
from bailiff_kubernetes.quantities import whole_number
from bailiff_kubernetes.resources import Object, Resource, labels_of

from .common import count_of, described, template_of
from .model import Workload
from .node_affinity import holds

POD_INDEX = "apps.kubernetes.io/pod-index"


def replicas(item: Object, resource: Resource, budget: Object | None) -> Workload:
    """The workload of this object. budget: the PodDisruptionBudget of its pods; its minimum is the job's, where no label is."""
    spec = item["spec"]
    count, template = count_of(spec.get("replicas")), template_of(spec.get("template"))
    found = described(item, resource, {"pod": (max(1, count), template)})
    one_by_one = resource.kind == "StatefulSet" and spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    if one_by_one and (found.min_tasks or 1) > 1:
        how = f"set podManagementPolicy: Parallel to have {found.min_tasks} at once"
        problem = f"it makes a pod once the one before is ready: {how}"
        found = replace(found, problem=found.problem or problem)
    minimum = found.min_tasks
    if minimum is None:
        minimum = 1 if budget is None or one_by_one else _least(budget, count)
    found = replace(
        found,
        submitted_by=(_metadata(template).get("annotations") or {}).get(names.SUBMITTED_BY, ""),
        min_tasks=minimum,
        serves=True,
        makes_all=not one_by_one,
    )
    return found if count else replace(found, outcome="complete", outcome_reason="it was scaled to 0")


def budget_of(item: Object, budgets: Iterable[Object]) -> Object | None:
    """The PodDisruptionBudget of the pods, of several the first by name. budgets: of its namespace."""
    labels = template_labels(item)
    found = (each for each in budgets if _selects((each.get("spec") or {}).get("selector"), labels))
    return min(found, key=lambda each: str(each["metadata"]["name"]), default=None)


def template_labels(item: Object) -> Mapping[str, str]:
    """Of its pods."""
    return _metadata(template_of(item["spec"].get("template"))).get("labels") or {}


def _metadata(template: Object) -> Object:
    return template.get("metadata") or {}


def ordinal_of(item: Object, pod: Object) -> int | None:
    """The number of a StatefulSet's pod, from 0."""
    number = whole_number(labels_of(pod).get(POD_INDEX) or pod["metadata"]["name"].rpartition("-")[2])
    first = count_of((item["spec"].get("ordinals") or {}).get("start"), 0)
    return number - first if number is not None and number >= first else None


def _selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """A selector that is there and empty selects all pods."""
    return (
        selector is not None
        and all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
        and all(holds(each, labels) for each in selector.get("matchExpressions") or ())
    )


def _least(budget: Object, count: int) -> int:
    """How many of so many pods it keeps; at least 1, since without any there is nothing to run."""
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None:
        kept = _part(spec["minAvailable"], count)
    else:
        kept = count - _part(spec.get("maxUnavailable"), count)
    return max(1, min(kept, count))


def _part(value: object, count: int) -> int:
    """A number of pods, or a part of them as Kubernetes rounds it: up."""
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return -(-count * int(value.removesuffix("%")) // 100)
    return count_of(value, count)
