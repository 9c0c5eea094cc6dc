"""Checks of limits, quotas and reclaim."""

import pytest
from tests.builders import GIB, group
from tests.unit.core_queue.kit import Town, Trials, gpus, project, surplus, whole

from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.queue.order import shares_now
from bailiff_core.quota.quota_checks import may_reclaim, over_limit, over_quota
from bailiff_core.quota.reclaim import Reclaim


def test_a_limit_applies_at_every_ancestor() -> None:
    town = Town(project("lab", limit=8), project("a", "lab", limit=6), project("b", "lab"))
    town.runs("r", "a", group(gpus=4))
    town.runs("s", "b", group(gpus=3))
    snapshot = town.snapshot()
    assert over_limit(snapshot, whole(town.waits("small", "a"))) is None
    assert over_limit(snapshot, whole(town.waits("big", "a", group(gpus=3)))) == "project a would use 7 of its limit of 6 GPUs"
    assert (
        over_limit(snapshot, whole(town.waits("other", "b", group(gpus=2)))) == "project lab would use 9 of its limit of 8 GPUs"
    )
    assert over_limit(snapshot, whole(town.waits("cpu", "b", group(cpu=99)))) is None


def test_limits_are_checked_without_the_victims() -> None:
    town = Town(project("a", limit=4))
    victim = town.runs("r", "a", group(gpus=4))
    unit = whole(town.waits("w", "a", group(gpus=2)))
    snapshot = town.snapshot()
    assert over_limit(snapshot, unit) == "project a would use 6 of its limit of 4 GPUs"
    snapshot.usage.evict(whole(victim))
    assert over_limit(snapshot, unit) is None


def test_a_job_is_not_refused_for_a_resource_that_it_does_not_request() -> None:
    town = Town(project("a", limit=2, quota=2))
    town.runs("from-before-the-limit-was-lowered", "a", group(gpus=4), preemptible=False)
    unit = whole(town.waits("w", "a", group(cpu=1), preemptible=False))
    snapshot = town.snapshot()
    assert (over_limit(snapshot, unit), over_quota(snapshot, unit)) == (None, None)


def test_other_resources_are_named_in_readable_units() -> None:
    town = Town(project("a", limit={"cpus": 1.5, "memory": "3GiB"}))
    snapshot = town.snapshot()
    assert over_limit(snapshot, whole(town.waits("x", "a", group(cpu=2)))) == "project a would use 2 of its limit of 1.5 CPUs"
    assert over_limit(snapshot, whole(town.waits("y", "a", group(gib=4)))) == (
        "project a would use 4 of its limit of 3 GiB of memory"
    )


def test_a_request_in_bytes_is_refused_only_where_no_device_fits_and_finally_by_its_placement() -> None:
    town = Town(project("a", limit={"gpus": 0.2}), gpus=2, memory=(40, 80))
    unit = whole(town.waits("w", "a", group(gpu_share_bytes=10 * GIB)))
    snapshot = town.snapshot()
    assert over_limit(snapshot, unit) is None
    assert over_limit(snapshot, unit, GangPlacement((TaskPlacement(0, 0, 0b10),), future=False)) is None
    small = over_limit(snapshot, unit, GangPlacement((TaskPlacement(0, 0, 0b01),), future=False))
    assert small == "project a would use 0.25 of its limit of 0.2 GPUs"


def test_more_than_the_limit_never_reads_like_the_limit() -> None:
    town = Town(project("a", limit={"memory": 3 * GIB + 1}))
    unit = whole(town.waits("w", "a", group(memory_bytes=3 * GIB + 2)))
    assert over_limit(town.snapshot(), unit) == "project a would use 3.001 of its limit of 3 GiB of memory"


def test_non_preemptible_jobs_stay_within_quota_at_every_ancestor() -> None:
    town = Town(project("lab", quota=5), project("a", "lab", quota=4), project("b", "lab", quota=4))
    town.runs("borrows", "a", group(gpus=4))
    town.runs("serves", "b", group(gpus=3), preemptible=False)
    snapshot = town.snapshot()
    assert over_quota(snapshot, whole(town.waits("free", "a", group(gpus=9)))) is None
    assert over_quota(snapshot, whole(town.waits("fits", "a", group(gpus=2), preemptible=False))) is None
    assert over_quota(snapshot, whole(town.waits("more", "a", group(gpus=3), preemptible=False))) == (
        "project lab would use 6 of its quota of 5 GPUs for work that is not preemptible"
    )
    assert over_quota(snapshot, whole(town.waits("most", "a", group(gpus=5), preemptible=False))) == (
        "project a would use 5 of its quota of 4 GPUs for work that is not preemptible"
    )


def test_without_projects_there_are_no_bounds() -> None:
    town = Town()
    unit = whole(town.waits("w", "", group(gpus=4), preemptible=False))
    snapshot = town.snapshot()
    assert (over_limit(snapshot, unit), over_quota(snapshot, unit)) == (None, None)


def test_a_job_that_would_exceed_its_fair_share_reclaims_nothing() -> None:
    town = Town(project("a", quota=2), project("b", quota=6))
    town.runs("r", "a", group(gpus=1))
    town.runs("s", "b", group(gpus=7))
    one, two = whole(town.waits("one", "a")), whole(town.waits("two", "a", group(gpus=2)))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    assert shares["a"] == gpus(2)
    assert may_reclaim(snapshot, shares, one) is None
    assert may_reclaim(snapshot, shares, two) == "project a would use 3 of its fair share of 2 GPUs"


def test_a_non_preemptible_job_reclaims_within_quota_only() -> None:
    town = Town(project("a", quota=2), project("b", quota=2))
    town.runs("s", "b", group(gpus=8))
    free, fixed = (whole(town.waits(name, "a", group(gpus=3), preemptible=name == "free")) for name in ("free", "fixed"))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    assert shares["a"] == gpus(4)
    assert may_reclaim(snapshot, shares, free) is None
    assert may_reclaim(snapshot, shares, fixed) == (
        "project a would use 3 of its quota of 2 GPUs for work that is not preemptible"
    )


def departments() -> Town:
    return Town(
        project("lab", quota=4), project("shop", quota=4),
        project("a", "lab", quota=2), project("b", "lab", quota=2), project("z", "shop", quota=4),
    )  # fmt: skip


def test_the_loser_is_just_below_the_lowest_common_ancestor() -> None:
    town = departments()
    preemptor, near, far = (town.waits(name, name) for name in ("a", "b", "z"))
    snapshot = town.snapshot()
    reclaim, other = (Reclaim(snapshot, shares_now(snapshot), whole(job)) for job in (preemptor, far))
    assert (reclaim.losing_project(near), reclaim.losing_project(far)) == ("b", "shop")
    assert other.losing_project(preemptor) == "lab"


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


def test_a_job_without_the_overused_resource_is_not_reclaimed() -> None:
    """b exceeds its quota of GPUs by its gang of GPUs alone; its CPUs have no bound."""
    town = Town(project("a", quota=4), project("b", quota=0))
    trains = whole(town.runs("trains", "b", group(gpus=2)))
    prepares = whole(town.runs("prepares", "b", group(gpus=0, cpu=2)))
    preemptor = whole(town.waits("preemptor", "a", group(gpus=0, cpu=2)))
    snapshot = town.snapshot()
    reclaim = Reclaim(snapshot, shares_now(snapshot), preemptor)
    assert reclaim.admits([trains])
    assert not reclaim.admits([prepares])
    assert not reclaim.admits([trains, prepares])


def test_an_endless_quota_is_never_exceeded() -> None:
    _, reclaim, units = over_share(4, gpus_asked=2, quota_a=2, quota_b=-1)
    assert not reclaim.admits(units)


def test_every_loser_is_checked_by_itself() -> None:
    town = departments()
    town.runs("own", "a", group(gpus=1))
    near = whole(town.runs("near", "b", group(gpus=3)))
    far = whole(town.runs("far", "z", group(gpus=4)))
    preemptor = whole(town.waits("preemptor", "a"))
    snapshot = town.snapshot()
    reclaim = Reclaim(snapshot, shares_now(snapshot), preemptor)
    assert reclaim.admits([near])
    assert not reclaim.admits([far])
    assert not reclaim.admits([near, far])


def test_the_result_does_not_depend_on_evictions_in_the_snapshot() -> None:
    snapshot, reclaim, units = over_share(4, 4, gpus_asked=4, quota_a=4, quota_b=4)
    for unit in units:
        snapshot.usage.evict(unit)
    assert reclaim.admits(units[:1])
    assert not reclaim.admits(units)


def test_no_job_reclaims_from_its_own_project() -> None:
    town = Town(project("a", quota=1))
    victim = whole(town.runs("v", "a", group(gpus=8)))
    snapshot = town.snapshot()
    assert not Reclaim(snapshot, shares_now(snapshot), whole(town.waits("w", "a"))).admits([victim])


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
    reclaim = Reclaim(snapshot, shares, preemptor)
    assert (reclaim.imbalance([victim]) is None) is balanced
    if not balanced:
        assert reclaim.imbalance([victim]) == (
            "project lab would use 6 of its fair share of 4 GPUs, a larger part of it than project shop would keep"
        )


def test_departments_entitled_to_nothing_do_not_take_from_each_other_for_ever() -> None:
    """Their projects have quotas that the departments do not cover: each project is entitled, and no department is."""
    town = Town(
        project("lab", weight=0), project("shop", weight=0), project("a", "lab", quota=2), project("z", "shop", quota=2)
    )  # fmt: skip
    victim = whole(town.runs("z1", "z"))
    preemptor = whole(town.waits("preemptor", "a"))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    assert (shares["lab"], shares["shop"]) == (ResourceVector(), ResourceVector())
    assert may_reclaim(snapshot, shares, preemptor) is None
    reclaim = Reclaim(snapshot, shares, preemptor)
    assert reclaim.admits([victim])
    assert reclaim.imbalance([victim]) is not None
    town.runs("z2", "z")
    snapshot = town.snapshot()
    assert Reclaim(snapshot, shares, preemptor).imbalance([victim]) is None  # one each is no worse than two and none


def test_a_project_above_its_share_may_reclaim_while_the_sibling_stays_fuller_or_lost_nothing() -> None:
    town = departments()
    town.runs("b", "b", group(gpus=4))
    near = whole(town.runs("b2", "b"))
    far = whole(town.runs("z", "z", group(gpus=1)))
    town.runs("z2", "z", group(gpus=8))
    preemptor = whole(town.waits("preemptor", "a"))
    snapshot = town.snapshot()
    shares = {"lab": gpus(4), "shop": gpus(4), "a": gpus(3), "b": gpus(2), "z": gpus(4)}
    assert Reclaim(snapshot, shares, preemptor).imbalance([near]) is None  # shop lost nothing
    assert Reclaim(snapshot, shares, preemptor).imbalance([far]) is None  # lab 6/4, shop 8/4
    assert (
        Reclaim(snapshot, {**shares, "lab": gpus(3)}, preemptor).imbalance([far]) is not None
    )  # 6/3 and 8/4: as full is too full
    assert (
        Reclaim(snapshot, {**shares, "shop": ResourceVector()}, preemptor).imbalance([far]) is None
    )  # a sibling entitled to nothing is no measure
