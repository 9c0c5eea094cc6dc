"""Reclaim does not reverse an imbalance: each resource, and projects with hardly any share or none."""

import pytest
from tests.builders import GIB, group
from tests.unit.core_queue.kit import Town, gpus, project, whole

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.quota_checks import may_reclaim
from bailiff_core.quota.reclaim import Reclaim


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
    reclaim = Reclaim(town.snapshot(), {"a": share, "b": share}, whole(town.waits("preemptor", "a", each)))  # type: ignore[arg-type]
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
        reclaim = Reclaim(town.snapshot(), {"a": even, "b": least}, preemptor)  # type: ignore[arg-type]
        assert reclaim.admits([victim]) is admitted


def test_a_sibling_with_the_least_share_is_a_measure_one_with_none_is_not() -> None:
    town = Town(project("a"), project("b"))
    town.runs("a", "a", group(gpus=4))
    victim = whole(town.runs("b", "b", group(gpus=1)))
    preemptor = whole(town.waits("preemptor", "a"))
    for least, balanced in ((0, True), (1, False), (2, False)):
        shares = {"a": gpus(4), "b": ResourceVector(least, 0, 0)}
        assert (Reclaim(town.snapshot(), shares, preemptor).imbalance([victim]) is None) == balanced  # type: ignore[arg-type]


def test_a_project_beyond_its_share_reclaims_nothing_from_itself() -> None:
    town = Town(project("a", quota=2), project("b", quota=6))
    town.waits("theirs", "b", group(gpus=6))
    victim = whole(town.runs("v", "a", group(gpus=6)))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    assert shares["a"] == gpus(2)
    assert not Reclaim(snapshot, shares, whole(town.waits("w", "a"))).admits([victim])
    assert Reclaim(snapshot, shares, whole(town.waits("other", "b"))).admits([victim])


@pytest.mark.parametrize(("each", "unit"), [(group(cpu=1), "CPUs"), (group(gib=1), "GiB of memory")])
def test_beyond_its_fair_share_of_cpus_or_memory_a_project_reclaims_nothing(each: TaskGroup, unit: str) -> None:
    town = Town(project("a"), project("b"))
    preemptor = whole(town.waits("preemptor", "a", each))
    for amount, refused in ((1, False), (0, True)):
        share = ResourceVector(0, 1000 * amount, GIB * amount)
        why = may_reclaim(town.snapshot(), {"a": share}, preemptor)  # type: ignore[arg-type]
        assert why == (f"project a would use 1 of its fair share of 0 {unit}" if refused else None)
