"""Samples of project usage against quota, limit and fair share, as rows of the archive's `project_usage` table."""

from dataclasses import dataclass
from typing import Any

from bailiff_core.model.gpu_kinds import FIRST
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_core.scheduling_snapshot import current_snapshot

AMOUNTS = ("used", "non_preemptible", "requested", "quota", "quota_in_force", "limit", "fair_share", "past_use")
"""Each with thousandths of GPUs, thousandths of CPUs and bytes of memory; null: unlimited."""
USAGE_COLUMNS = ("pool", "seq", "project", "time", *AMOUNTS)
USAGE_NAMES = ", ".join(f'"{name}"' for name in USAGE_COLUMNS)  # quoted, as limit is a word of SQL


@dataclass(slots=True)
class UsageSchedule:
    """When a sample is due: at the first decision cycle that ends in each interval, µs of log time.

    last: index of the interval of the newest sample.
    """

    interval: int
    last: int = -1

    def at(self, state: PoolState, record: Record) -> bool:
        """Whether a sample is due after this record; if so, the next is due in a later interval. state: after the record."""
        index = record.time // self.interval
        if not record.cycle_end or index <= self.last or state.policy is None:
            return False
        self.last = index
        return True


def project_usage(state: PoolState) -> dict[str, dict[str, list[int | None]]]:
    """The amounts of each project, of jobs without one (`*`), and of the whole pool (the empty name)."""
    snapshot = current_snapshot(state)
    usage = snapshot.usage
    return {
        name: {
            "used": _listed(usage.allocated(name)),
            "non_preemptible": _listed(usage.non_preemptible(name)),
            "requested": _listed(usage.requested(name)),
            "quota": _listed(usage.entitlements[name].full),
            "quota_in_force": _listed(usage.entitlements[name].quota),
            "limit": _listed(branch.limit),
            "fair_share": _listed(usage.entitlements[name].share if name else usage.schedulable),
            "past_use": _listed(usage.past_use(name)),
        }
        for name, branch in usage.tree.branches.items()
    }


def usage_by_kind(state: PoolState) -> dict[str, dict[str, dict[str, int | None]]]:
    """By project as in `project_usage`, and by kind of GPU that the policy names: amounts, thousandths; null: unlimited."""
    usage = current_snapshot(state).usage
    found: dict[str, dict[str, dict[str, int | None]]] = {}
    for name, branch in usage.tree.branches.items():
        entitled = usage.entitlements[name]
        found[name] = {}
        for at, kind in enumerate(usage.tree.kinds, start=FIRST):
            amounts = {
                "used": usage.allocated(name).amount(at),
                "quota": entitled.full.bound(at),
                "quota_in_force": entitled.quota.bound(at),
                "limit": branch.limit.bound(at),
                "fair_share": (entitled.share if name else usage.schedulable).amount(at),
            }
            found[name][kind] = {each: None if amount == UNLIMITED else int(amount) for each, amount in amounts.items()}
    return found


def rows_of(state: PoolState, pool: int, seq: int, time: int) -> list[tuple[Any, ...]]:
    """One row per project, and one for the whole pool, in the order of `USAGE_COLUMNS`."""
    at = EPOCH_START + time * MICROSECOND
    return [(pool, seq, name, at, *amounts.values()) for name, amounts in project_usage(state).items()]


def _listed(amounts: ResourceVector) -> list[int | None]:
    return [None if amount == UNLIMITED else int(amount) for amount in amounts[:3]]
