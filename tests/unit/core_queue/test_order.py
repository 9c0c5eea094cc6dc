"""Order in which a pass tries pending jobs."""

from typing import Any

import pytest
from tests.builders import group
from tests.unit.core_queue.kit import Town, gpus, project, whole

from bailiff_core.model.demand import SubGroup
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.queue.order import Pass, try_key


def tried(town: Town, shares: dict[str, ResourceVector] | None = None, *, placed: bool = False) -> list[str]:
    """All jobs in the order of one pass; `placed`: each gets what it asks for."""
    snapshot = town.snapshot()
    order = Pass(snapshot, [town.state.jobs[name] for name in town.state.queue], shares)
    found = []
    while (unit := order.next()) is not None:
        found.append(unit.job.id)
        if placed:
            snapshot.usage.place(unit, GangPlacement(tuple(TaskPlacement(index, 0, 0) for index in unit.indices), future=False))
    return found


def test_without_projects_priority_then_age_then_id() -> None:
    town = Town()
    town.waits("b-old", "")
    town.waits("a-new", "anything")
    town.waits("urgent", "", priority=75)
    assert tried(town) == ["urgent", "b-old", "a-new"]


def test_below_the_minimum_before_at_it_before_above_it_where_priorities_are_equal() -> None:
    town = Town()
    for name, placed in (("above", 3), ("at", 2)):
        job = town.runs(name, "", group(count=4, gpus=1), minimum=2, placed=placed)
        town.state.queue.append(job.id)
    town.waits("below", "")
    town.waits("urgent", "", priority=75)
    assert tried(town) == ["urgent", "below", "at", "above"]


def test_with_sub_groups_a_job_at_its_minimum_comes_before_one_above_it() -> None:
    """Each has two sub-groups of two tasks, of which one must run; `above` has three tasks."""
    keys = []
    for placed in (2, 3):
        town = Town()
        groups = (group(2, gpus=1, sub_group="a"), group(2, gpus=1, sub_group="b"))
        job = town.runs("job", "", *groups, placed=placed)
        tree = (
            SubGroup(name="root", min_groups=1),
            SubGroup(name="a", parent="root"),
            SubGroup(name="b", parent="root", min_tasks=1),
        )
        job.demand = job.demand.model_copy(update={"sub_groups": tree})
        keys.append(try_key(job)[1])
    assert keys == [1, 2]


def test_a_reinserted_job_requests_its_surplus_after_jobs_below_their_minimum() -> None:
    town = Town()
    elastic = town.waits("elastic", "", group(count=3, gpus=1), minimum=1)
    town.waits("young", "")
    order = Pass(town.snapshot(), [town.state.jobs[name] for name in town.state.queue])
    first = order.next()
    assert first is not None
    assert (first.job.id, first.indices, first.core) == ("elastic", (0,), True)
    stands(elastic, 1)
    order.put_back(elastic)
    second, third = order.next(), order.next()
    assert second is not None
    assert third is not None
    assert second.job.id == "young"
    assert (third.job.id, third.indices, third.core) == ("elastic", (1,), False)
    stands(elastic, 3)
    order.put_back(elastic)
    assert order.next() is None


def test_a_queued_job_is_not_reinserted_twice_and_a_new_one_may_join() -> None:
    town = Town(project("a"))
    first, second = town.waits("first", "a"), town.waits("second", "a")
    order = Pass(town.snapshot(), [first])
    order.put_back(first)
    order.put_back(second)
    found = [order.next(), order.next(), order.next()]
    assert [unit and unit.job.id for unit in found] == ["first", "second", None]


def stands(job: Job, count: int) -> None:
    """The fold has placed so many of its tasks."""
    job.tasks = Town().runs("x", "", group(count=count)).tasks


# Each line: the projects; who runs with how many GPUs; who waits; the shares if not as computed; the order.
Line = tuple[list[Any], dict[str, float], dict[str, float], dict[str, ResourceVector] | None, list[str]]
PLENTY = gpus(9, 9, 9)
TABLE: dict[str, Line] = {
    "above its fair share comes after": (
        [project("a", quota=8, priority=9), project("b", quota=8)],
        {"a": 3, "b": 2}, {"a": 1, "b": 1}, {"a": gpus(2), "b": gpus(2)}, ["b", "a"],
    ),
    "within quota with the unit comes first": (
        [project("a", quota=2, priority=9), project("b", quota=3)],
        {"a": 2, "b": 2}, {"a": 1, "b": 1}, {"a": PLENTY, "b": PLENTY}, ["b", "a"],
    ),
    "then the priority of projects": (
        [project("a"), project("b", priority=1)],
        {"b": 3}, {"a": 1, "b": 1}, {"a": PLENTY, "b": PLENTY}, ["b", "a"],
    ),
    "who would use what it has no share of comes last": (
        [project("a"), project("b")],
        {"b": 8}, {"a": 1, "b": 1}, {"a": gpus(0), "b": gpus(8)}, ["b", "a"],
    ),
    "the smaller dominant share with the unit": (
        [project("a"), project("b")],
        {"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": gpus(4), "b": gpus(8)}, ["b", "a"],
    ),
    "then the smaller dominant share without it": (
        [project("a"), project("b")],
        {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": PLENTY, "b": PLENTY}, ["b", "a"],
    ),
    "then the smaller allocatable share": (
        [project("a"), project("b")],
        {"a": 2, "b": 1}, {"a": 2, "b": 1}, {"a": gpus(8), "b": gpus(4)}, ["b", "a"],
    ),
    "then the older": (
        [project("a", created=2), project("b", created=1)],
        {}, {"a": 1, "b": 1}, {"a": PLENTY, "b": PLENTY}, ["b", "a"],
    ),
    "then the order of the policy": ([project("a"), project("b")], {}, {"b": 1, "a": 1}, None, ["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize("story", TABLE)
def test_order_of_projects(story: str) -> None:
    projects, runs, waits, shares, order = TABLE[story]
    town = Town(*projects)
    for name, number in runs.items():
        town.runs(f"{name}-runs", name, group(gpus=number))
    for name, number in waits.items():
        town.waits(name, name, group(gpus=number))
    assert tried(town, shares) == order


def test_the_dominant_resource_decides() -> None:
    town = Town(project("a", quota={"cpus": 0}), project("b", quota={"cpus": 0}))
    town.runs("a-runs", "a", group(gpus=1, cpu=2))  # 1/9 of its GPUs, 2/3 of its CPUs
    town.runs("b-runs", "b", group(gpus=4, cpu=1))  # 4/9 and 1/3
    for name in ("a", "b"):
        town.waits(name, name)
    assert tried(town, dict.fromkeys(("a", "b"), gpus(9, cpus=3))) == ["b", "a"]


def test_projects_alternate_as_their_use_grows() -> None:
    town = Town(project("a"), project("b", created=1))
    for number in range(3):
        town.waits(f"a{number}", "a")
        town.waits(f"b{number}", "b")
    assert tried(town, placed=True) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert tried(town) == ["a0", "a1", "a2", "b0", "b1", "b2"]  # nobody got anything: the order stays


def test_departments_first_then_the_projects_in_them() -> None:
    town = Town(project("lab", quota=4), project("shop", quota=4), project("x", "lab"), project("y", "lab"), project("z", "shop"))
    town.runs("runs", "x", group(gpus=2))
    for name in ("x1", "y1", "z1"):
        town.waits(name, name[0])
    assert tried(town, placed=True) == ["z1", "y1", "x1"]


def test_victims_evicted_in_the_meantime_move_their_project_forward() -> None:
    town = Town(project("a"), project("b"), project("c"))
    victim = town.runs("big", "a", group(gpus=4))
    town.runs("middle", "b", group(gpus=3))
    for name in ("c1", "c2", "b1", "a1"):
        town.waits(name, name[0])
    snapshot = town.snapshot()
    order = Pass(snapshot, [town.state.jobs[name] for name in town.state.queue], dict.fromkeys(["a", "b", "c"], PLENTY))
    first = order.next()
    snapshot.usage.evict(whole(victim))
    second = order.next()
    assert [first and first.job.id, second and second.job.id] == ["c1", "a1"]
