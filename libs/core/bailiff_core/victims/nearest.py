"""For a refusal: the nearest thing that would have worked, and the rule that forbade it."""

from collections.abc import Mapping

from bailiff_core.model.pool import Job
from bailiff_core.model.units import whole
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.rooms import Rooms
from bailiff_core.protections import RULES, already_leaving

from .fit import asking, fit_for
from .tree import put_back_all

STEPS = 1_000
NAMED = 5


def what_it_would_take(asker: Job, rooms: Rooms, excluded: Mapping[str, list[Job]]) -> str:
    """A sentence. All permitted victims are evicted in `rooms`; it is left changed."""
    mark = rooms.mark()
    budget = Budget(STEPS)
    found = place_unit(rooms, asking(asker), budget, promised=True)
    why = found.why if isinstance(found, NoFit) else ""
    rooms.rollback(mark)
    rule_of = {job.id: rule for rule, jobs in excluded.items() for job in jobs}
    shielded = [job for rule, jobs in excluded.items() if rule != already_leaving.NAME for job in jobs]
    for job in shielded:
        rooms.evict(whole(job))
    shielded.sort(key=lambda job: (job.priority, job.gpus, -job.seq, job.id), reverse=True)
    fit = fit_for(rooms, asker, budget, shielded)
    if not fit.fits():
        found = place_unit(rooms, asking(asker), budget, promised=True)
        return f"even if every job left: {found.why if isinstance(found, NoFit) else why}"
    shielded = [job for job in shielded if fit.uses(job)]
    needed = put_back_all(fit, shielded)
    needed.sort(key=lambda job: (job.seq, job.id))
    says = {rule.name: rule.says for rule in RULES}
    named = [f"{job.id!r}, which {says[rule_of[job.id]]}" for job in needed[:NAMED]]
    if len(needed) > NAMED:
        named.append(f"{len(needed) - NAMED} more such jobs")
    gpus = sum(job.gpus for job in needed)
    what = f"the room (with {gpus} GPUs)" if gpus else "the room"
    return f"{why}; with all permitted victims gone it would still need {what} of {'; '.join(named)}"
