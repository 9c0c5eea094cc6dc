"""The scheduling snapshot: node resources and project usage, on which evictions and placements are tried and rolled back.

It is cached in `state.indices.snapshot` and updated incrementally with what the fold changed; it is not rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bailiff_core.model.state import PoolState
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.equivalence_classes import EquivalenceClasses
from bailiff_core.quota.resource_snapshot import ResourceSnapshot
from bailiff_core.quota.usage import Usage

if TYPE_CHECKING:
    from bailiff_core.placement.allocation_index import AllocationIndex

    from .completion_forecast import CompletionForecast

CHANGES_KEPT = 10_000


class SchedulingSnapshot(ResourceSnapshot):
    """Node resources, project usage, and the indices derived from them."""

    def __init__(self, state: PoolState, cluster: ClusterResources, usage: Usage) -> None:
        super().__init__(state, cluster, usage)
        self.policy = state.policy
        self._equivalence_classes: EquivalenceClasses | None = None
        self._stale_in_classes: dict[str, None] = {}  # jobs changed since `equivalence_classes` was last read
        self._allocation_index: AllocationIndex | None = None
        self._stale_in_index: dict[str, None] = {}  # jobs changed since `allocation_index` was last read
        self._completion_forecast: CompletionForecast | None = None
        self.version = 0  # raised each time that changes of the fold are taken over
        self.backfill_cache: tuple[object, object] | None = None  # cached result of Backfill, with its key
        self._stale_jobs: dict[str, None] = {}  # jobs and nodes changed since `completion_forecast` was last read
        self._stale_nodes: dict[int, None] = {}

    @property
    def equivalence_classes(self) -> EquivalenceClasses:
        """Active jobs by equivalence class, without trials; updated when read."""
        if self._equivalence_classes is None:
            self._equivalence_classes = EquivalenceClasses(self.state)
        elif self._stale_in_classes:
            self._equivalence_classes.refresh(self.state, self._stale_in_classes)
        self._stale_in_classes.clear()
        return self._equivalence_classes

    @property
    def allocation_index(self) -> AllocationIndex:
        """Allocations by node and priority, without trials; updated when read."""
        if self._allocation_index is None:
            from bailiff_core.placement.allocation_index import AllocationIndex  # loads numpy, which commands need seldom

            self._allocation_index = AllocationIndex.of_pool(self.state)
        elif self._stale_in_index:
            self._allocation_index.refresh(self.state, self._stale_in_index)
        self._stale_in_index.clear()
        return self._allocation_index

    @property
    def completion_forecast(self) -> CompletionForecast:
        """Expected completions of the running jobs; updated when read. Must be read while the snapshot contains no trial."""
        if self._completion_forecast is None:
            from .completion_forecast import CompletionForecast  # as above

            self._completion_forecast = CompletionForecast(self.state, self.cluster)
        else:
            self._completion_forecast.refresh(self._stale_jobs, self._stale_nodes)
        self._stale_jobs.clear()
        self._stale_nodes.clear()
        return self._completion_forecast

    def assume_evicted(self, jobs: dict[str, None]) -> None:
        """The completion forecast takes these jobs as gone, and no others."""
        indices = self.state.indices
        before = indices.assumed_evicted
        changed = [name for name in {**before, **jobs} if (name in before) != (name in jobs)]
        if changed:
            indices.assumed_evicted = jobs
            self._stale_jobs.update(dict.fromkeys(changed))
            indices.changed_ends.update(dict.fromkeys(changed))

    def refresh(self) -> None:
        """Roll back every trial and take over what the fold changed."""
        state = self.state
        self.version += 1
        self.cluster.refresh(state, state.indices.changed_nodes)
        self.usage.refresh(state, state.indices.changed_jobs)
        if self._equivalence_classes is not None:
            self._stale_in_classes.update(state.indices.changed_jobs)
        if self._allocation_index is not None:
            self._stale_in_index.update(state.indices.changed_jobs)
            if not self._allocation_index.covers(state.nodes[number] for number in state.indices.changed_nodes):
                self._allocation_index = None
        if self._completion_forecast is not None:
            self._stale_jobs.update(state.indices.changed_jobs)
            self._stale_nodes.update(state.indices.changed_nodes)
            if not self._completion_forecast.covers(state.nodes[number] for number in state.indices.changed_nodes):
                self._completion_forecast = None
        self.policy = state.policy
        if len(self._stale_in_classes) > CHANGES_KEPT:  # not read for a long time: bounds the lists of changes
            _ = self.equivalence_classes
        if len(self._stale_in_index) > CHANGES_KEPT:
            _ = self.allocation_index
        state.indices.changed_nodes.clear()
        state.indices.changed_jobs.clear()


def current_snapshot(state: PoolState) -> SchedulingSnapshot:
    """The pool's snapshot, up to date. Trials on it are rolled back when the pool changes."""
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
