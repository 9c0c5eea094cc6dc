"""A set may be reclaimed if the semantics allow it in some order of eviction, one unit after the other."""

from fractions import Fraction
from itertools import pairwise, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.builders import group
from tests.kits.examples import examples
from tests.kits.pools import Town, Trials, whole
from tests.property.random_projects import ENDLESS, RESOURCES, random_projects

from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.model.units import Unit, victim_units
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.fair_share import Entitlements
from bailiff_core.quota.reclaim import Losses, Reclaim


def taken(unit: Unit) -> ResourceVector:
    """The requests of the unit's tasks, without bytes of devices."""
    found = ZERO
    for index in unit.indices:
        task = unit.job.groups()[index]
        found = found.plus(ResourceVector(task.gpu_milli, task.cpu_milli, task.memory_bytes))
    return found


def bounds(amounts: ResourceVector) -> list[int]:
    return [ENDLESS if amount == UNLIMITED else amount for amount in amounts]


def in_this_order(snapshot: Trials, shares: Entitlements, preemptor: Unit, units: tuple[Unit, ...]) -> bool:
    """The losing project is tested before each unit is taken."""
    usage, tree = snapshot.usage, snapshot.usage.tree
    remaining = {name: usage.allocated(name) for name in tree.branches}
    mine_path = tree.branches[tree.leaf_of(preemptor.job.project)].path
    for unit in units:
        path = tree.branches[tree.leaf_of(unit.job.project)].path
        if path == mine_path:
            return False
        mine = next(name for name in reversed(mine_path) if name not in path)
        theirs = next(name for name in reversed(path) if name not in mine_path)
        quota, limit = bounds(shares[theirs].quota), bounds(tree.branches[theirs].limit)
        allocatable = [min(limit[at], max(quota[at], shares[theirs].share[at])) for at in RESOURCES]
        with_unit = usage.allocated(mine).plus(taken(preemptor))
        returned = [at for at in RESOURCES if taken(unit)[at] > 0]  # only what the unit gives back counts
        above_share = any(remaining[theirs][at] > allocatable[at] for at in returned)
        above_quota = any(remaining[theirs][at] > quota[at] for at in returned)
        preemptor_within = all(with_unit[at] <= bounds(shares[mine].quota)[at] for at in RESOURCES)
        if not above_share and not (above_quota and preemptor_within):
            return False
        for name in path:
            remaining[name] = remaining[name].minus(taken(unit))
    return True


def may_leave_so(units: tuple[Unit, ...]) -> bool:
    """Each job's units in the job's own order: surplus before the core."""
    done: dict[str, int] = {}
    for unit in units:
        rank = victim_units(unit.job).index(unit)
        if rank < done.get(unit.job.id, 0):
            return False
        done[unit.job.id] = rank
    return True


def turned(snapshot: Trials, shares: Entitlements, preemptor: Unit, units: list[Unit]) -> bool:
    """Whether some ancestor of the preemptor ends above its share, and as full as a sibling that lost, or fuller."""
    usage, tree = snapshot.usage, snapshot.usage.tree
    left = {name: usage.allocated(name) for name in tree.branches}
    lost = set()
    for unit in units:
        for name in tree.branches[tree.leaf_of(unit.job.project)].path:
            left[name] = left[name].minus(taken(unit))
            lost.add(name)
    path = tree.branches[tree.leaf_of(preemptor.job.project)].path
    for project, parent in pairwise(path):
        for sibling in tree.children[parent]:
            if sibling == project or sibling not in lost:
                continue
            for at in RESOURCES:
                mine = ratio(left[project][at] + taken(preemptor)[at], shares[project].share[at])
                theirs = ratio(left[sibling][at], shares[sibling].share[at])
                if mine > (0, 1) and shares[sibling].share[at] > 0 and mine >= theirs:
                    return True
                amount = left[project][at] + taken(preemptor)[at]
                if shares[project].share[at] == shares[sibling].share[at] == 0 and amount > left[sibling][at] and amount > 0:
                    return True  # beyond the semantics: of two projects without a share the one that uses more may not reclaim
    return False


def ratio(used: int, share: int) -> tuple[int, Fraction]:
    """The ratio of use to share; infinite for use without a share."""
    if share == 0:
        return (1, Fraction()) if used > 0 else (0, Fraction())
    return 0, Fraction(used, share)


def check(seed: int) -> None:
    rng = Random(seed)
    town = Town(*random_projects(rng), gpus=rng.choice([4, 8, 12]))
    names = ["", *[entry.name for entry in town.state.rules.projects]]
    possible: list[Unit] = []
    for number in range(rng.randrange(1, 7)):
        tasks = [
            group(count=rng.randrange(1, 4), gpus=rng.randrange(3), cpu=rng.randrange(2)) for _ in range(rng.choice((1, 1, 2)))
        ]
        size = sum(task.count for task in tasks)
        job = town.runs(f"r{number}", rng.choice(names), *tasks, minimum=rng.randrange(1, size + 1))
        units = victim_units(job)
        possible += units[: rng.randrange(len(units) + 1)]
    preemptor = whole(town.waits("preemptor", rng.choice(names), group(gpus=rng.randrange(1, 4), cpu=rng.randrange(2))))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    chosen = possible[:5]
    reclaim = Reclaim(snapshot, shares, preemptor)
    orders = [order for order in permutations(chosen) if may_leave_so(order)]
    assert reclaim.admits(chosen) == any(in_this_order(snapshot, shares, preemptor, order) for order in orders)
    chains = [[unit for unit in chosen if unit.job.id == job] for job in dict.fromkeys(unit.job.id for unit in chosen)]
    assert_counted_alike(
        reclaim, Losses(reclaim, snapshot.usage), [unit for chain in chains for unit in reversed(chain)], [], rng
    )
    assert (reclaim.imbalance(chosen) is None) == (not turned(snapshot, shares, preemptor, chosen))


@examples(200)
@given(st.integers(0, 2**32))
def test_a_set_may_be_reclaimed_if_some_order_of_it_passes(seed: int) -> None:
    check(seed)


@pytest.mark.long
@settings(max_examples=5_000, deadline=None)
@given(st.integers(0, 2**32))
def test_a_set_may_be_reclaimed_if_some_order_of_it_passes_thousands(seed: int) -> None:
    check(seed)


def assert_counted_alike(reclaim: Reclaim, losses: Losses, left: list[Unit], taken: list[Unit], rng: Random) -> None:
    """Incremental counts equal the counts of the whole set, also after some units were returned."""
    for at, unit in enumerate(left):
        before = reclaim.admits(taken)
        allowed = losses.take(unit)
        assert allowed == reclaim.admits([unit, *taken])
        if allowed and rng.random() < 0.7:
            assert_counted_alike(reclaim, losses, left[at + 1 :], [unit, *taken], rng)
        losses.undo()
        assert before == reclaim.admits(taken)
