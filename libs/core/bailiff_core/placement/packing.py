"""Greedy packing of equal tasks onto nodes, best node first (docs/concepts/semantics/placement.md)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bailiff_core.model.state import Resources

from .cluster_resources import ClusterResources, NodeResources
from .node_index import index_for
from .node_scoring import Offer, choose_devices, lowest, offer_of, offers_of, shared_gpu_rank
from .task_requirements import NodeSelector, TaskRequirements


@dataclass(frozen=True, slots=True)
class TasksOnNode:
    """Equal tasks on one node: the device mask of each.

    Attributes:
        future: Some of the resources are still releasing.
    """

    need: TaskRequirements
    node: NodeResources
    masks: tuple[int, ...]
    future: bool


@dataclass(frozen=True, slots=True)
class PlacementScope:
    """Nodes that tasks may use.

    Attributes:
        within: Only these nodes; None: all.
        labels: Node labels that select the same nodes.
        spread: Do not pack.
        islands: Prefer GPUs of one island (`islands.py`).
    """

    within: Sequence[NodeResources] | None = None
    labels: tuple[tuple[str, str], ...] = ()
    spread: bool = False
    islands: bool = False

    def selector(self, need: TaskRequirements) -> NodeSelector:
        """The requirements' node selector, narrowed to the labels of this scope."""
        if not self.labels:
            return need.selector
        return need.selector._replace(labels=tuple(sorted(dict.fromkeys(need.labels + self.labels))))


ANYWHERE = PlacementScope()
MAX_SCANNED = 64


def offers(cluster: ClusterResources, need: TaskRequirements, scope: PlacementScope, *, future: bool) -> Iterator[Offer]:
    """Nodes that fit a task, best first. The order is that of the call, even if resources change meanwhile."""
    eligible = _nodes_to_scan(cluster, need, scope)
    if eligible is None:
        return index_for(cluster, scope.selector(need)).offers(need, future=future, spread=scope.spread)
    return iter(offers_of(need, eligible, future=future, spread=scope.spread))


def capacity(cluster: ClusterResources, need: TaskRequirements, scope: PlacementScope, *, future: bool) -> int:
    """Number of tasks with these requirements that fit."""
    return sum(offer.count for offer in offers(cluster, need, scope, future=future))


def has_capacity(cluster: ClusterResources, need: TaskRequirements, wanted: int, scope: PlacementScope, *, future: bool) -> bool:
    """Whether `wanted` tasks of these requirements fit on their own."""
    for offer in offers(cluster, need, scope, future=future):
        wanted -= offer.count
        if wanted <= 0:
            return True
    return False


def fill_all(
    cluster: ClusterResources, wanted: Mapping[TaskRequirements, int], scope: PlacementScope = ANYWHERE, *, future: bool
) -> list[TasksOnNode] | None:
    """`fill` for each of these requirements, in their order; `None` if one does not fit (then roll back)."""
    chunks: list[TasksOnNode] = []
    for need, count in wanted.items():
        found = fill(cluster, need, count, scope, future=future)
        if found is None:
            return None
        chunks += found
    return chunks


def fill(
    cluster: ClusterResources, need: TaskRequirements, wanted: int, scope: PlacementScope = ANYWHERE, *, future: bool
) -> list[TasksOnNode] | None:
    """Take resources for `wanted` tasks; `None` if they do not fit (then roll back). Releasing ones only with `future`.

    Free resources are used before releasing ones. Tasks that share GPUs wait for a GPU that is shared already rather than
    newly share another.
    """
    if not (future or need.shared or scope.spread):
        return _fill_free(cluster, need, wanted, scope)
    if (wanted > 1 or need.shared) and not has_capacity(cluster, need, wanted, scope, future=future or need.shared):
        return None
    if need.shared:
        mark = cluster.mark()
        found = _fill_shared(cluster, need, wanted, scope, future=future)
        if found is None and future:
            cluster.rollback(mark)
            found = _fill_future(cluster, need, wanted, scope)
        return found
    chunks = []
    for from_future in (False, True) if future else (False,):
        while wanted:
            # Binpack: a node that got a task has fewer free GPUs than before and so remains the first choice until it is
            # full; filling node by node equals placing task by task. Spread: the choice is made for each task.
            taken = 0
            for offer in offers(cluster, need, scope, future=from_future):
                count = 1 if scope.spread else min(offer.count, wanted)
                chunks.append(take_chunk(cluster, need, offer.node, offer.devices, count, future=from_future))
                taken, wanted = taken + count, wanted - count
                if not wanted or scope.spread:
                    break
            if not taken or not scope.spread:
                break
        if not wanted:
            return chunks
    return None


def _fill_free(cluster: ClusterResources, need: TaskRequirements, wanted: int, scope: PlacementScope) -> list[TasksOnNode] | None:
    """`fill` for whole devices, free now, binpack: checks that all tasks fit before any resources are taken."""
    found: list[tuple[Offer, int]] = []
    for offer in offers(cluster, need, scope, future=False):
        count = min(offer.count, wanted)
        found.append((offer, count))
        wanted -= count
        if not wanted:
            return [take_chunk(cluster, need, offer.node, offer.devices, count, future=False) for offer, count in found]
    return None


def take_chunk(
    cluster: ClusterResources,
    need: TaskRequirements,
    node: NodeResources,
    eligible: int,
    count: int,
    *,
    future: bool,
    task_count: int = 0,
) -> TasksOnNode:
    """Take resources for `count` tasks that fit on the node: devices that are free now first, then the lowest numbers.

    Args:
        task_count: Number of tasks that will be placed on this node in total.
    """
    if need.shared:
        masks = choose_devices(need, node, eligible, count, future=future, task_count=task_count)
        needs_releasing = False
        for mask in masks:
            needs_releasing = _take(cluster, node, need.amount(node.units, mask)) or needs_releasing
        return TasksOnNode(need, node, tuple(masks), needs_releasing)
    idle = node.now().devices & eligible
    releasing = node.future.devices & eligible & ~idle
    devices = lowest(idle, need.gpus * count)
    devices |= lowest(releasing, need.gpus * count - devices.bit_count())
    amount = Resources(devices, need.cpu_milli * count, need.memory_bytes * count, count)
    needs_releasing = _take(cluster, node, amount)
    if count == 1:
        return TasksOnNode(need, node, (devices,), needs_releasing)
    masks = []
    for _ in range(count):
        task_devices = lowest(devices, need.gpus)
        devices &= ~task_devices
        masks.append(task_devices)
    return TasksOnNode(need, node, tuple(masks), needs_releasing)


def take_devices(cluster: ClusterResources, need: TaskRequirements, node: NodeResources, mask: int) -> TasksOnNode:
    """Take resources for one task on exactly these devices of the node."""
    return TasksOnNode(need, node, (mask,), _take(cluster, node, need.amount(node.units, mask)))


def _take(cluster: ClusterResources, node: NodeResources, amount: Resources) -> bool:
    """Take the resources; returns whether some of them are still releasing."""
    needs_releasing = not node.fits_now(amount)
    cluster.take(node, amount, future=needs_releasing)
    return needs_releasing


def _fill_shared(
    cluster: ClusterResources, need: TaskRequirements, wanted: int, scope: PlacementScope, *, future: bool
) -> list[TasksOnNode] | None:
    chunks: list[TasksOnNode] = []
    while wanted:
        found = _best_shared_gpu_node(cluster, need, scope)
        from_future = found is not None
        if found is None:
            found = next(offers(cluster, need, scope, future=False), None)
        if found is None and future:
            found, from_future = next(offers(cluster, need, scope, future=True), None), True
        if found is None:
            return None
        task_count = min(found.count, wanted)
        chunks.append(take_chunk(cluster, need, found.node, found.devices, 1, future=from_future, task_count=task_count))
        wanted -= 1
    return chunks


def _fill_future(cluster: ClusterResources, need: TaskRequirements, wanted: int, scope: PlacementScope) -> list[TasksOnNode]:
    """Fallback if preferring free resources fails: use only future free resources, for which counting is exact."""
    chunks = []
    for offer in offers(cluster, need, scope, future=True):
        chunks.append(take_chunk(cluster, need, offer.node, offer.devices, min(offer.count, wanted), future=True))
        wanted -= len(chunks[-1].masks)
        if not wanted:
            break
    return chunks


def _best_shared_gpu_node(cluster: ClusterResources, need: TaskRequirements, scope: PlacementScope) -> Offer | None:
    """The best node with a GPU that is shared already and takes the task, even if that resource is still releasing."""
    to_scan = _nodes_to_scan(cluster, need, scope)
    if to_scan is None:
        return index_for(cluster, scope.selector(need)).best_shared_gpu_node(need, spread=scope.spread)
    ranked = [(shared_gpu_rank(need, node, eligible, spread=scope.spread), node, eligible) for node, eligible in to_scan]
    ranked_nodes = [(key, node, eligible) for key, node, eligible in ranked if key is not None]
    if not ranked_nodes:
        return None
    _, node, eligible = min(ranked_nodes, key=lambda entry: entry[0])
    return offer_of(need, node, eligible, future=True)


def _nodes_to_scan(
    cluster: ClusterResources, need: TaskRequirements, scope: PlacementScope
) -> list[tuple[NodeResources, int]] | None:
    """Nodes to scan if there are at most `MAX_SCANNED`; `None`: use the index."""
    if need.nodes:
        found = cluster.eligible_nodes(need)
        if scope.within is None:
            return found
        nodes_in_scope = dict.fromkeys(scope.within)
        return [(node, eligible) for node, eligible in found if node in nodes_in_scope]
    if scope.within is None or (scope.labels and len(scope.within) > MAX_SCANNED):
        return None
    admitted = (node for node in scope.within if need.selector.admits(node.name, node.labels))
    return [(node, node.devices_of(need.models, need.profile)) for node in admitted]
