"""Small full pools, searched as large ones are: only few nodes at first."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tests.kits.builders import MINUTE, Sketch, group

from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.victims import heterogeneous_gangs, shortlist, slot_combinations


@contextmanager
def as_on_large_pools(most_tied: int = slot_combinations.MAX_TIED_EFFORT) -> Iterator[None]:
    """Any number of active jobs counts as many, and the search begins with one node. most_tied: what effort ties may take."""
    with (
        patch.object(slot_combinations, "MAX_TIED_EFFORT", most_tied),
        patch.object(shortlist, "MIN_ACTIVE_JOBS", 0),
        patch.object(heterogeneous_gangs, "MIN_ACTIVE_JOBS", 0),
        patch.object(shortlist, "INITIAL_SIZE", 1),
    ):
        yield


def some_pool(seed: int) -> tuple[Sketch, list[OpenRequest]]:
    """Nodes of several sizes full of jobs of several sizes, classes and ages, many equal; and some preemptors."""
    dice = random.Random(seed)
    sketch = Sketch()
    nodes = dice.randint(2, 12)
    for n in range(nodes):
        sketch.node(f"n{n}", gpus=dice.choice((2, 4, 8)), cpu=dice.choice((8, 1000)))
    number = 0
    ages = [MINUTE * dice.randint(1, 90) for _ in range(dice.randint(1, 4))]
    for n in range(nodes):
        free = list(range(len(sketch.state.nodes[n].devices)))
        while free and dice.random() < 0.95:
            size = min(len(free), dice.choice((1, 1, 2, 4)))
            sketch.running(
                f"j{number}",
                f"n{n}",
                [free.pop(0) for _ in range(size)],
                priority=dice.choice((10, 20, 30)),
                preemptible=dice.random() < 0.9,
                age=dice.choice(ages),
                phase=dice.choice(("running",) * 9 + ("reserved", "evicting")),
            )
            number += 1
    for _ in range(dice.randint(0, 3)):  # gangs over two nodes
        job = sketch.job(f"j{number}", group(2, cpu=1), priority=dice.choice((10, 20)))
        one, other = dice.sample(range(nodes), 2)
        sketch.at(job, (f"n{one}", []), (f"n{other}", []))
        number += 1
    requests = []
    for n in range(dice.randint(1, 3)):
        gang = group(dice.choice((1, 1, 2, 3)), gpus=dice.choice((1, 2, 4, 8)), cpu=dice.choice((0, 1)))
        sketch.job(f"preemptor-{n}", gang, priority=dice.choice((20, 30, 40)))
        requests.append(OpenRequest(n + 1, f"preemptor-{n}"))
    return sketch, requests


def gang_of_two_kinds(seed: int) -> tuple[Sketch, Job]:
    """Such a pool, and a preemptor with tasks of two kinds."""
    sketch, _ = some_pool(seed)
    dice = random.Random(seed + 1)
    kinds = [group(dice.choice((1, 1, 2)), gpus=gpus, cpu=dice.choice((0, 1))) for gpus in dice.sample((1, 2, 4, 8), 2)]
    return sketch, sketch.job("mixed", *kinds, priority=dice.choice((20, 30, 40)))
