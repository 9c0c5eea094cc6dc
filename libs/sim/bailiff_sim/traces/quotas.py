"""Helios Venus (SC '21): daily GPU quotas of its virtual clusters over half a year."""

from collections.abc import Sequence

from bailiff_core.model.policy import Policy, Project
from bailiff_core.model.resource_vector import Bounds

from .rows import Row, shipped, table

DAY = 86_400_000_000


def venus(tenants: Sequence[str], gpus: int) -> list[tuple[int, dict[str, int]]]:
    """Returns (µs from the first day, quotas) for each day on which quotas change, scaled to `gpus`.

    tenants: largest first, matched with Venus' virtual clusters by size; those beyond its 25 get a quota of 0.
    """
    names: list[str] = []

    def day(row: Row) -> dict[str, int]:
        if not names:
            names.extend(name for name in row.values if name not in ("date", "total"))
        return {name: row.count(name) for name in names}

    days = table(shipped("helios-venus-quota", "cluster_gpu_number.csv"), ("date", "total"), day)
    mean = {name: sum(each[name] for each in days) for name in names}
    ranked = sorted(names, key=lambda name: (-mean[name], name))
    most = max(sum(each.values()) for each in days)
    found: list[tuple[int, dict[str, int]]] = []
    for number, each in enumerate(days):
        quotas = {tenant: each[name] * gpus // most for tenant, name in zip(tenants, ranked, strict=False)}
        quotas |= dict.fromkeys(tenants[len(ranked) :], 0)
        if not found or found[-1][1] != quotas:
            found.append((number * DAY, quotas))
    return found


def with_quotas(policy: Policy, quotas: dict[str, int]) -> Policy:
    """Returns the policy with these projects and quotas, in GPUs, and a project `default` for all other jobs."""
    projects = [Project(name=name, quota=Bounds(gpu_milli=1000 * gpus)) for name, gpus in quotas.items()]
    if "default" not in quotas:
        projects.append(Project(name="default"))
    return policy.model_copy(update={"projects": tuple(projects)})
