"""Index of the nodes that match a selector, bucketed by free resources: finds the best node for a task quickly.

A cycle over thousands of jobs looks up the best node for each, and each placement changes one node: only nodes that changed
since the last lookup are updated, and nodes are visited only until one fits.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import merge

from bailiff_core.model.state import Resources

from .cluster_resources import ClusterResources, NodeResources
from .node_scoring import Offer, node_rank, offer_of, shared_gpu_rank
from .task_requirements import NodeSelector, TaskRequirements

INDEX_CACHE_SIZE = 32
ORDER_CACHE_SIZE = 16
Entry = tuple[str, NodeResources]
# devices, free devices, free matching devices, bit lengths of free CPU and memory
FreeShape = tuple[int, int, int, int, int]


class NodeIndex:
    """Nodes that match one selector, by resources free now and free in future. seen: number of changes processed."""

    def __init__(self, cluster: ClusterResources, selector: NodeSelector) -> None:
        self._cluster, self._selector = cluster, selector
        self._eligible: dict[NodeResources, int] = {}
        self._now, self._future = _Buckets(), _Buckets()
        self._sharing: dict[NodeResources, None] = {}
        # `future` of the nodes in the buckets: replaced with every change; a rollback restores the same object
        self._indexed: dict[NodeResources, Resources] = {}
        self._orders: dict[tuple[TaskRequirements, bool], _SharedGpuOrder] = {}
        self.seen = len(cluster.changed)
        for node in cluster.by_name().values():
            self._update(node)

    def refresh(self) -> None:
        """Process nodes that changed since the last call."""
        for node in dict.fromkeys(self._cluster.changed[self.seen :]):
            self._update(node)
        self.seen = len(self._cluster.changed)

    def offers(self, need: TaskRequirements, *, future: bool, spread: bool) -> Iterator[Offer]:
        """Nodes on which a task fits, best first. The order is that of the call, even if resources change meanwhile.

        Nodes on which it fits only on GPUs that are shared already come last (`best_shared_gpu_node` ranks those).
        """
        buckets = (self._future if future else self._now).lists
        best: dict[tuple[int, ...], list[list[Entry]]] = {}
        cpu_class, memory_class = need.cpu_milli.bit_length(), need.memory_bytes.bit_length()
        for shape, entries in buckets.items():
            devices, free, eligible, cpu, memory = shape
            # Amounts are in buckets by their number of bits: a lower bucket cannot suffice, an equal one may (`offer_of`).
            if eligible >= need.devices and cpu >= cpu_class and memory >= memory_class:
                key = node_rank(need, devices, free, -cpu if spread and not need.devices else 0, spread=spread)
                best.setdefault(key, []).append(entries)
        for key in sorted(best):
            lists = best[key]
            # Copies: what the caller takes moves nodes to other buckets.
            in_order = lists[0][:] if len(lists) == 1 else merge(*(entries[:] for entries in lists))
            found = (offer_of(need, node, self._eligible[node], future=future) for _, node in in_order)
            if spread and not need.devices:
                yield from sorted((offer for offer in found if offer), key=lambda offer: -offer.free_cpu(future=future))
            else:
                yield from (offer for offer in found if offer)

        for node in sorted(self._sharing, key=lambda node: node.name) if need.shared else ():
            free_resources, eligible = node.future if future else node.now(), self._eligible[node]
            if (free_resources.devices & eligible).bit_count() < need.devices:
                offer = offer_of(need, node, eligible, future=future)
                if offer is not None:
                    yield offer

    def best_shared_gpu_node(self, need: TaskRequirements, *, spread: bool) -> Offer | None:
        """The best node with a GPU that is shared already and takes the task, even if that resource is still releasing."""
        order = self._orders.pop((need, spread), None)
        if order is None:
            order = _SharedGpuOrder(need, spread=spread)
            order.stale.update(self._sharing)
            if len(self._orders) >= ORDER_CACHE_SIZE:
                del self._orders[next(iter(self._orders))]
        self._orders[need, spread] = order
        node = order.best(self._eligible)
        return None if node is None else offer_of(need, node, self._eligible[node], future=True)

    def _update(self, node: NodeResources) -> None:
        if node.removed:
            self._eligible.pop(node, None)
            self._sharing.pop(node, None)
            self._indexed.pop(node, None)
            self._now.set(node, None)
            self._future.set(node, None)
            for order in self._orders.values():
                order.stale[node] = None
            return
        eligible = self._eligible.get(node)
        if eligible is None:
            if not self._selector.admits(node.name, node.labels):
                return
            eligible = self._eligible[node] = node.devices_of(self._selector.models, self._selector.profile)
        if self._indexed.get(node) is not node.future:
            self._indexed[node] = node.future
            self._now.set(node, _free_shape(node, node.now(), eligible))
            self._future.set(node, _free_shape(node, node.future, eligible))
        if node.unallocated.shares or node.future.shares:
            self._sharing[node] = None
        elif node in self._sharing:
            del self._sharing[node]
        else:
            return
        for order in self._orders.values():
            order.stale[node] = None


class _Buckets:
    """Nodes by free shape; within each sorted by name."""

    def __init__(self) -> None:
        self.lists: dict[FreeShape, list[Entry]] = {}
        self._shape_of: dict[NodeResources, FreeShape] = {}

    def set(self, node: NodeResources, shape: FreeShape | None) -> None:
        """Set the node's shape; `None`: no task fits."""
        before = self._shape_of.get(node)
        if before == shape:
            return
        entry = (node.name, node)
        if before is not None:
            entries = self.lists[before]
            del entries[bisect_left(entries, (node.name,))]
            if not entries:
                del self.lists[before]
            del self._shape_of[node]
        if shape is not None:
            entries = self.lists.setdefault(shape, [])
            entries.insert(bisect_left(entries, (node.name,)), entry)
            self._shape_of[node] = shape


class _SharedGpuOrder:
    """For one requirements, nodes with a shared GPU that takes it, best first. stale: nodes to rank again."""

    def __init__(self, need: TaskRequirements, *, spread: bool) -> None:
        self._need, self._spread = need, spread
        self._ranks: dict[NodeResources, tuple[object, ...]] = {}
        self._order: list[tuple[tuple[object, ...], NodeResources]] = []
        self.stale: dict[NodeResources, None] = {}

    def best(self, eligible: Mapping[NodeResources, int]) -> NodeResources | None:
        """The best node, or None."""
        for node in self.stale:
            before = self._ranks.pop(node, None)
            if before is not None:
                del self._order[bisect_left(self._order, before, key=_rank)]
            key = shared_gpu_rank(self._need, node, eligible[node], spread=self._spread) if node in eligible else None
            if key is not None:
                self._ranks[node] = key
                insort(self._order, (key, node), key=_rank)
        self.stale.clear()
        return self._order[0][1] if self._order else None


def _rank(entry: tuple[tuple[object, ...], NodeResources]) -> tuple[object, ...]:
    return entry[0]


def _free_shape(node: NodeResources, free: Resources, eligible: int) -> FreeShape:
    return (
        node.usable.bit_count(),
        free.devices.bit_count(),
        (free.devices & eligible).bit_count(),
        max(0, free.cpu_milli).bit_length(),
        max(0, free.memory_bytes).bit_length(),
    )


def index_for(cluster: ClusterResources, selector: NodeSelector) -> NodeIndex:
    """The index for this selector, up to date. The most recently used ones are cached."""
    indices = cluster.views(NodeIndex)
    index = indices.pop(selector, None)
    if index is None:
        index = NodeIndex(cluster, selector)
        if len(indices) >= INDEX_CACHE_SIZE:
            del indices[next(iter(indices))]
    else:
        index.refresh()
    indices[selector] = index
    return index
