"""Whether a gang could stand on the pool if nobody else were there."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Pool

from .budget import Budget
from .gang import NoFit, place_demand
from .need import needs_of, unsupported
from .rooms import Rooms

STEPS = 2_000
SHAPES_KEPT = 1_000


def could_ever_fit(pool: Pool, demand: JobDemand) -> str | None:
    """Why the gang could never run on the nodes as they are, even on an empty pool; `None` if it could or may.

    Silent nodes and sick or quarantined devices count as good: they may come back. The answer is kept by shape until
    nodes change.
    """
    missing = unsupported(demand)
    if missing is not None:
        return f"even on the empty pool: {missing}"
    shape = repr([(need, len(tasks)) for need, tasks in needs_of(demand).items()])
    if shape not in pool.ever_fits:
        if len(pool.ever_fits) >= SHAPES_KEPT:
            pool.ever_fits.clear()
        found = place_demand(Rooms.when_empty(pool), demand, Budget(STEPS))
        why = found.why if isinstance(found, NoFit) and found.kind == "impossible" else None
        pool.ever_fits[shape] = f"even on the empty pool: {why}" if why is not None else ""
    return pool.ever_fits[shape] or None
