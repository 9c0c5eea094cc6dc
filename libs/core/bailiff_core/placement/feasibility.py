"""Feasibility check at submission: a gang that does not fit even on the empty pool is rejected."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.gpu_shares import share_problem
from bailiff_core.model.scheduling_class import scheduling_class_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import next_unit, sub_group_problem

from .cluster_resources import ClusterResources
from .gang import NoFit, place_unit
from .step_budget import StepBudget
from .topology_parts import topology_problem

STEPS = 2_000
CACHE_SIZE = 1_000


def could_ever_fit(state: PoolState, demand: JobDemand) -> str | None:
    """Why the gang's core can never run on the current nodes, even on an empty pool; `None` if it can or may.

    Unreachable nodes and unhealthy or quarantined devices count as available, as they may recover. Cached by scheduling
    class until nodes change.
    """
    scheduling_class = scheduling_class_of(demand)
    if scheduling_class not in state.indices.infeasible:
        if len(state.indices.infeasible) >= CACHE_SIZE:
            state.indices.infeasible.clear()
        state.indices.infeasible[scheduling_class] = _infeasible_reason(state, demand) or ""
    return state.indices.infeasible[scheduling_class] or None


def _infeasible_reason(state: PoolState, demand: JobDemand) -> str | None:
    problem = share_problem(demand) or sub_group_problem(demand) or topology_problem(demand, state.policy)
    if problem is not None:
        return problem
    unit = next_unit(Job(demand.job, 0, 0, demand, "", 0, True, True, ""))
    if unit is None:
        return "it has no task that could be placed"
    cluster = _empty_cluster(state)
    mark = cluster.mark()
    found = place_unit(cluster, unit, StepBudget(STEPS))
    cluster.rollback(mark)
    why = found.why if isinstance(found, NoFit) and found.kind == "impossible" else None
    return f"even on the empty pool: {why}" if why is not None else None


def _empty_cluster(state: PoolState) -> ClusterResources:
    """The pool without tasks; cached on the scheduling snapshot until nodes change."""
    cluster = state.indices.node_resources if state.indices.snapshot is not None else None
    if not isinstance(cluster, ClusterResources):
        return ClusterResources.of_empty_pool(state)
    if cluster.empty is None or not state.indices.infeasible:
        cluster.empty = ClusterResources.of_empty_pool(state)
    cluster.empty.policy = state.policy
    return cluster.empty
