"""Samples of project usage against quota, limit and fair share, as rows of the archive's `project_usage` table."""

from dataclasses import dataclass
from typing import Any

from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.model.state import PoolState
from bailiff_core.queue.order import shares_now
from bailiff_core.records import Record
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_core.scheduling_snapshot import current_snapshot

USAGE_COLUMNS = (
    "pool", "seq", "project", "time", "used_gpu_milli", "non_preemptible_gpu_milli", "requested_gpu_milli", "quota_gpu_milli",
    "limit_gpu_milli", "share_gpu_milli", "used_cpu_milli", "used_memory_bytes",
)  # fmt: skip


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


def rows_of(state: PoolState, pool: int, seq: int, time: int) -> list[tuple[Any, ...]]:
    """One row per project, and one for the whole pool, in the order of `USAGE_COLUMNS`."""
    snapshot = current_snapshot(state)
    usage, shares = snapshot.usage, shares_now(snapshot)
    at = EPOCH_START + time * MICROSECOND
    rows = []
    for name, branch in usage.tree.branches.items():
        used, share = usage.allocated(name), shares.get(name)
        rows.append((
            pool, seq, name, at, int(used.gpu_milli), int(usage.non_preemptible(name).gpu_milli),
            int(usage.requested(name).gpu_milli), _bound(branch.quota.gpu_milli), _bound(branch.limit.gpu_milli),
            int(share.gpu_milli) if share is not None else 0, int(used.cpu_milli), int(used.memory_bytes),
        ))  # fmt: skip
    return rows


def _bound(amount: Any) -> int | None:
    return None if amount == UNLIMITED else int(amount)
