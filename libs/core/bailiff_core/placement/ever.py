"""Whether a gang could stand on the pool if nobody else were there."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.shape import shape_of
from bailiff_core.model.sharing import share_problem
from bailiff_core.model.units import next_unit, sub_group_problem

from .budget import Budget
from .gang import NoFit, place_unit
from .parts import topology_problem
from .rooms import Rooms

STEPS = 2_000
SHAPES_KEPT = 1_000


def could_ever_fit(pool: Pool, demand: JobDemand) -> str | None:
    """Why the gang's core could never run on the nodes as they are, even on an empty pool; `None` if it could or may.

    Silent nodes and sick or quarantined devices count as good: they may come back. The answer is kept by shape until
    nodes change.
    """
    shape = shape_of(demand)
    if shape not in pool.ever_fits:
        if len(pool.ever_fits) >= SHAPES_KEPT:
            pool.ever_fits.clear()
        pool.ever_fits[shape] = _obstacle(pool, demand) or ""
    return pool.ever_fits[shape] or None


def _obstacle(pool: Pool, demand: JobDemand) -> str | None:
    problem = share_problem(demand) or sub_group_problem(demand) or topology_problem(demand, pool.policy)
    if problem is not None:
        return problem
    unit = next_unit(Job(demand.job, 0, 0, demand, "", 0, True, True, ""))
    if unit is None:
        return "none of its tasks could ever be placed"
    rooms = _empty(pool)
    mark = rooms.mark()
    found = place_unit(rooms, unit, Budget(STEPS))
    rooms.rollback(mark)
    why = found.why if isinstance(found, NoFit) and found.kind == "impossible" else None
    return f"even on the empty pool: {why}" if why is not None else None


def _empty(pool: Pool) -> Rooms:
    """The pool without any task. Kept beside the scene, as long as answers are kept: both are over when nodes change."""
    kept: Rooms | None = pool.scene.rooms if pool.scene is not None else None
    if kept is None:
        return Rooms.when_empty(pool)
    if kept.empty is None or not pool.ever_fits:
        kept.empty = Rooms.when_empty(pool)
    kept.empty.policy = pool.policy
    return kept.empty
