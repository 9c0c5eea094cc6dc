"""Whether a gang could stand on the pool if nobody else were there."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Job, Pool

from .budget import Budget
from .gang import NoFit, place_gang
from .rooms import Rooms

STEPS = 2_000


def could_ever_fit(pool: Pool, demand: JobDemand) -> str | None:
    """Why the gang could never run on the nodes as they are, even on an empty pool; `None` if it could or may.

    Silent nodes and sick or quarantined devices count as good: they may come back.
    """
    job = Job("", 0, 0, demand, "", 0, False, False, "")
    found = place_gang(Rooms.when_empty(pool), job, Budget(STEPS))
    if isinstance(found, NoFit) and found.kind == "impossible":
        return f"even on the empty pool: {found.why}"
    return None
