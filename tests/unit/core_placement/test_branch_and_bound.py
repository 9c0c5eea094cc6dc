"""Branch and bound finds the lightest set of victims, fragmentation included: compared with all sets."""

import random
from collections.abc import Iterable
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kits.builders import Sketch, group

from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.branch_and_bound import branch_and_bound, reprieve_order
from bailiff_core.victims.candidates import CandidateIndex, EvictionStep
from bailiff_core.victims.set_weights import SetWeights


class Oracle:
    """The preemptor fits once so many GPUs of evicted steps are free on one node, whichever."""

    exact = True

    def __init__(self, steps: Iterable[EvictionStep], wanted: int) -> None:
        self.wanted = wanted
        self.free: dict[int, int] = {}
        for step in steps:
            self.evict(step)

    def evict(self, step: EvictionStep) -> None:
        for use in step.uses:
            self.free[use.node] = self.free.get(use.node, 0) + use.amount

    def restore(self, step: EvictionStep) -> None:
        for use in step.uses:
            self.free[use.node] -= use.amount

    def fits(self) -> bool:
        return max(self.free.values()) >= self.wanted

    def reprieve(self, step: EvictionStep) -> bool:
        self.restore(step)
        if self.fits():
            return True
        self.evict(step)
        return False

    def effort(self, step: EvictionStep) -> int:
        return 1


def some_pool(seed: int) -> tuple[list[list[EvictionStep]], SetWeights, int]:
    """Chains of steps on three nodes: jobs of one task, pairs over two nodes, elastic jobs."""
    dice, sketch = random.Random(seed), Sketch()
    nodes = ["a", "b", "c"]
    for node in nodes:
        sketch.node(node, gpus=8)
    used = dict.fromkeys(nodes, 0)

    def place() -> tuple[str, range]:
        node, size = dice.choice(nodes), dice.choice((1, 2))
        used[node] += size
        return node, range(used[node] - size, used[node])

    for number in range(dice.randint(3, 8)):
        places = [place() for _ in range(dice.choice((1, 1, 1, 2)))]
        if max(used.values()) > 8:
            break
        groups = [group(gpus=len(devices)) for _, devices in places]
        job = sketch.at(sketch.job(f"j{number}", *groups), *places, age=60_000_000 * dice.choice((1, 1, 1, 2)))
        if dice.random() < 0.5:
            job.demand = job.demand.model_copy(update={"min_tasks": 1})
    index = CandidateIndex(current_snapshot(sketch.state))
    preemptor = sketch.job("preemptor", priority=75)
    chains = list(index.candidates("preempt", preemptor).chains.values())
    steps = [step for chain in chains for step in chain]
    return chains, SetWeights.of_steps(steps, index.fragmentation), dice.randint(1, 4)


def sets(chains: list[list[EvictionStep]]) -> Iterable[list[EvictionStep]]:
    """All sets of first steps of the chains."""
    steps = [step for chain in chains for step in chain]
    for size in range(len(steps) + 1):
        for chosen in combinations(steps, size):
            if all(step.before is None or step.before in chosen for step in chosen):
                yield list(chosen)


def nothing() -> Any:
    """A step that frees nothing."""
    return SimpleNamespace(uses=[SimpleNamespace(node=0, amount=0)])


@pytest.mark.parametrize("seed", range(5))
def test_a_set_is_found_if_it_is_lighter_than_the_limit_by_however_little(seed: int) -> None:
    chains, weights, wanted = some_pool(seed)
    order = reprieve_order(chains, weights.of_step)

    def lightest(limit: int | None) -> list[EvictionStep] | None:
        oracle: Any = Oracle(order, wanted)
        return branch_and_bound(oracle, order, weights, limit, StepBudget(1_000_000))[0]

    best = lightest(None)
    assert best is not None
    assert lightest(weights.of(best) + 1) == best
    assert lightest(weights.of(best)) is None


class AtMost:
    """Permits sets of at most so many steps."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.evicted: list[EvictionStep] = []

    def push(self, step: EvictionStep) -> bool:
        self.evicted.append(step)
        return len(self.evicted) <= self.most

    def pop(self) -> None:
        self.evicted.pop()


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_no_permitted_set_is_lighter_and_no_other_is_found(most: int) -> None:
    found_some = 0
    for seed in range(120):
        chains, weights, wanted = some_pool(seed)
        steps = [step for chain in chains for step in chain]
        if not steps or len(steps) > 8:
            continue
        oracle: Any = Oracle(steps, wanted)
        constraint = AtMost(most)
        order = reprieve_order(chains, weights.of_step)
        best, finished = branch_and_bound(oracle, order, weights, None, StepBudget(100_000), set_constraint=constraint)
        assert (finished, constraint.evicted) == (True, [])
        possible = [
            weights.of(chosen) for chosen in sets(chains) if len(chosen) <= most and Oracle([*chosen, nothing()], wanted).fits()
        ]
        if oracle.fits():
            assert (None if best is None else weights.of(best)) == min(possible, default=None), f"seed {seed}"
            found_some += best is not None
    assert (found_some > 10) is (most > 0)


def test_without_steps_the_search_is_not_complete_and_leaves_all_evicted() -> None:
    chains, weights, wanted = some_pool(1)
    order = reprieve_order(chains, weights.of_step)
    for steps in range(5):
        oracle: Any = Oracle(order, wanted)
        before = dict(oracle.free)
        budget = StepBudget(steps)
        _, finished = branch_and_bound(oracle, order, weights, None, budget)
        assert (finished, oracle.free, budget.used) == (False, before, steps)
