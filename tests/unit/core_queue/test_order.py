"""Order in which a pass tries pending jobs."""

from fractions import Fraction
from typing import Any

import pytest
from tests.kits.builders import MINUTE, group
from tests.kits.pools import Bench, Town, Trials, entitled, gpus, project, whole

from bailiff_core.model.demand import SubGroup
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.queue import schedule_timeout
from bailiff_core.queue.order import Pass, try_key
from bailiff_core.quota import usage as usage_module

# --- order in which a pass tries pending jobs


def tried(town: Town, shares: dict[str, ResourceVector] | None = None, *, placed: bool = False) -> list[str]:
    """All jobs in the order of one pass; `placed`: each gets what it asks for."""
    snapshot = town.snapshot()
    order = Pass(
        snapshot,
        [town.state.jobs[name] for name in town.state.queue],
        None if shares is None else entitled(snapshot.usage.tree, shares),
    )
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
        {"a": 3, "b": 2},
        {"a": 1, "b": 1},
        {"a": gpus(2), "b": gpus(2)},
        ["b", "a"],
    ),
    "within quota with the unit comes first": (
        [project("a", quota=2, priority=9), project("b", quota=3)],
        {"a": 2, "b": 2},
        {"a": 1, "b": 1},
        {"a": PLENTY, "b": PLENTY},
        ["b", "a"],
    ),
    "then the priority of projects": (
        [project("a"), project("b", priority=1)],
        {"b": 3},
        {"a": 1, "b": 1},
        {"a": PLENTY, "b": PLENTY},
        ["b", "a"],
    ),
    "who would use what it has no share of comes last": (
        [project("a"), project("b")],
        {"b": 8},
        {"a": 1, "b": 1},
        {"a": gpus(0), "b": gpus(8)},
        ["b", "a"],
    ),
    "the smaller dominant share with the unit": (
        [project("a"), project("b")],
        {"a": 1, "b": 1},
        {"a": 1, "b": 1},
        {"a": gpus(4), "b": gpus(8)},
        ["b", "a"],
    ),
    "then the smaller dominant share without it": (
        [project("a"), project("b")],
        {"a": 2, "b": 1},
        {"a": 1, "b": 2},
        {"a": PLENTY, "b": PLENTY},
        ["b", "a"],
    ),
    "then the smaller allocatable share": (
        [project("a"), project("b")],
        {"a": 2, "b": 1},
        {"a": 2, "b": 1},
        {"a": gpus(8), "b": gpus(4)},
        ["b", "a"],
    ),
    "then the older": (
        [project("a", created=2), project("b", created=1)],
        {},
        {"a": 1, "b": 1},
        {"a": PLENTY, "b": PLENTY},
        ["b", "a"],
    ),
    "then the order of the policy": ([project("a"), project("b")], {}, {"b": 1, "a": 1}, None, ["a", "b"]),
}


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
    order = Pass(
        snapshot,
        [town.state.jobs[name] for name in town.state.queue],
        entitled(snapshot.usage.tree, dict.fromkeys("abc", PLENTY)),
    )
    first = order.next()
    snapshot.usage.evict(whole(victim))
    second = order.next()
    assert [first and first.job.id, second and second.job.id] == ["c1", "a1"]


# --- rules of waiting jobs, one by one: which are due, which let others pass, and where they stand in the order


# --- timers


@pytest.mark.parametrize(
    ("about", "due"),
    [({}, True), ({"cancelled": True}, False), ({"timeout_recorded": True}, False), ({"phase": "running"}, False)],
)
def test_the_schedule_timeout_is_due_for_pending_jobs_that_go_on_waiting(about: dict[str, Any], due: bool) -> None:
    bench = Bench(protections={"schedule_timeout": {"after": "5m"}})
    job = bench.waiting("x")
    job.submitted_at = 7
    for name, value in about.items():
        setattr(job, name, value)
    assert schedule_timeout.due(bench.state, job) == (7 + 5 * MINUTE if due else None)


# --- the order


def test_a_complete_job_stands_with_those_at_their_minimum() -> None:
    town = Town()
    rigid = town.runs("rigid", "", group(count=2, gpus=1), minimum=2)
    grown = town.runs("grown", "", group(count=3, gpus=1), minimum=2)
    lacks = town.runs("lacks", "", group(count=2, gpus=1), minimum=2, placed=1)
    assert [try_key(job)[1] for job in (lacks, rigid, grown)] == [0, 1, 2], "before them those that lack tasks to their minimum"


def test_a_project_whose_first_job_asks_for_nothing_offers_the_next() -> None:
    town = Town(project("team"))
    complete, waits = town.runs("a", "team", priority=75), town.waits("b", "team")
    order = Pass(town.snapshot(), [complete, waits])  # type: ignore[arg-type]
    unit = order.next()
    assert unit is not None
    assert unit.job.id == "b"
    assert order.next() is None


def test_the_order_is_right_although_the_changes_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "MAX_JOURNAL", 0)
    town = Town(project("a"), project("b"))
    for name in ("a1", "a2", "b1"):
        town.waits(name, name[0])
    snapshot = town.snapshot()
    order = Pass(snapshot, list(town.state.jobs.values()))  # type: ignore[arg-type]
    found = order.next()
    assert found is not None
    assert found.job.id == "a1"
    snapshot.usage.evict(whole(town.state.jobs["b1"]))
    snapshot.usage.refresh(town.state, [])
    assert snapshot.usage.changes_since(0) is None
    rest = [order.next(), order.next(), order.next()]
    assert [None if unit is None else unit.job.id for unit in rest] == ["a2", "b1", None]


def test_a_project_without_any_share_of_memory_comes_after_one_with_some() -> None:
    none = {"gpus": -1, "cpus": -1, "memory": 0}
    town = Town(project("a", limit=none), project("b"), gpus=0)
    byte = group(memory_bytes=1)
    jobs = [town.waits(name, name, byte) for name in ("a", "b")]
    shares = entitled(town.snapshot().usage.tree, dict.fromkeys("ab", ResourceVector(0, 0, 1)))
    order = Pass(town.snapshot(), jobs, shares)  # type: ignore[arg-type]
    keys = {name: order._key(name, whole(town.state.jobs[name])) for name in "ab"}
    assert (keys["a"][3], keys["b"][3]) == (True, False)


def test_a_job_that_asked_for_nothing_is_tried_again_once_it_asks() -> None:
    """A task of it was lost meanwhile."""
    town = Town(project("team"))
    complete = town.runs("a", "team", group(2, gpus=1), minimum=1)
    order = Pass(town.snapshot(), [complete])  # type: ignore[arg-type]
    assert order.next() is None
    del complete.tasks[1]
    order.put_back(complete)
    unit = order.next()
    assert unit is not None
    assert unit.indices == (1,)


def claimed(town: Town) -> Trials:
    """The pool, all of which counts since a job could use it."""
    town.waits("any", "a")
    return town.snapshot()


def test_of_projects_that_are_entitled_to_nothing_their_part_of_the_pool_decides() -> None:
    order = Pass(claimed(Town(project("a"), gpus=8)), [])  # type: ignore[arg-type]
    assert order._dominant(gpus(2), gpus(0)) == (1, Fraction(1, 4))
    assert order._dominant(gpus(2, 500), gpus(0)) == (1, Fraction(1, 2)), "the greatest part, of 1000 CPUs"
    assert order._dominant(gpus(2, 500), gpus(4, 2000)) == (0, Fraction(1, 2))


def test_a_share_of_nothing_counts_more_than_any_part_of_another_share() -> None:
    order = Pass(claimed(Town(project("a"), gpus=8)), [])  # type: ignore[arg-type]
    assert order._dominant(gpus(1, 500), gpus(0, 500)) == (1, Fraction(1, 8)), "and all of its CPUs"
    assert order._dominant(gpus(4, 1), gpus(4, 0)) == (1, Fraction(1, 1000)), "and all of its GPUs"
