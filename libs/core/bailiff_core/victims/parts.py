"""The exact search for gangs of equal tasks: the pool falls into parts that do not touch one another.

A part is a set of nodes tied together by candidates that stand on several of them. Inside a part every sensible set
of victims is tried; over the parts the cheapest mix is put together slot by slot, as one fills a knapsack.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bailiff_core.model.pool import Job
from bailiff_core.model.units import whole
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.rooms import NodeRoom

from .fit import OneNeed

MIXES_PER_STEP = 50


@dataclass(frozen=True, slots=True)
class Option:
    """Evicting these jobs of one part gains so many slots at this weight."""

    gain: int
    weight: int
    jobs: tuple[Job, ...]


Mix = tuple[int, tuple[Option, ...]]


def search_parts(
    fit: OneNeed, candidates: Sequence[Job], weights: Mapping[str, int], limit: int, budget: Budget
) -> tuple[list[Job] | None, bool]:
    """The lightest set of weight below `limit` that makes room, or `None`; and whether the search finished.

    All candidates are evicted at the start and at the end. One step is one set tried, or so many mixes compared.
    """
    for job in candidates:
        fit.stay(job)
    short = fit.wanted - fit.total
    try:
        return _mix(fit, _parts(fit, candidates), weights, limit, short, budget)
    finally:
        for job in candidates:
            fit.evict(job)


def _mix(
    fit: OneNeed, parts: list[list[Job]], weights: Mapping[str, int], limit: int, short: int, budget: Budget
) -> tuple[list[Job] | None, bool]:
    best: list[Mix | None] = [(0, ())] + [None] * short  # by slots gained, at least
    for part in parts:
        options = _options(fit, part, weights, limit, short, budget)
        if options is None or not budget.spend(1 + len(options) * short // MIXES_PER_STEP):
            return None, False
        before = list(best)
        for option in options:
            for gained in range(1, short + 1):
                base = before[gained - option.gain] if gained > option.gain else before[0]
                if base is None or (weight := base[0] + option.weight) >= limit:
                    break  # more slots are never lighter
                known = best[gained]
                if known is None or weight < known[0]:
                    best[gained] = (weight, (*base[1], option))
    found = best[short]
    return (None if found is None else [job for option in found[1] for job in option.jobs]), True


def _parts(fit: OneNeed, candidates: Sequence[Job]) -> list[list[Job]]:
    """Candidates that share a node that matters, directly or through others, belong together."""
    root: dict[int, int] = {}

    def find(number: int) -> int:
        while root.setdefault(number, number) != number:
            root[number] = number = root[root[number]]
        return number

    first_node: list[int] = []
    for job in candidates:
        numbers = [node.number for node, _ in fit.rooms.standing(whole(job)) if node in fit.suited]
        for number in numbers[1:]:
            root[find(number)] = find(numbers[0])
        first_node.append(numbers[0])
    parts: dict[int, list[Job]] = {}
    for job, number in zip(candidates, first_node, strict=True):
        parts.setdefault(find(number), []).append(job)
    return list(parts.values())


def _options(
    fit: OneNeed, part: list[Job], weights: Mapping[str, int], limit: int, short: int, budget: Budget
) -> list[Option] | None:
    """What evicting sets of the part's jobs gains, without those that another set beats; `None`: too many to try.

    Of jobs that would free the same room in the same places, the lightest go first.
    """
    alike: dict[object, list[Job]] = {}
    for job in sorted(part, key=lambda job: weights[job.id]):
        alike.setdefault(_footprint(fit, job), []).append(job)
    tries: list[tuple[int, tuple[Job, ...]]] = [(0, ())]
    for jobs in alike.values():
        longer = []
        for weight, chosen in tries:
            for job in jobs:
                weight += weights[job.id]
                chosen = (*chosen, job)
                if weight >= limit:
                    break
                longer.append((weight, chosen))
            if len(tries) + len(longer) > budget.left:
                return None
        tries += longer
    if not budget.spend(len(tries)):
        return None
    options: list[Option] = []
    most = 0
    for weight, chosen in sorted(tries, key=lambda entry: entry[0]):
        gain = min(short, _gain(fit, chosen)) if chosen else 0
        if gain > most:  # heavier than all before, so it must gain more
            options.append(Option(gain, weight, chosen))
            most = gain
        if most == short:
            break
    return options


def _footprint(fit: OneNeed, job: Job) -> object:
    """Where and how much room the job's eviction frees, as far as it matters to the gang."""
    return tuple(
        sorted(
            (
                node.number,
                (room.devices & fit.suited[node]).bit_count(),
                room.cpu_milli,
                room.memory_bytes,
                room.slots,
                tuple(room.shares.items()),
            )
            for node, room in fit.rooms.standing(whole(job))
            if node in fit.suited
        )
    )


def _gain(fit: OneNeed, jobs: tuple[Job, ...]) -> int:
    mark = fit.rooms.mark()
    touched: dict[NodeRoom, None] = {}
    for job in jobs:
        fit.rooms.evict(whole(job))
        touched.update((node, None) for node, _ in fit.rooms.standing(whole(job)))
    gain = sum(fit.count(node) - fit.slots[node] for node in touched if node in fit.suited)
    fit.rooms.rollback(mark)
    return gain
