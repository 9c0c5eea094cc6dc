"""The general search: put candidates back, the most valuable first, and branch on those that might go all the same."""

from collections.abc import Mapping, Sequence

from bailiff_core.model.pool import Job
from bailiff_core.placement.budget import Budget

from .fit import Fit


def put_back_all(fit: Fit, evicted: Sequence[Job]) -> list[Job]:
    """Fill-back: put back, in this order, each that still fits. The rest is irreducible, for room only ever helps."""
    return [job for job in evicted if not fit.put_back(job)]


def search_tree(
    fit: Fit, candidates: Sequence[Job], weights: Mapping[str, int], limit: int, budget: Budget
) -> tuple[list[Job] | None, bool]:
    """The lightest set below `limit` whose eviction makes room, or `None`; and whether the search finished.

    All candidates are evicted at the start and at the end. They are decided in order of weight, the heaviest first:
    put back where the gang still fits, and then, as an alternative, evicted all the same.
    Each try costs steps by the nodes it looks at.
    """
    order = sorted(candidates, key=lambda job: weights[job.id], reverse=True)
    best: list[Job] | None = None
    back: list[bool] = []
    cost = 0
    finished = True
    while True:
        if len(back) < len(order) and cost < limit:
            job = order[len(back)]
            if not budget.spend(fit.effort(job)):
                finished = False
                break
            back.append(fit.put_back(job))
            cost += 0 if back[-1] else weights[job.id]
            continue
        if cost < limit:
            best, limit = [job for job, stays in zip(order, back, strict=True) if not stays], cost
        while back and not back[-1]:
            cost -= weights[order[len(back) - 1].id]
            back.pop()
        if not back:
            break
        job = order[len(back) - 1]
        fit.evict(job)
        back[-1] = False
        cost += weights[job.id]
    for job, stays in zip(order, back, strict=False):
        if stays:
            fit.evict(job)
    return best, finished
