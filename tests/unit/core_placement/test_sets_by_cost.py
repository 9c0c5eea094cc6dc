"""Sets of steps in the order of their weight: every set of the first steps of at most so many jobs, once."""

from itertools import product
from random import Random
from typing import Any

import pytest

from bailiff_core.victims.consolidation import _by_cost


class Step:
    """A step that is equal to itself only."""

    def __init__(self, job: int, at: int) -> None:
        self.job, self.at = job, at


@pytest.mark.parametrize("seed", range(40))
def test_sets_come_lightest_first_and_each_once(seed: int) -> None:
    random = Random(seed)
    chains = [[Step(job, at) for at in range(random.randint(1, 3))] for job in range(random.randint(0, 4))]
    weights: Any = {each: random.randint(0, 5) for chain in chains for each in chain}
    chains.sort(key=lambda chain: weights[chain[0]])
    most = random.randint(0, 5)
    sets: Any = _by_cost(chains, weights, most)  # type: ignore[arg-type]
    found = [(weight, tuple(sorted((each.job, each.at) for each in steps))) for weight, steps in sets]
    expected = []
    for counts in product(*(range(len(chain) + 1) for chain in chains)):
        steps = [each for chain, count in zip(chains, counts, strict=True) for each in chain[:count]]
        if 0 < len({each.job for each in steps}) <= most:
            expected.append((sum(weights[each] for each in steps), tuple(sorted((each.job, each.at) for each in steps))))
    assert sorted(found) == sorted(expected)
    assert [weight for weight, _ in found] == sorted(weight for weight, _ in found)
