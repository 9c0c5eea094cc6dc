"""Quantities of the API, such as `500m`, `1Gi` or `2e3`, and what a pod requests of a node, as kube-scheduler counts it."""

import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

_UNITS = {
    "": Decimal(1),
    "n": Decimal(1).scaleb(-9),
    "u": Decimal(1).scaleb(-6),
    "m": Decimal(1).scaleb(-3),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}

MAX_DIGITS = 18  # of a whole number: the API has 64 bits, and Python converts no more than 4,300

Requests = dict[str, Decimal]
"""By resource; CPU in cores, memory in bytes."""


def whole_number(text: object) -> int | None:
    """A whole number that a user may have written, in an annotation or a selector; None for anything else."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= MAX_DIGITS else None


def exactly(text: object) -> Decimal:
    """The quantity as it stands. Raises `ValueError`."""
    written = str(text).strip()
    number = written.rstrip("EKMGTPiknum")
    unit = written[len(number) :]
    if unit not in _UNITS:
        raise ValueError(f"{written!r} is not a quantity")
    try:
        return Decimal(number) * _UNITS[unit]
    except InvalidOperation:
        raise ValueError(f"{written!r} is not a quantity") from None


def quantity(text: object, *, scale: int = 1) -> int:
    """The quantity times `scale`, rounded up as the API does: `quantity("500m", scale=1000)` is 500. Raises `ValueError`."""
    return math.ceil(exactly(text) * scale)


def pod_requests(spec: Mapping[str, Any]) -> Requests:
    """Of its containers and sidecars, at least of each init container beside the sidecars before it, and its overhead.

    What the pod itself requests of CPU and memory stands for that of its containers. Raises `ValueError`.
    """
    running: Requests = {}
    peak: Requests = {}
    for container in spec.get("initContainers") or ():
        requests = _sum(running, _requests(container))
        if container.get("restartPolicy") == "Always":  # a sidecar: it stays
            running = requests
        peak = _most(peak, requests)
    for container in spec.get("containers") or ():
        running = _sum(running, _requests(container))
    total = _most(running, peak)
    stated = spec.get("resources") or {}
    limits, own = ({name: exactly(value) for name, value in (stated.get(kind) or {}).items()} for kind in ("limits", "requests"))
    total = {**limits, **total, **own}
    return _sum(total, {name: exactly(value) for name, value in (spec.get("overhead") or {}).items()})


def _requests(container: Mapping[str, Any]) -> Requests:
    resources = container.get("resources") or {}
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: exactly(value) for name, value in stated.items()}


def _sum(one: Requests, other: Requests) -> Requests:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in {**one, **other}}


def _most(one: Requests, other: Requests) -> Requests:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in {**one, **other}}
