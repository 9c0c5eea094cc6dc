"""Islands: GPUs of one node that NVLink, or one PCIe switch, connects. A job may prefer them; it never waits or evicts for one.

On free resources, nodes with a fitting island are tried before any others. Where resources are still releasing, the nodes stay
those of a placement without the preference, and no more releasing GPUs are taken: only the choice of GPUs within a node differs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import Job, PoolState

from .cluster_resources import ClusterResources, NodeResources, slots_for
from .node_scoring import lowest, node_rank
from .packing import PlacementScope, TasksOnNode, fill_all, take_chunk
from .result import TaskPlacement
from .task_requirements import TaskRequirements

Wanted = dict[TaskRequirements, int]
PER_TASK, NO_ISLAND = "per task", "none"


def prefers_islands(demand: JobDemand, policy: Policy | None) -> bool:
    """Whether the job's GPUs should be on one island."""
    return (demand.placement or (policy.placement if policy is not None else "any")) == "prefer nvlink"


def islands_used(state: PoolState, job: Job, places: Iterable[TaskPlacement]) -> str:
    """What the preference for an island came to: `NODE/ISLAND`, `per task` (one island for each), or `none`.

    Empty: the job does not prefer one, or these tasks have fewer than two whole GPUs.
    """
    if not prefers_islands(job.demand, state.policy):
        return ""
    needs = [(task, TaskRequirements.of(job.group(task.index))) for task in places]
    linked = [(task, need.gpus) for task, need in needs if _is_linked(need)]
    if sum(gpus for _, gpus in linked) < 2:
        return ""
    of_task = [(_islands_of(state, task), gpus) for task, gpus in linked]
    first = of_task[0][0]
    if _is_one(first) and all(islands == first for islands, _ in of_task):
        node, island = first[0]
        return f"{state.nodes[node].name}/{island}"
    several = [islands for islands, gpus in of_task if gpus > 1]
    return PER_TASK if several and all(map(_is_one, several)) else NO_ISLAND


def _islands_of(state: PoolState, task: TaskPlacement) -> tuple[tuple[int, str], ...]:
    """Node and island of each of the task's GPUs, each once."""
    devices = [device for device in state.nodes[task.node].devices if task.devices >> device.number & 1]
    return tuple(dict.fromkeys((task.node, device.island) for device in devices))


def _is_one(islands: tuple[tuple[int, str], ...]) -> bool:
    return len(islands) == 1 and islands[0][1] != ""


def place_on_islands(cluster: ClusterResources, wanted: Wanted, scope: PlacementScope) -> list[TasksOnNode] | None:
    """Free places with all GPUs on one island, else with those of each task on one; `None`: neither. `cluster` is unchanged."""
    linked = {need: count for need, count in wanted.items() if _is_linked(need)}
    others = {need: count for need, count in wanted.items() if need not in linked}
    mark = cluster.mark()
    for on_islands in _choices(cluster, linked, scope):
        elsewhere = fill_all(cluster, others, scope, future=False)
        cluster.rollback(mark)
        if elsewhere is not None:
            return on_islands + elsewhere
    return None


def _choices(cluster: ClusterResources, linked: Wanted, scope: PlacementScope) -> Iterator[list[TasksOnNode]]:
    """Placements of these tasks on islands. The resources of each are taken; roll back before the next."""
    mark = cluster.mark()
    gpus = sum(need.gpus * count for need, count in linked.items())
    if gpus > 1 and not (scope.spread and sum(linked.values()) > 1):
        found = _on_one_island(cluster, linked, gpus, scope)
        if found is not None:
            yield found
    if any(need.gpus > 1 for need in linked):
        found = []
        for need, count in sorted(linked.items(), key=lambda entry: -entry[0].gpus):
            chunks = _one_island_each(cluster, need, count, scope)
            if chunks is None:
                cluster.rollback(mark)
                return
            found += chunks
        yield found


def _on_one_island(cluster: ClusterResources, linked: Wanted, gpus: int, scope: PlacementScope) -> list[TasksOnNode] | None:
    """All of these tasks on the best island that takes them."""
    hardest = max(linked, key=lambda need: need.gpus)
    eligible_nodes = {need: dict(cluster.eligible_nodes(need)) for need in linked}
    for node, mask in _ranked(cluster, hardest, scope, gpus):
        mark = cluster.mark()
        chunks = []
        for need, count in linked.items():
            eligible = mask & eligible_nodes[need].get(node, 0)
            if slots_for(need, node, node.now(), eligible) < count:
                break
            chunks.append(take_chunk(cluster, need, node, eligible, count, future=False))
        else:
            return chunks
        cluster.rollback(mark)
    return None


def _one_island_each(
    cluster: ClusterResources, need: TaskRequirements, count: int, scope: PlacementScope
) -> list[TasksOnNode] | None:
    """Each of these tasks on an island of its own or of others of them."""
    chunks: list[TasksOnNode] = []
    while count:
        before = count
        for node, mask in _ranked(cluster, need, scope, need.gpus):
            fitting = min(count, 1 if scope.spread else count, slots_for(need, node, node.now(), mask))
            if fitting:
                chunks.append(take_chunk(cluster, need, node, mask, fitting, future=False))
                count -= fitting
                if not count or scope.spread:
                    break
        if count == before:
            return None
    return chunks


def _ranked(
    cluster: ClusterResources, need: TaskRequirements, scope: PlacementScope, gpus: int
) -> Iterator[tuple[NodeResources, int]]:
    """Islands with that many free GPUs that the task may use: the best node first, on it the island with the fewest free."""
    within = None if scope.within is None else dict.fromkeys(scope.within)
    found = []
    for node, eligible in cluster.eligible_nodes(need):
        if within is not None and node not in within:
            continue
        free = node.now().devices
        rank = node_rank(need, node.usable.bit_count(), free.bit_count(), 0, spread=scope.spread)
        for name, island in node.islands.items():
            count = (free & island & eligible).bit_count()
            if count >= gpus:
                found.append(((rank, node.name, node.number, count, name), node, island & eligible))
    yield from ((node, mask) for _, node, mask in sorted(found, key=lambda entry: entry[0]))


def choose_within_nodes(cluster: ClusterResources, chunks: list[TasksOnNode], *, future: bool) -> list[TasksOnNode]:
    """The same tasks on the same nodes, with GPUs chosen by island where possible; no more of them are still releasing."""
    taken: dict[NodeResources, int] = {}
    for chunk in chunks:
        for mask in chunk.masks:
            taken[chunk.node] = taken.get(chunk.node, 0) | mask
    found = []
    for chunk in chunks:
        if _is_linked(chunk.need) and chunk.node.islands:
            eligible = dict(cluster.eligible_nodes(chunk.need)).get(chunk.node, 0)
            own = sum(chunk.masks)
            free = (chunk.node.future if future else chunk.node.now()).devices
            masks = _chosen(chunk, eligible & (free & ~taken[chunk.node] | own))
            if masks is not None:
                taken[chunk.node] = taken[chunk.node] & ~own | sum(masks)
                chunk = replace(chunk, masks=masks)
        found.append(chunk)
    return found


def _chosen(chunk: TasksOnNode, usable: int) -> tuple[int, ...] | None:
    """Masks for the chunk's tasks among these GPUs; `None`: more of them would be releasing than before."""
    idle, islands, gpus = chunk.node.now().devices, chunk.node.islands, chunk.need.gpus
    most = sum((mask & ~idle).bit_count() for mask in chunk.masks)
    together = _best_island(islands.values(), usable, idle, gpus * len(chunk.masks))
    masks: list[int] = []
    for _ in chunk.masks:
        mask = lowest(together, gpus) if together else _best_island(islands.values(), usable, idle, gpus)
        mask = mask or _idle_first(usable, idle, gpus)
        masks.append(mask)
        usable, together = usable & ~mask, together & ~mask
    return tuple(masks) if sum((mask & ~idle).bit_count() for mask in masks) <= most else None


def _best_island(islands: Iterable[int], usable: int, idle: int, gpus: int) -> int:
    """That many usable GPUs of one island: with the fewest that are releasing, then of the fullest island; 0: there is none."""
    found = [(_idle_first(usable & island, idle, gpus), island) for island in islands if (usable & island).bit_count() >= gpus]
    ranked = [((mask & ~idle).bit_count(), (usable & island).bit_count(), mask & -mask, mask) for mask, island in found]
    return min(ranked)[-1] if ranked else 0


def _idle_first(usable: int, idle: int, gpus: int) -> int:
    mask = lowest(usable & idle, gpus)
    return mask | lowest(usable & ~idle, gpus - mask.bit_count())


def _is_linked(need: TaskRequirements) -> bool:
    """Whether it has whole GPUs, which an island connects. MIG devices and shares of GPUs are not linked."""
    return need.gpus > 0 and not need.profile
