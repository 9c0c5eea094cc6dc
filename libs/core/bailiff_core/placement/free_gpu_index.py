"""Index of free GPUs on the nodes that match given task requirements, as arrays, updated incrementally."""

import numpy as np

from .allocation_index import Ints
from .cluster_resources import ClusterResources, eligible_key
from .task_requirements import TaskRequirements

CACHE_SIZE = 64


class FreeGpuIndex:
    """devices: matching GPUs of each node. free: number of them that are free or releasing. rows: node numbers.

    Positions in the arrays are those in `ClusterResources.eligible_nodes`.
    """

    def __init__(self, cluster: ClusterResources, need: TaskRequirements) -> None:
        self.eligible_nodes = cluster.eligible_nodes(need)
        self.rows: Ints = np.fromiter((node.number for node, _ in self.eligible_nodes), np.int64, len(self.eligible_nodes))
        free = ((node.future.devices & devices).bit_count() for node, devices in self.eligible_nodes)
        self.free: Ints = np.fromiter(free, np.int64, len(self.eligible_nodes))
        self.devices: Ints = np.fromiter(
            (devices.bit_count() for _, devices in self.eligible_nodes), np.int64, len(self.eligible_nodes)
        )
        self.place_of = {node.number: position for position, (node, _) in enumerate(self.eligible_nodes)}
        self.seen = len(cluster.changed)
        self._cluster = cluster

    def refresh(self) -> None:
        """Process nodes that changed since the last call."""
        for node in dict.fromkeys(self._cluster.changed[self.seen :]):
            position = self.place_of.get(node.number)
            if position is not None and self.eligible_nodes[position][0] is node:
                self.free[position] = (node.future.devices & self.eligible_nodes[position][1]).bit_count()
        self.seen = len(self._cluster.changed)


def free_gpu_index_of(cluster: ClusterResources, need: TaskRequirements) -> FreeGpuIndex:
    """The index for these requirements, up to date."""
    eligible, views, key = cluster.eligible_nodes(need), cluster.views(FreeGpuIndex), eligible_key(need)
    found = views.get(key)
    if found is None or found.eligible_nodes is not eligible:
        if len(views) >= CACHE_SIZE:
            views.clear()
        found = views[key] = FreeGpuIndex(cluster, need)
    found.refresh()
    return found
