"""Amounts, limits, quotas and reclaim, to the last unit."""

from random import Random
from typing import Any

import pytest
from tests.kits.builders import GIB, MINUTE, Sketch, group
from tests.kits.log_builder import policy as rules
from tests.kits.pools import Town, Trials, entitled, gpus, project, surplus, whole

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.model.state import Eviction
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.demand_vector import DeviceScale, of_members, of_places, of_task
from bailiff_core.quota.fair_share import Steps, entitlements
from bailiff_core.quota.quota_checks import (
    _borrows,
    _exceeded_resource,
    exceeds,
    may_reclaim,
    never_within_bounds,
    next_cooldown_end,
    over_limit,
)
from bailiff_core.quota.quotas_in_full import quotas_in_full
from bailiff_core.quota.reclaim import Losses, Reclaim, _can_be_taken, _has_below, _ProjectLosses
from bailiff_core.quota.usage import Usage

# --- checks of limits, quotas and reclaim


def test_a_request_in_bytes_is_refused_only_where_no_device_fits_and_finally_by_its_placement() -> None:
    town = Town(project("a", limit={"gpus": 0.2}), gpus=2, memory=(40, 80))
    unit = whole(town.waits("w", "a", group(gpu_share_bytes=10 * GIB)))
    snapshot = town.snapshot()
    assert over_limit(snapshot, unit) is None
    assert over_limit(snapshot, unit, GangPlacement((TaskPlacement(0, 0, 0b10),), future=False)) is None
    small = over_limit(snapshot, unit, GangPlacement((TaskPlacement(0, 0, 0b01),), future=False))
    assert small == "project a would use 0.25 of its limit of 0.2 GPUs"


def departments() -> Town:
    return Town(
        project("lab", quota=4),
        project("shop", quota=4),
        project("a", "lab", quota=2),
        project("b", "lab", quota=2),
        project("z", "shop", quota=4),
    )


def over_share(*victims: int, gpus_asked: int, quota_a: int, quota_b: int, weight: int = 1) -> tuple[Trials, Reclaim, list[Unit]]:
    """Eight GPUs, all used by b in gangs of these sizes; a asks."""
    town = Town(project("a", quota=quota_a), project("b", quota=quota_b, weight=weight))
    units = [whole(town.runs(f"v{number}", "b", group(gpus=size))) for number, size in enumerate(victims)]
    preemptor = whole(town.waits("preemptor", "a", group(gpus=gpus_asked)))
    snapshot = town.snapshot()
    return snapshot, Reclaim(snapshot, shares_now(snapshot), preemptor), units


def test_each_unit_is_reclaimed_from_a_project_that_is_still_above_its_share() -> None:
    _, reclaim, units = over_share(2, 2, 2, 2, gpus_asked=4, quota_a=4, quota_b=4)
    assert reclaim.admits(units[:2])
    assert not reclaim.admits(units[:3])


def test_the_last_unit_may_take_the_loser_below_its_share() -> None:
    _, reclaim, units = over_share(1, 7, gpus_asked=4, quota_a=4, quota_b=4)
    assert reclaim.admits(units[1:])
    assert reclaim.admits(units)  # the small one first, while there is more than the share
    _, reclaim, units = over_share(4, 4, gpus_asked=4, quota_a=4, quota_b=4)
    assert reclaim.admits(units[:1])
    assert not reclaim.admits(units)  # whichever goes first, only the share is left


def test_a_core_is_evicted_after_its_surplus() -> None:
    town = Town(project("a", quota=4), project("b", quota=4))
    job = town.runs("v", "b", group(gpus=3), group(gpus=5), minimum=1)
    preemptor = whole(town.waits("preemptor", "a", group(gpus=4)))
    core, top = Unit(job, (0,), core=True), surplus(job, 1)
    snapshot = town.snapshot()
    reclaim = Reclaim(snapshot, shares_now(snapshot), preemptor)
    assert reclaim.admits([top])
    assert not reclaim.admits([top, core])  # the core would come last, and then only 3 are left


def test_a_project_below_its_fair_share_but_over_quota_loses_to_one_within_its_quota() -> None:
    # Nobody's quota covers the pool: 2 + 2 of 8, the rest by weight: a 4, b 4. b uses 4: its share, and over quota.
    _, reclaim, units = over_share(4, gpus_asked=2, quota_a=2, quota_b=2)
    assert reclaim.admits(units)
    _, reclaim, units = over_share(4, gpus_asked=3, quota_a=2, quota_b=2)
    assert not reclaim.admits(units)


def test_an_endless_quota_is_never_exceeded() -> None:
    _, reclaim, units = over_share(4, gpus_asked=2, quota_a=2, quota_b=-1)
    assert not reclaim.admits(units)


def test_the_result_does_not_depend_on_evictions_in_the_snapshot() -> None:
    snapshot, reclaim, units = over_share(4, 4, gpus_asked=4, quota_a=4, quota_b=4)
    for unit in units:
        snapshot.usage.evict(unit)
    assert reclaim.admits(units[:1])
    assert not reclaim.admits(units)


@pytest.mark.parametrize(("asked", "balanced"), [(2, True), (3, False)])
def test_an_ancestor_must_not_end_up_fuller_than_a_sibling_that_lost(asked: int, balanced: bool) -> None:
    """lab has 3 and a share of 4, shop 5 and a share of 4: with 3 more and shop at 3, the order would be inverted."""
    town = departments()
    town.runs("b", "b", group(gpus=3 if asked == 3 else 2))
    victim = whole(town.runs("z1", "z", group(gpus=2)))
    town.runs("z2", "z", group(gpus=3))
    preemptor = whole(town.waits("preemptor", "a", group(gpus=asked)))
    snapshot = town.snapshot()
    shares = {"lab": gpus(4), "shop": gpus(4), "a": gpus(3), "b": gpus(2), "z": gpus(4)}
    reclaim = Reclaim(snapshot, entitled(snapshot.usage.tree, shares), preemptor)
    assert (reclaim.imbalance([victim]) is None) is balanced
    if not balanced:
        assert reclaim.imbalance([victim]) == (
            "project lab would use 6 of its fair share of 4 GPUs, a larger part of it than project shop would keep"
        )


def test_projects_are_entitled_to_no_more_than_the_department_above_them() -> None:
    """Both state a quota; their departments have none, and no weight."""
    town = Town(project("lab", weight=0), project("shop", weight=0), project("a", "lab", quota=2), project("z", "shop", quota=2))
    town.runs("z1", "z")
    preemptor = whole(town.waits("preemptor", "a"))
    snapshot = town.snapshot()
    assert may_reclaim(snapshot, shares_now(snapshot), preemptor, snapshot.usage.smallest) == (
        "project a would use 1 of its fair share of 0 GPUs; "
        "of its quota of 2 GPUs 0 is in force, as the quotas asked for exceed what there is"
    )


def test_a_project_above_its_share_may_reclaim_while_the_sibling_stays_fuller_or_lost_nothing() -> None:
    town = departments()
    town.runs("b", "b", group(gpus=4))
    near = whole(town.runs("b2", "b"))
    far = whole(town.runs("z", "z", group(gpus=1)))
    town.runs("z2", "z", group(gpus=8))
    preemptor = whole(town.waits("preemptor", "a"))
    snapshot = town.snapshot()
    tree = snapshot.usage.tree
    shares = entitled(tree, {"lab": gpus(4), "shop": gpus(4), "a": gpus(3), "b": gpus(2), "z": gpus(4)})
    assert Reclaim(snapshot, shares, preemptor).imbalance([near]) is None  # shop lost nothing
    assert Reclaim(snapshot, shares, preemptor).imbalance([far]) is None  # lab 6/4, shop 8/4
    assert (
        Reclaim(snapshot, shares | entitled(tree, {"lab": gpus(3)}), preemptor).imbalance([far]) is not None
    )  # 6/3 and 8/4: as full is too full
    assert (
        Reclaim(snapshot, shares | entitled(tree, {"shop": ResourceVector()}), preemptor).imbalance([far]) is None
    )  # a sibling entitled to nothing is no measure


# --- single amounts of a resource: what exceeds a bound, what borrows, and what one project may lose in some order


Amounts = tuple[int, int, int]


def vector(amounts: Amounts) -> ResourceVector:
    return ResourceVector(*amounts)


@pytest.mark.parametrize(
    ("used", "demand", "bound", "exceeded"),
    [
        ((0, 0, 0), (1, 1, 1), (1, 1, 1), None),
        ((0, 0, 0), (1, 1, 1), (0, 0, 0), 0),
        ((0, 0, 0), (0, 1, 1), (0, 0, 0), 1),
        ((0, 0, 0), (0, 0, 1), (0, 0, 0), 2),
        ((5, 5, 5), (0, 0, 0), (0, 0, 0), None),
        ((5, 5, 5), (1, 1, 1), (UNLIMITED, 6, 5), 2),
        ((5, 5, 5), (1, 1, 1), (UNLIMITED, UNLIMITED, UNLIMITED), None),
    ],
)
def test_a_bound_counts_for_what_is_requested_be_it_one_unit(
    used: Amounts, demand: Amounts, bound: Amounts, exceeded: Any
) -> None:
    assert _exceeded_resource(vector(used), vector(demand), vector(bound)) == exceeded
    assert _borrows(vector(used), vector(demand), vector(bound)) is (exceeded is not None)


@pytest.mark.parametrize(
    ("used", "bound", "above"),
    [((2, 0, 0), (1, 1, 1), True), ((0, 0, 2), (1, 1, 1), True), ((1, 1, 1), (1, 1, 1), False), ((9, 0, 0), (-1, 0, 0), False)],
)
def test_use_is_above_a_bound_in_any_resource(used: Amounts, bound: Amounts, above: bool) -> None:
    assert exceeds(vector(used), vector(bound)) is above


@pytest.mark.parametrize(
    ("lost", "end"), [({}, None), ({"a": 5}, 15), ({"a": 5, "b": 3}, 13), ({"a": 5, "b": 0}, 15), ({"a": 0}, None)]
)
def test_when_the_next_cooldown_ends(lost: dict[str, int], end: int | None) -> None:
    state = Sketch().state
    state.policy = rules(protections={"cooldown": {"project": "10m"}})
    state.now = 10 * MINUTE
    state.reclaimed_at = {name: at * MINUTE for name, at in lost.items()}
    assert next_cooldown_end(state) == (None if end is None else end * MINUTE)


def some_order_is_permitted(chains: list[list[ResourceVector]], margin: Any, lost: ResourceVector = ZERO) -> bool:
    """Tries every order that keeps that of each chain: each unit needs a resource of which less was lost than the margin."""
    if not any(chains):
        return True
    for at, chain in enumerate(chains):
        if chain and any(
            bound is not None and amount > 0 and before < bound
            for amount, before, bound in zip(chain[0], lost, margin, strict=True)
        ):
            rest = [*chains[:at], chain[1:], *chains[at + 1 :]]
            if some_order_is_permitted(rest, margin, lost.plus(chain[0])):
                return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_what_a_project_loses_is_permitted_where_some_order_of_its_units_is(seed: int) -> None:
    """Units are added one by one as long as they are permitted, later units of a job first, and then undone."""
    random = Random(seed)
    for _ in range(8):
        margin = tuple(random.choice((None, 0, 1, 2, 3, 4)) for _ in range(3))
        losses, chains = _ProjectLosses(margin), [[] for _ in range(random.randint(1, 3))]  # type: ignore[var-annotated]
        taken: list[int] = []
        for _ in range(6):
            at = random.randrange(len(chains))
            unit = ResourceVector(*random.choice(((1, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 1), (0, 0, 1), (1, 2, 1), (0, 0, 0))))
            chains[at].insert(0, unit)
            losses.take(f"j{at}", unit)
            expected = some_order_is_permitted(chains, margin)
            assert losses.permitted() is expected, (margin, chains)
            assert _can_be_taken(chains, margin) is expected, (margin, chains)
            if expected:
                taken.append(at)
            else:
                chains[at].pop(0)
                losses.undo(f"j{at}")
        for at in reversed(taken):
            losses.undo(f"j{at}")
        assert (losses._taken, losses._chains, losses._lasts, losses._without) == (ZERO, {}, {}, [0, 0, 0])


# --- amounts of one: a thousandth of a GPU or CPU, a byte; and what is counted of GPUs of several sizes, failed or gone


AT = pytest.mark.parametrize("at", [0, 1, 2], ids=("GPUs", "CPUs", "memory"))


def one(at: int, amount: int = 1, others: int = 0) -> ResourceVector:
    """This amount of one resource, and another one of the others."""
    return ResourceVector(*(amount if place == at else others for place in range(3)))


# --- fair shares


def shares(total: int, *wants: int, priorities: tuple[int, ...] = ()) -> list[Any]:
    """Of so many bytes of memory, the share of each project, which wants so many."""
    given = priorities or (0,) * len(wants)
    projects = [project(f"p{n}", quota={"gpus": 0, "memory": 0}, priority=given[n]) for n in range(len(wants))]
    tree = ProjectTree(tuple(projects))
    requested = {f"p{n}": one(2, want) for n, want in enumerate(wants)}
    found = entitlements(
        tree, one(2, total), quotas_in_full(tree, one(2, total), 0), {**requested, "": one(2, sum(wants))}, Steps()
    )
    return [found[f"p{n}"].share.memory_bytes for n in range(len(wants))]


@pytest.mark.parametrize(
    ("total", "wants", "priorities", "expected"),
    [
        (1, (1, 1), (), [1, 0]),  # the only byte goes to the older project
        (2, (1, 9), (1, 0), [1, 1]),  # one is left for the lower priority
        (3, (1, 9), (), [1, 2]),  # the first round satisfies one, and leaves two
        (2, (1, 1, 1), (), [1, 1, 0]),
    ],
)
def test_the_last_byte_is_given_as_well(total: int, wants: Any, priorities: Any, expected: list[int]) -> None:
    assert shares(total, *wants, priorities=priorities) == expected


# --- reclaim


@AT
def test_the_least_amount_of_a_resource_may_be_taken_for_it(at: int) -> None:
    assert _has_below(at, one(at), ZERO, 1)
    assert not _has_below(at, one(at), one(at), 1)
    assert not _has_below(at, ZERO, ZERO, 1)


def test_of_several_jobs_one_that_may_be_the_last_is_enough() -> None:
    """Of three GPUs beyond the share, a job of two and then one of four may be taken, and not the other way round."""
    losses = _ProjectLosses((3000, None, None))
    losses.take("cpus", gpus(0, 2))
    assert not losses.permitted(), "it gives back nothing that the project overuses"
    losses.undo("cpus")
    for name, amount in (("four", 4), ("two", 2)):
        losses.take(name, gpus(amount))
    assert losses.permitted()
    losses.take("one", gpus(1))
    assert not losses.permitted(), "after the two and the one nothing is left, and each of them is too late after the four"


def test_units_without_the_resource_may_only_be_taken_for_another_one() -> None:
    """GPUs and CPUs are overused by two each: the jobs are taken one for one, the other for the other."""
    losses = _ProjectLosses((2000, 2000, None))
    losses.take("g", gpus(2))
    losses.take("c", gpus(0, 2))
    assert losses.permitted()
    losses = _ProjectLosses((2000, None, None))
    losses.take("g", gpus(2))
    losses.take("c", gpus(0, 2))
    assert not losses.permitted()


def test_the_preemptor_counts_as_on_the_smallest_gpu() -> None:
    """Half of a GPU of 40 GiB, a quarter of one of 80."""
    town = Town(project("a"), project("b"), memory=(40, 80), gpus=2)
    victim = whole(town.runs("b", "b", group(gpus=1)))
    snapshot = town.snapshot()
    shares = entitled(snapshot.usage.tree, {"a": gpus(1), "b": gpus(0)})
    reclaim = Reclaim(snapshot, shares, whole(town.waits("asks", "a", group(gpu_share_bytes=20 * GIB))))  # type: ignore[arg-type]
    assert reclaim._demand.gpu_milli == 500
    assert Losses(reclaim, snapshot.usage).take(victim)


# --- devices


@pytest.mark.parametrize(
    ("node", "devices", "milli"),
    [
        (0, 0b01, 500),
        (0, 0b10, 250),
        (0, 0b100, 250),  # its size is not known: as on the GPU that is assumed
        (9, 0b01, 250),  # the node is gone
    ],
)
def test_a_part_in_bytes_counts_by_the_gpu_that_it_is_on(node: int, devices: int, milli: int) -> None:
    town = Town(project("a"), gpus=3, memory=(40, 80, 0))
    job = town.runs("job", "a", group(gpu_share_bytes=20 * GIB), group(gpus=2))
    scale = DeviceScale(80 * GIB)
    assert of_places(town.state, job, [TaskPlacement(0, node, devices)], scale) == ResourceVector(milli, 0, 0)
    both = [TaskPlacement(0, node, devices), TaskPlacement(1, 0, 0b11)]
    assert of_places(town.state, job, both, scale) == ResourceVector(milli + 2000, 0, 0)


# --- use


def test_a_task_in_bytes_without_a_place_uses_nothing() -> None:
    town = Town(project("a"), memory=(40,), gpus=1)
    job = town.runs("job", "a", group(2, gpu_share_bytes=10 * GIB), minimum=1, placed=1, devices=0b1)
    usage = Usage.of(town.state)
    assert usage.allocated_to(Unit(job, (0, 1), core=True)) == ResourceVector(250, 0, 0)


# --- what the tasks of a job with several groups ask for, also those that a smaller size of the job no longer has


SCALE = DeviceScale(80 << 30)


def test_each_task_counts_as_one_of_its_group() -> None:
    job = Town(project("team")).waits("job", "team", group(2, gpus=1), group(1, gpus=4))
    assert [of_members(job, [index], SCALE) for index in range(3)] == [gpus(1), gpus(1), gpus(4)]
    assert of_members(job, range(3), SCALE) == gpus(6)


def test_tasks_above_the_size_count_as_those_of_the_last_group() -> None:
    job = Town(project("team")).waits("job", "team", group(2, gpus=1), group(1, gpus=4))
    assert of_members(job, [3], SCALE) == gpus(4)
    assert of_members(job, [0, 3, 4], SCALE) == gpus(9)


@pytest.mark.parametrize(
    ("about", "milli"),
    [
        ({"gpu_share_milli": 300}, 300),
        ({"gpu_share_milli": 300, "gpu_devices": 2}, 600),
        ({"gpu_share_bytes": 20 << 30}, 250),
        ({"gpu_share_bytes": 20 << 30, "gpu_devices": 3}, 750),
    ],
)
def test_a_task_counts_the_parts_of_all_its_gpus(about: dict[str, int], milli: int) -> None:
    assert of_task(group(**about), SCALE) == ResourceVector(milli, 0, 0)


# --- use and demand of projects: counted once, kept up to date, and restored after every trial


LAB = (project("lab"), project("vision", "lab"), project("speech", "lab"))


def test_an_evicted_surplus_task_stops_counting() -> None:
    town = Town(*LAB)
    job = town.runs("a", "vision", group(count=3, gpus=1), minimum=2)
    job.tasks[2].eviction = Eviction(1, "preemption", 30)
    usage = Usage.of(town.state)
    assert usage.allocated("vision") == usage.requested("vision") == gpus(2)
    assert usage.allocated_to(Unit(job, (0, 1, 2), core=True)) == gpus(2)


# --- requests that no project bound would ever admit are refused at submission, not queued for ever


def refused(town: Town, *groups, minimum=None, **rest) -> str | None:
    unit = next_unit(town.waits("asks", "team", *groups, minimum=minimum, **rest))
    assert unit is not None
    return never_within_bounds(town.snapshot(), unit)


def test_a_request_as_large_as_the_limit_may_wait() -> None:
    town = Town(project("team", limit=4))
    town.runs("there", "team", group(4, gpus=1))
    assert refused(town, group(gpus=4)) is None, "what is allocated now does not count"


def test_a_request_above_the_limit_never_fits() -> None:
    assert refused(Town(project("team", limit=4)), group(gpus=5)) == "project team would use 5 of its limit of 4 GPUs"


def test_the_limit_of_a_parent_counts_too() -> None:
    town = Town(project("lab", limit=2), project("team", "lab", limit=4))
    assert refused(town, group(gpus=3)) == "project lab would use 3 of its limit of 2 GPUs"


def test_a_job_that_is_not_preemptible_stays_within_its_quota() -> None:
    town = Town(project("team", quota=2))
    assert str(refused(town, group(gpus=3), preemptible=False)).startswith("project team would use 3 of its quota of 2 GPUs")


@pytest.mark.parametrize(("gpus", "preemptible"), [(3, True), (2, False)])
def test_a_preemptible_job_may_borrow_and_another_may_use_all_of_the_quota(gpus: int, preemptible: bool) -> None:
    assert refused(Town(project("team", quota=2)), group(gpus=gpus), preemptible=preemptible) is None


def test_of_an_elastic_gang_the_minimum_has_to_fit() -> None:
    assert refused(Town(project("team", limit=2)), group(4, gpus=1), minimum=2) is None
    assert refused(Town(project("team", limit=2)), group(4, gpus=1), minimum=3) is not None


@pytest.mark.parametrize(("largest", "kept"), [(80, False), (40, True)])
def test_a_request_in_bytes_is_refused_only_if_even_the_largest_device_is_too_small(largest: int, kept: bool) -> None:
    """16GiB of a small device of 16GiB are all of it, of one with 80GiB a fifth, of one with 40GiB two fifths."""
    town = Town(project("team", limit=0.25), gpus=2, memory=(16, largest))
    assert (refused(town, group(gpu_share_bytes=16 * GIB)) is not None) is kept


# --- reclaim does not reverse an imbalance: each resource, and projects with hardly any share or none


@pytest.mark.parametrize(
    ("each", "resource"),
    [(group(gpus=2), "GPUs"), (group(gpus=1, cpu=2), "CPUs"), (group(gpus=1, cpu=1, gib=2), "GiB of memory")],
)
def test_every_resource_is_compared(each: TaskGroup, resource: str) -> None:
    """Both have a share of four of everything and use two tasks: a third for `a` in place of one of `b` reverses them."""
    town = Town(project("a"), project("b"))
    for number in range(2):
        town.runs(f"a{number}", "a", each)
    town.runs("b0", "b", each)
    victim = whole(town.runs("b1", "b", each))
    share = ResourceVector(4000, 4000, 4 * GIB)
    shares = entitled(town.snapshot().usage.tree, {"a": share, "b": share})
    reclaim = Reclaim(town.snapshot(), shares, whole(town.waits("preemptor", "a", each)))  # type: ignore[arg-type]
    assert reclaim.imbalance([victim]) == (
        f"project a would use 6 of its fair share of 4 {resource}, a larger part of it than project b would keep"
    )


@pytest.mark.parametrize("share", [gpus(1, 2, 2), gpus(2, 1, 2), gpus(2, 2, 1)], ids=("GPUs", "CPUs", "GiB"))
def test_a_job_may_be_taken_for_any_resource_of_which_its_project_uses_more_than_its_share(share: ResourceVector) -> None:
    none = {"gpus": 0, "cpus": 0, "memory": 0}
    town = Town(project("a", quota=none), project("b", quota=none))
    victim = whole(town.runs("b", "b", group(gpus=2, cpu=2, gib=2)))
    preemptor = whole(town.waits("preemptor", "a"))
    even = gpus(2, 2, 2)
    for least, admitted in ((even, False), (share, True)):
        shares = entitled(town.snapshot().usage.tree, {"a": even, "b": least})
        reclaim = Reclaim(town.snapshot(), shares, preemptor)  # type: ignore[arg-type]
        assert reclaim.admits([victim]) is admitted


def test_a_sibling_with_the_least_share_is_a_measure_one_with_none_is_not() -> None:
    town = Town(project("a"), project("b"))
    town.runs("a", "a", group(gpus=4))
    victim = whole(town.runs("b", "b", group(gpus=1)))
    preemptor = whole(town.waits("preemptor", "a"))
    for least, balanced in ((0, True), (1, False), (2, False)):
        shares = entitled(town.snapshot().usage.tree, {"a": gpus(4), "b": ResourceVector(least, 0, 0)})
        assert (Reclaim(town.snapshot(), shares, preemptor).imbalance([victim]) is None) == balanced  # type: ignore[arg-type]


def test_a_project_beyond_its_share_reclaims_nothing_from_itself() -> None:
    town = Town(project("a", quota=2), project("b", quota=6))
    town.waits("theirs", "b", group(gpus=6))
    victim = whole(town.runs("v", "a", group(gpus=6)))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    assert shares["a"].share == gpus(2)
    assert not Reclaim(snapshot, shares, whole(town.waits("w", "a"))).admits([victim])
    assert Reclaim(snapshot, shares, whole(town.waits("other", "b"))).admits([victim])
