"""Resource requests of pods, as the scheduler counts them."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from .model import PodResources

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
_QUANTITY = re.compile(r"^([0-9.]+(?:[eE][-+]?[0-9]+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_UNITS: dict[str | None, Decimal] = {
    None: Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** n for n, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** n for n, unit in enumerate("KMGTPE", 1)},
}


class BadPodSpec(Exception):
    """Why a pod's requests cannot be placed by Bailiff."""


def quantity(text: object) -> Decimal:
    """A Kubernetes quantity such as `500m`, `2` or `64Gi`. Raises `BadPodSpec`."""
    match = _QUANTITY.match(str(text))
    try:
        if match is None:
            raise InvalidOperation
        return Decimal(match[1]) * _UNITS[match[2]]
    except InvalidOperation:
        raise BadPodSpec(f"{text!r} is no quantity") from None


def pod_resources(spec: dict[str, Any]) -> PodResources:
    """Requests of a pod: of its containers together, at least of each init container, and its overhead. Raises `BadPodSpec`."""
    running: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or []:
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":  # a sidecar: it stays
            running = _sum(running, requests)
            requests = running
        else:
            requests = _sum(running, requests)
        peak = {name: max(peak.get(name, Decimal(0)), requests.get(name, Decimal(0))) for name in {**peak, **requests}}
    for container in spec.get("containers") or []:
        running = _sum(running, _requests(container))
    total = {name: max(running.get(name, Decimal(0)), peak.get(name, Decimal(0))) for name in {**running, **peak}}
    total = _sum(total, {name: quantity(value) for name, value in (spec.get("overhead") or {}).items()})
    return _counted(total)


def _counted(total: dict[str, Decimal]) -> PodResources:
    profiles = [(name.removeprefix(MIG), int(value)) for name, value in total.items() if name.startswith(MIG) and value]
    gpus = int(total.get(GPU, Decimal(0)))
    if len(profiles) > 1 or (profiles and gpus):
        raise BadPodSpec("a pod requests either whole GPUs or MIG devices of one profile")
    return PodResources(
        gpus, _up(total.get("cpu", Decimal(0)) * 1000), _up(total.get("memory", Decimal(0))), profiles[0] if profiles else None
    )


def _requests(container: dict[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    stated = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(value) for name, value in stated.items()}


def _sum(one: dict[str, Decimal], other: dict[str, Decimal]) -> dict[str, Decimal]:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in {**one, **other}}


def _up(value: Decimal) -> int:
    return int(-(-value // 1))
