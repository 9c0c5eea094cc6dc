"""Amounts of one: a thousandth of a GPU or CPU, a byte; and what is counted of GPUs of several sizes, failed or gone."""

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import GIB, group
from tests.unit.core_protections.kit import MINUTE, Bench
from tests.unit.core_queue.kit import Town, gpus, project, surplus, whole

from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.model.state import Task
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.quota import usage as usage_module
from bailiff_core.quota.demand_vector import DeviceScale, of_places
from bailiff_core.quota.fair_share import fair_shares
from bailiff_core.quota.project_cooldown import _borrows, next_cooldown_end
from bailiff_core.quota.quota_checks import _exceeded_resource, above_limit
from bailiff_core.quota.reclaim import Losses, Reclaim, _has_below, _ProjectLosses
from bailiff_core.quota.usage import Usage

AT = pytest.mark.parametrize("at", [0, 1, 2], ids=("GPUs", "CPUs", "memory"))


def one(at: int, amount: int = 1, others: int = 0) -> ResourceVector:
    """This amount of one resource, and another one of the others."""
    return ResourceVector(*(amount if place == at else others for place in range(3)))


# --- bounds


@AT
def test_the_least_request_beyond_a_bound_exceeds_it(at: int) -> None:
    full, free = one(at, 5, UNLIMITED), one(at, 6, UNLIMITED)
    used = one(at, 5)
    assert _exceeded_resource(used, one(at), full) == at
    assert _exceeded_resource(used, one(at), free) is None
    assert _exceeded_resource(used, ZERO, one(at, 4, UNLIMITED)) is None, "nothing is requested of what is exceeded already"
    assert _borrows(used, one(at), full)
    assert not _borrows(used, one(at), free)
    assert not _borrows(used, ZERO, one(at, 4, UNLIMITED))
    assert not _borrows(used, one(at), one(at, UNLIMITED, 0)), "without a bound nothing is borrowed"


def test_one_project_above_its_limit_is_enough() -> None:
    for limits in ((1, 9), (9, 1)):
        town = Town(project("lab", limit=limits[0]), project("vision", "lab", limit=limits[1]))
        job = town.runs("job", "vision", group(gpus=2))
        assert above_limit(town.snapshot(), job)  # type: ignore[arg-type]
    town = Town(project("lab", limit=2), project("vision", "lab", limit=2))
    assert not above_limit(town.snapshot(), town.runs("job", "vision", group(gpus=2)))  # type: ignore[arg-type]


# --- fair shares


def shares(total: int, *wants: int, priorities: tuple[int, ...] = ()) -> list[Any]:
    """Of so many bytes of memory, the share of each project, which wants so many."""
    given = priorities or (0,) * len(wants)
    projects = [project(f"p{n}", quota={"gpus": 0, "memory": 0}, priority=given[n]) for n in range(len(wants))]
    tree = ProjectTree(tuple(projects))
    requested = {f"p{n}": one(2, want) for n, want in enumerate(wants)}
    found = fair_shares(tree, one(2, total), {**requested, "": one(2, sum(wants))})
    return [found[f"p{n}"].memory_bytes for n in range(len(wants))]


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
    margin = tuple(1 if place == at else None for place in range(3))
    assert _has_below(at, one(at), ZERO, margin)
    assert not _has_below(at, one(at), one(at), margin)
    assert not _has_below(at, ZERO, ZERO, margin)


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


def test_where_the_place_is_known_the_preemptor_counts_as_on_its_gpus() -> None:
    """Half of a GPU of 40 GiB, a quarter of one of 80."""
    town = Town(project("a"), project("b"), memory=(40, 80), gpus=2)
    victim = whole(town.runs("b", "b", group(gpus=1)))
    unit = whole(town.waits("asks", "a", group(gpu_share_bytes=20 * GIB)))
    snapshot = town.snapshot()
    demands = [
        Reclaim(snapshot, {}, unit, place)._demand.gpu_milli  # type: ignore[arg-type]
        for place in (None, *(GangPlacement((TaskPlacement(0, 0, mask),), future=False) for mask in (0b01, 0b10)))
    ]
    assert demands == [500, 500, 250]
    assert Losses(Reclaim(snapshot, {"a": gpus(1), "b": gpus(0)}, unit), snapshot.usage).take(victim)  # type: ignore[arg-type]


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


def test_the_size_that_is_assumed_is_that_of_gpus_whose_size_is_known_and_not_of_mig_devices() -> None:
    town = Town(gpus=3, memory=(80, 10, 0))
    town.state.nodes[0].devices[1] = replace(town.state.nodes[0].devices[1], kind="mig", profile="1g.10gb")
    usage = Usage.of(town.state)
    assert (usage.smallest.device_bytes, usage.largest.device_bytes) == (80 * GIB, 80 * GIB)


# --- use


def test_a_unit_that_nobody_has_counted_yet_uses_what_it_asks_for() -> None:
    """A job that joined after the use was counted."""
    town = Town(project("a"))
    usage = Usage.of(town.state)
    job = town.runs("late", "a", group(2, gpus=1))
    assert usage.allocated_to(whole(job)) == gpus(2)
    assert usage.allocated_to(surplus(job, 1)) == gpus(1)


def test_a_task_in_bytes_without_a_place_uses_nothing() -> None:
    town = Town(project("a"), memory=(40,), gpus=1)
    job = town.runs("job", "a", group(2, gpu_share_bytes=10 * GIB), minimum=1, placed=1, devices=0b1)
    usage = Usage.of(town.state)
    assert usage.allocated_to(Unit(job, (0, 1), core=True)) == ResourceVector(250, 0, 0)


def test_without_a_policy_all_use_is_that_of_the_pool() -> None:
    town = Town()
    town.state.policy = None
    town.runs("job", "a", group(gpus=2))
    assert Usage.of(town.state).allocated("") == gpus(2)


def test_a_job_whose_next_attempt_has_its_place_already_uses_that() -> None:
    town = Town(project("a"))
    job = town.waits("job", "a", group(gpus=2))
    assert Usage.of(town.state).allocated("a") == ZERO
    job.reservation = [Task(0, 0, 0b11, "reserved")]
    usage = Usage.of(town.state)
    assert (usage.allocated("a"), usage.requested("a")) == (gpus(2), gpus(2))


def test_a_job_that_is_forgotten_is_not_counted() -> None:
    town = Town(project("a"), memory=(40,), gpus=1)
    town.runs("job", "a", group(gpu_share_bytes=10 * GIB), devices=0b1)
    usage = Usage.of(town.state)
    del town.state.jobs["job"]
    usage.refresh(town.state, ["job"])
    assert (usage.allocated("a"), usage.requested("a")) == (ZERO, ZERO)


@pytest.mark.parametrize(("kept", "known"), [(4, True), (3, False)])
def test_only_so_many_changes_of_use_are_remembered(monkeypatch: pytest.MonkeyPatch, kept: int, known: bool) -> None:
    monkeypatch.setattr(usage_module, "MAX_JOURNAL", kept)
    town = Town(project("a"))
    job = town.waits("job", "a")
    usage = Usage.of(town.state)
    seen = usage.position
    usage.place(whole(job), GangPlacement((TaskPlacement(0, 0, 0b1),), future=False))
    usage.refresh(town.state, [])  # project and pool change with the trial, and once more when it is rolled back
    assert (usage.changes_since(seen) is not None) is known


# --- cooldown


def test_the_cooldown_that_ends_first_is_the_next() -> None:
    bench = Bench(projects=[{"name": name} for name in "abc"], protections={"cooldown": {"project": "10m"}})
    now = bench.state.now
    bench.state.reclaimed_at = {"a": now - 4 * MINUTE, "b": now - 7 * MINUTE, "c": now - 10 * MINUTE}
    assert next_cooldown_end(bench.state) == now + 3 * MINUTE
    bench.state.reclaimed_at = {"c": now - 10 * MINUTE}
    assert next_cooldown_end(bench.state) is None
