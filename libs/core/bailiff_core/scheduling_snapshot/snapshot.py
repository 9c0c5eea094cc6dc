"""The pool as trials see it: rooms of nodes and use of projects, on which to evict, to place, and to take all of it back.

The snapshot is kept in `pool.indices.snapshot` and brought up to date with what the fold changed; it is never rebuilt while it
stands.
"""

from bailiff_core.model.state import PoolState, Resources
from bailiff_core.placement.allocation_index import AllocationIndex
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.equivalence_classes import EquivalenceClasses
from bailiff_core.quota.resource_snapshot import ResourceSnapshot
from bailiff_core.quota.usage import Usage

from .completion_forecast import Endings

CHANGES_KEPT = 10_000


class SchedulingSnapshot(ResourceSnapshot):
    """Rooms and use together."""

    def __init__(self, state: PoolState, cluster: ClusterResources, usage: Usage) -> None:
        super().__init__(state, cluster, usage)
        self.policy = state.policy
        self._alike: EquivalenceClasses | None = None
        self._not_alike: dict[str, None] = {}  # jobs that changed since anybody asked who are alike
        self._holdings: AllocationIndex | None = None
        self._not_held: dict[str, None] = {}  # ... and since for the holdings
        self._endings: Endings | None = None
        self.version = 0  # of what it shows: the fold has changed something since the one before
        self.kept: tuple[object, dict[int, Resources], int | None] | None = None  # what Backfill found last, and for what
        self._jobs_since: dict[str, None] = {}  # ... and since for the endings
        self._nodes_since: dict[int, None] = {}

    @property
    def equivalence_classes(self) -> EquivalenceClasses:
        """Who holds room, by groups, as the pool is. Brought up to date when asked for."""
        if self._alike is None:
            self._alike = EquivalenceClasses(self.state)
        elif self._not_alike:
            self._alike.refresh(self.state, self._not_alike)
        self._not_alike.clear()
        return self._alike

    @property
    def allocation_index(self) -> AllocationIndex:
        """Who stands where, as the pool is: trials do not show in it. Brought up to date when asked for."""
        if self._holdings is None:
            self._holdings = AllocationIndex.of_pool(self.state)
        elif self._not_held:
            self._holdings.refresh(self.state, self._not_held)
        self._not_held.clear()
        return self._holdings

    @property
    def endings(self) -> Endings:
        """When who is taken to end, of the pool as it is, while no trial stands. Brought up to date when asked for."""
        if self._endings is None:
            self._endings = Endings(self.state, self.cluster)
        else:
            self._endings.refresh(self._jobs_since, self._nodes_since)
        self._jobs_since.clear()
        self._nodes_since.clear()
        return self._endings

    def refresh(self) -> None:
        """Take what the fold changed as it is now, and take back every trial."""
        state = self.state
        self.version += 1
        self.cluster.refresh(state, state.indices.changed_nodes)
        self.usage.refresh(state, state.indices.changed_jobs)
        if self._alike is not None:
            self._not_alike.update(state.indices.changed_jobs)
        if self._holdings is not None:
            self._not_held.update(state.indices.changed_jobs)
            if not self._holdings.covers(state.nodes[number] for number in state.indices.changed_nodes):
                self._holdings = None
        if self._endings is not None:
            self._jobs_since.update(state.indices.changed_jobs)
            self._nodes_since.update(state.indices.changed_nodes)
            if not self._endings.has_place_for(state.nodes[number] for number in state.indices.changed_nodes):
                self._endings = None
        self.policy = state.policy
        if len(self._not_alike) > CHANGES_KEPT:  # nobody asks for a long time
            _ = self.equivalence_classes
        if len(self._not_held) > CHANGES_KEPT:
            _ = self.allocation_index
        state.indices.changed_nodes.clear()
        state.indices.changed_jobs.clear()


def current_snapshot(state: PoolState) -> SchedulingSnapshot:
    """The pool's snapshot, up to date. Trials on it last until something in the pool changes."""
    indices = state.indices
    snapshot = indices.snapshot
    if not isinstance(snapshot, SchedulingSnapshot):
        snapshot = SchedulingSnapshot(state, ClusterResources.of(state), Usage.of(state))
        indices.snapshot, indices.node_resources = snapshot, snapshot.cluster
        indices.changed_nodes.clear()
        indices.changed_jobs.clear()
    if not indices.changed_nodes and not indices.changed_jobs and snapshot.policy is state.policy:
        return snapshot
    snapshot.refresh()
    return snapshot


def current_usage(state: PoolState) -> Usage:
    """Usage of the projects, trials included: bringing the snapshot up to date would roll them back."""
    snapshot = state.indices.snapshot
    if not isinstance(snapshot, SchedulingSnapshot) or state.indices.changed_jobs or state.indices.changed_nodes:
        return current_snapshot(state).usage
    return snapshot.usage
