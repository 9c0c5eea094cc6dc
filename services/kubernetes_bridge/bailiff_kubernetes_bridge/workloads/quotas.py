"""Whether a namespace's quota permits the pods that a controller has not made yet."""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from bailiff_kubernetes.quantities import exactly
from bailiff_kubernetes.resources import Object

from .model import Pod, Workload
from .quantities import GPU, MIG

NAMES = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
"""Other words of a quota for the same."""


def forbids(quotas: Iterable[Object], workload: Workload, pods: Sequence[Pod]) -> str:
    """Which quota of its namespace leaves too little for its later pods, for people; empty: none does.

    Those that are there are counted in it already. A quota with scopes is for some pods only: the API server judges it.
    """
    later = _later(workload, pods)
    for quota in quotas:
        if (quota.get("spec") or {}).get("scopes") or (quota.get("spec") or {}).get("scopeSelector"):
            continue
        status = quota.get("status") or {}
        for word, hard in (status.get("hard") or {}).items():
            left = max(Decimal(0), exactly(hard) - exactly((status.get("used") or {}).get(word, "0")))
            if (needs := later.get(NAMES.get(word, word), Decimal(0))) > left:
                what = f"leaves {left.normalize():f} of {word}, and the pods that it makes later need {needs.normalize():f}"
                return f"the quota {quota['metadata']['name']} {what}"
    return ""


def _later(workload: Workload, pods: Sequence[Pod]) -> dict[str, Decimal]:
    """What pods request that are not there yet."""
    there = Counter(pod.role for pod in pods if not pod.finished or pod.succeeded)
    found: dict[str, Decimal] = {}
    for role in workload.roles:
        missing, needs = max(0, role.count - there[role.name]), role.resources
        amounts = {
            "pods": Decimal(1),
            "requests.cpu": Decimal(needs.cpu_milli) / 1000,
            "requests.memory": Decimal(needs.memory_bytes),
            f"requests.{GPU}": Decimal(needs.gpus),
            **({f"requests.{MIG}{needs.mig[0]}": Decimal(needs.mig[1])} if needs.mig else {}),
        }
        for name, amount in amounts.items():
            found[name] = found.get(name, Decimal(0)) + missing * amount
    return found
