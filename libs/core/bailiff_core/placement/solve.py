"""Packs tasks of one or several requirements onto nodes: greedily first, then by search; or gives the reason for no fit."""

from dataclasses import replace

from .cluster_resources import ClusterResources
from .devices import find_devices
from .islands import choose_within_nodes, place_on_islands
from .packing import PlacementScope, TasksOnNode, fill_all
from .result import NoFit
from .search import find_packing
from .step_budget import StepBudget
from .task_requirements import TaskRequirements
from .unschedulable_reasons import unschedulable_reason


def pack(
    cluster: ClusterResources,
    wanted: dict[TaskRequirements, int],
    scope: PlacementScope,
    budget: StepBudget,
    *,
    future: bool,
    explain: bool = True,
) -> list[TasksOnNode] | NoFit:
    """Placements of `wanted` tasks, by requirements; `cluster` is unchanged. `why` of a refusal is set only with `explain`.

    One requirements: filling nodes in order is exact, because the tasks are interchangeable and nodes are independent
    of each other. Several: greedily, hardest first; if that fails, a search over all packings
    within the step budget. Islands are tried first, if the scope prefers them.
    """
    if scope.islands:
        preferred = None if future else place_on_islands(cluster, wanted, scope)
        if preferred is not None:
            return preferred
        found = pack(cluster, wanted, replace(scope, islands=False), budget, future=future, explain=explain)
        return found if isinstance(found, NoFit) else choose_within_nodes(cluster, found, future=future)
    order = sorted(wanted, key=hardest_first) if len(wanted) > 1 else list(wanted)
    mark = cluster.mark()
    chunks = fill_all(cluster, {need: wanted[need] for need in order}, scope, future=future)
    cluster.rollback(mark)
    if chunks is not None:
        return chunks
    if len(wanted) == 1 and not explain:
        return NoFit("impossible", "")
    why = unschedulable_reason(cluster, wanted, scope, future=future)
    if why is not None:
        return NoFit("impossible", why)
    ordered = [(need, wanted[need]) for need in order]
    packing = find_packing(cluster, ordered, scope, budget, future=future)
    if packing == "depends-on-devices":
        packing = find_devices(cluster, ordered, scope, budget, future=future)
    if isinstance(packing, list):
        return packing
    tasks = " and ".join(f"{count} × ({need})" for need, count in wanted.items())
    if packing == "impossible":
        return NoFit("impossible", f"each task type fits on its own, but {tasks} do not fit together")
    return NoFit("gave-up", f"found no placement for {tasks} together within the step budget")


def hardest_first(need: TaskRequirements) -> tuple[int, bool, int, int, int, int]:
    """Sort key of requirements for greedy placement."""
    # Fewer accepted models first: requirements that accept all of them take what remains.
    # Whole devices before shares, which may newly share a device when all shared ones are full.
    share = need.share_milli or need.share_bytes
    return (len(need.models) or 1 << 30, need.shared, -need.devices, -share, -need.cpu_milli, -need.memory_bytes)
