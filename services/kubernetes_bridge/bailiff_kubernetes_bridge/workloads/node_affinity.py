"""Whether a node meets the node affinity that a pod requires, as kube-scheduler judges it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bailiff_core.humanize import shortened
from bailiff_kubernetes.quantities import whole_number
from bailiff_kubernetes.resources import Object, labels_of

MAX_TEXT = 300
NODE_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def required_terms(spec: Object) -> list[Object]:
    """The node selector terms of a pod, one of which its node must meet; empty: any node."""
    found = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(NODE_TERMS) or {}
    terms: list[Object] = found.get("nodeSelectorTerms") or []
    return terms


def meets(node: Object, terms: Sequence[Object]) -> bool:
    """Whether the node meets one of the terms. A term without requirements is met by none."""
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        bool(term.get("matchExpressions") or term.get("matchFields"))
        and all(holds(each, labels_of(node)) for each in term.get("matchExpressions") or ())
        and all(holds(each, fields) for each in term.get("matchFields") or ())
        for term in terms
    )


def terms_text(terms: Sequence[Object]) -> str:
    """`zone In [a, b]`: for people, cut where it is long."""
    each_term = (
        " and ".join(_text(each) for each in (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())))
        or "nothing"
        for term in terms
    )
    return shortened(" or ".join(each_term), MAX_TEXT)


def _text(requirement: Mapping[str, Any]) -> str:
    values = requirement.get("values") or ()
    return f"{requirement['key']} {requirement['operator']}" + (f" [{', '.join(values)}]" if values else "")


def holds(requirement: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    """Whether these labels, or fields, meet the requirement of a selector."""
    value = found.get(requirement["key"])
    values: Sequence[str] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _less(values[0], value)
        case "Lt":
            return _less(value, values[0])
        case _:  # of a later Kubernetes: kube-scheduler knows it
            return True


def _number(value: str | None) -> int | None:
    found = whole_number((value or "").removeprefix("-"))
    return -found if value is not None and found is not None and value.startswith("-") else found


def _less(one: str | None, other: str | None) -> bool:
    """Whether both are whole numbers, and the first is less: the API server takes a term with any text."""
    low, high = _number(one), _number(other)
    return low is not None and high is not None and low < high
