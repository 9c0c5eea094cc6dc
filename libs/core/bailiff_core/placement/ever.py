"""Whether a gang could stand on the pool if nobody else were there."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Pool

from .budget import Budget
from .gang import NoFit, place_demand
from .rooms import Rooms

STEPS = 2_000


def could_ever_fit(pool: Pool, demand: JobDemand) -> str | None:
    """Why the gang could never run on the nodes as they are, even on an empty pool; `None` if it could or may.

    Silent nodes and sick or quarantined devices count as good: they may come back.
    """
    found = place_demand(Rooms.when_empty(pool), demand, Budget(STEPS))
    if isinstance(found, NoFit) and found.kind == "impossible":
        return f"even on the empty pool: {found.why}"
    return None
