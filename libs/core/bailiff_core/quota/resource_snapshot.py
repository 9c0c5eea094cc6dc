"""Snapshot of node resources and project usage, on which evictions and placements are tried and rolled back."""

from bailiff_core.model.state import PoolState
from bailiff_core.model.units import Unit
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import GangPlacement

from .usage import Usage

Mark = tuple[int, int]


class ResourceSnapshot:
    """Resources of the nodes (`cluster`) and usage of the projects (`usage`), changed together."""

    def __init__(self, state: PoolState, cluster: ClusterResources, usage: Usage) -> None:
        self.state = state
        self.cluster = cluster
        self.usage = usage

    def mark(self) -> Mark:
        """A savepoint for `rollback`."""
        return self.cluster.mark(), self.usage.mark()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since `mark`."""
        self.cluster.rollback(mark[0])
        self.usage.rollback(mark[1])

    def evict(self, unit: Unit) -> None:
        """Simulate the unit's eviction: its resources are releasing and no longer part of its project's usage."""
        self.cluster.evict(unit)
        self.usage.evict(unit)

    def restore(self, unit: Unit) -> None:
        """Undo `evict` of this unit."""
        self.cluster.restore(unit)
        self.usage.restore(unit)

    def place(self, unit: Unit, place: GangPlacement) -> None:
        """Allocate the resources of the placement."""
        self.cluster.place(unit, place)
        self.usage.place(unit, place)
