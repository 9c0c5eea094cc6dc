"""Views of a placement, computed anew."""

from dataclasses import fields, replace

import numpy as np

from bailiff_core.model.state import PoolState
from bailiff_core.model.units import whole_job
from bailiff_core.placement.allocation_index import AllocationIndex, PriorityLevel
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.scheduling_snapshot import current_snapshot


def as_computed_anew(state: PoolState) -> None:
    """The snapshot, after all records so far, with one of the state alone."""
    snapshot = current_snapshot(state)
    fresh = ClusterResources.of(state)
    resources = {number: (node.unallocated, node.future, node.usable) for number, node in snapshot.cluster.nodes.items()}
    assert resources == {number: (node.unallocated, node.future, node.usable) for number, node in fresh.nodes.items()}
    assert list(resources) == list(fresh.nodes)
    assert list(snapshot.cluster.by_name()) == list(fresh.by_name())
    assert snapshot.cluster.largest_device() == fresh.largest_device()
    assert snapshot.cluster.labels == fresh.labels
    for name in state.active:
        unit = whole_job(state.jobs[name])
        kept, computed = ([(node.number, amount) for node, amount in of.allocation_of(unit)] for of in (snapshot.cluster, fresh))
        assert kept == computed, name
    kept_index, index = snapshot.allocation_index, AllocationIndex.of_pool(state)
    for of in (kept_index, index):  # an eviction costs no more work, whenever it started
        of.of.update({name: replace(job, since=0) for name, job in of.of.items() if job.group[0] == "evicting"})
    for one in ("of", "tasks", "gpus", "cpu_milli"):
        assert getattr(kept_index, one) == getattr(index, one), one
    assert {number: jobs for number, jobs in kept_index.on.items() if jobs} == {n: jobs for n, jobs in index.on.items() if jobs}
    assert kept_index.all_gpus.tolist() == index.all_gpus.tolist()
    for priority, kept_level in kept_index.levels.items():
        level = index.levels.get(priority) or PriorityLevel.empty(len(index.all_gpus), index.max_devices)
        for part in fields(level):
            one, other = getattr(kept_level, part.name), getattr(level, part.name)
            for row, gpus in enumerate(level.gpus.tolist()):  # what is behind the last GPU of a row has no meaning
                used = slice(gpus + 1) if part.name in ("jobs_for", "tasks_for", "least") else slice(None)
                assert np.array_equal(np.atleast_1d(one[row])[used], np.atleast_1d(other[row])[used]), part.name
