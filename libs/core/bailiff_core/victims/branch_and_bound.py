"""Branch and bound over sets of victims: reprieve candidates, most valuable first, and branch on evicting them anyway."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bailiff_core.placement.step_budget import StepBudget

from .candidates import EvictionChain, EvictionStep
from .fit_oracle import FitOracle
from .objective import FragmentationBound
from .set_weights import SetWeights

Test = Callable[[list[EvictionStep], StepBudget], bool]


class SetConstraint(Protocol):
    """Incremental test of a growing set of victims: if a set is forbidden, so is every larger one. `pop` undoes `push`."""

    def push(self, step: EvictionStep) -> bool: ...
    def pop(self) -> None: ...


def reprieve_order(chains: Sequence[EvictionChain], weights: Mapping[EvictionStep, int]) -> list[EvictionStep]:
    """Order of reprieves: heaviest first; within a job the last step first, as a step needs all later ones reprieved."""
    keys: dict[EvictionStep, tuple[int, int]] = {}
    for chain in chains:
        heaviest = 0
        for depth, step in enumerate(chain):
            heaviest = max(heaviest, weights[step])
            keys[step] = (heaviest, depth)
    return sorted(keys, key=lambda step: keys[step], reverse=True)


def reprieve_all(oracle: FitOracle, evicted: Sequence[EvictionStep]) -> list[EvictionStep]:
    """Reprieve, in this order, each step that still fits. The rest is irreducible, as more free resources never hurt."""
    remaining: dict[EvictionStep, None] = {}
    needed: dict[EvictionStep, None] = {}  # earlier steps of a job whose later step is evicted
    for step in evicted:
        if step in needed or not oracle.reprieve(step):
            remaining[step] = None
            if step.before is not None:
                needed[step.before] = None
    return list(remaining)


def has_unneeded_victim(oracle: FitOracle, steps: Sequence[EvictionStep]) -> bool:
    """Whether some victim could be reprieved: none may be evicted only to balance the losses of projects."""
    earlier = dict.fromkeys(step.before for step in steps)
    for step in steps:
        if step not in earlier and oracle.reprieve(step):
            oracle.evict(step)
            return True
    return False


def branch_and_bound(
    oracle: FitOracle,
    order: Sequence[EvictionStep],
    weights: SetWeights,
    limit: int | None,
    budget: StepBudget,
    *,
    set_constraint: SetConstraint | None = None,
    accept: Test | None = None,
) -> tuple[list[EvictionStep] | None, bool]:
    """Searches the set of least cost below `limit` whose eviction makes the unit fit.

    All of `order` is evicted at the start and at the end; later steps of a job come before earlier ones. Each step is first
    reprieved, if the unit still fits, and then evicted, as the other branch. A reprieve costs search steps in proportion to the
    nodes that it touches; `accept` counts its own.

    Args:
        accept: The final test of a complete set.

    Returns:
        The set, or None; and whether the search is complete.
    """
    best: list[EvictionStep] | None = None
    reprieved: list[bool] = []
    evicted: list[EvictionStep] = []
    needed: dict[EvictionStep, int] = {}
    cost = 0
    fragmented = FragmentationBound(weights.fragmentation, order)
    finished = True
    forbidden = False  # the current set violates the constraint, as its last victim made it

    def add_victim(step: EvictionStep) -> None:
        nonlocal cost, forbidden
        evicted.append(step)
        cost += weights.of_step[step]
        fragmented.change(step, evicted=True, by=1)
        if step.before is not None:
            needed[step.before] = needed.get(step.before, 0) + 1
        forbidden = set_constraint is not None and not set_constraint.push(step)

    def undo_evict() -> None:
        nonlocal cost
        step = evicted.pop()
        if set_constraint is not None:
            set_constraint.pop()
        cost -= weights.of_step[step]
        fragmented.change(step, evicted=True, by=-1)
        if step.before is not None:
            needed[step.before] -= 1

    while True:
        lighter = limit is None or cost + weights.per_node * fragmented.nodes < limit
        if len(reprieved) < len(order) and not forbidden and lighter:
            step = order[len(reprieved)]
            if not budget.spend(oracle.effort(step)):
                budget.charge(budget.remaining)  # of no use to this search
                finished = False
                break
            is_reprieved = not needed.get(step) and oracle.reprieve(step)
            reprieved.append(is_reprieved)
            if is_reprieved:
                fragmented.change(step, evicted=False, by=1)
            else:
                add_victim(step)
            continue
        if not forbidden and lighter and (accept is None or accept(list(evicted), budget)):
            best, limit = list(evicted), cost + weights.per_node * fragmented.nodes
        # Back to the last step that was reprieved; its other branch is next.
        while reprieved and not reprieved[-1]:
            reprieved.pop()
            undo_evict()
        if not reprieved:
            break
        step = order[len(reprieved) - 1]
        oracle.evict(step)
        fragmented.change(step, evicted=False, by=-1)
        reprieved[-1] = False
        add_victim(step)
    for step, is_reprieved in zip(order, reprieved, strict=False):
        if is_reprieved:
            oracle.evict(step)
    return best, finished
