"""The general search: put candidates back, the most valuable first, and branch on those that might go all the same."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bailiff_core.placement.budget import Budget

from .candidates import Chain, Step
from .fit import Fit

Test = Callable[[list[Step], Budget], bool]


class Gate(Protocol):
    """Whether those may leave who leave one after the other; if not, no larger set may. They come back in the opposite order."""

    def leave(self, step: Step) -> bool: ...
    def come_back(self) -> None: ...


def in_order(chains: Sequence[Chain], weights: Mapping[Step, int]) -> list[Step]:
    """The heaviest first; of one job the last to leave first, for what stays lets none stay less that leaves before it."""
    keys: dict[Step, tuple[int, int]] = {}
    for chain in chains:
        heaviest = 0
        for depth, step in enumerate(chain):
            heaviest = max(heaviest, weights[step])
            keys[step] = (heaviest, depth)
    return sorted(keys, key=lambda step: keys[step], reverse=True)


def put_back_all(fit: Fit, evicted: Sequence[Step]) -> list[Step]:
    """Fill-back: put back, in this order, each that still fits. The rest is irreducible, for room only ever helps."""
    gone: dict[Step, None] = {}
    needed: dict[Step, None] = {}  # a later step of the same job leaves, so these do
    for step in evicted:
        if step in needed or not fit.put_back(step):
            gone[step] = None
            if step.before is not None:
                needed[step.before] = None
    return list(gone)


def search_tree(
    fit: Fit,
    order: Sequence[Step],
    weights: Mapping[Step, int],
    limit: int | None,
    budget: Budget,
    *,
    gate: Gate | None = None,
    accept: Test | None = None,
) -> tuple[list[Step] | None, bool]:
    """The lightest set below `limit` whose eviction makes room, or `None`; and whether the search finished.

    All of `order` is evicted at the start and at the end; later steps of a job come before earlier ones. Each is put back
    where the unit still fits, and then, as an alternative, evicted all the same. accept: the last word on a whole set. Each
    try costs steps by the nodes it looks at, and the last word what it charges.
    """
    best: list[Step] | None = None
    back: list[bool] = []
    gone: list[Step] = []
    needed: dict[Step, int] = {}
    cost = 0
    finished = True
    dead = False  # what is gone so far may not leave

    def leave(step: Step) -> None:
        nonlocal cost, dead
        gone.append(step)
        cost += weights[step]
        if step.before is not None:
            needed[step.before] = needed.get(step.before, 0) + 1
        dead = gate is not None and not gate.leave(step)

    def unleave() -> None:
        nonlocal cost
        step = gone.pop()
        if gate is not None:
            gate.come_back()
        cost -= weights[step]
        if step.before is not None:
            needed[step.before] -= 1

    while True:
        if len(back) < len(order) and not dead and (limit is None or cost < limit):
            step = order[len(back)]
            if not budget.spend(fit.effort(step)):
                finished = False
                break
            stays = not needed.get(step) and fit.put_back(step)
            back.append(stays)
            if not stays:
                leave(step)
            continue
        if not dead and (limit is None or cost < limit) and (accept is None or accept(list(gone), budget)):
            best, limit = list(gone), cost
        dead = False
        while back and not back[-1]:
            back.pop()
            unleave()
        if not back:
            break
        step = order[len(back) - 1]
        fit.evict(step)
        back[-1] = False
        leave(step)
    for step, stays in zip(order, back, strict=False):
        if stays:
            fit.evict(step)
    return best, finished
