"""What an enforced policy takes from whom, decision by decision: reservations first, and never what is of no use."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_protections.kit import rules

from bailiff_core.lifecycle.enforcement import enforcement
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.resources import add
from bailiff_core.model.state import Job, Task
from bailiff_core.scheduling_snapshot import current_snapshot

NOTHING_ELSE = {"quota": {"gpus": 8}}


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a")
    made.node("b")
    return made


def enforced(
    sketch: Sketch, department: Any = None, project: Any = None, *, enforce: bool = True, other: int = 0, beside: Any = None
) -> list[tuple[str, str, str]]:
    """Kind, job and tasks of each decision once the department `dept`, and its projects, have these bounds."""
    projects = [{"name": "dept", **NOTHING_ELSE, **(department or {})}]
    projects += [
        {"name": "p", "parent": "dept", **NOTHING_ELSE, **(project or {})},
        {"name": "other", "parent": "dept", "quota": {"gpus": other}, **(beside or {})},
    ]
    sketch.state.policy, sketch.state.enforcing = rules(projects=projects), enforce
    sketch.state.indices.snapshot = None
    return [(type(each).__name__, each.job, each.tasks) for each in enforcement(sketch.state)]  # type: ignore[attr-defined]


def runs(sketch: Sketch, name: str, need: TaskGroup, priority: int, project: str = "p", phase: Any = "running") -> Job:
    """A job of one task on the next free devices of node a."""
    job = sketch.job(name, need, priority=priority)
    job.project = project
    used = sum(len(other.tasks) and other.tasks[0].devices.bit_count() for other in sketch.state.jobs.values())
    return sketch.at(job, ("a", range(used, used + need.gpu_milli // 1000)), phase=phase)


def moves(sketch: Sketch, name: str, need: TaskGroup, priority: int, project: str = "p") -> Job:
    """The same, which is being evicted from there, and has the same reserved on node b."""
    job = runs(sketch, name, need, priority, project, phase="evicting")
    job.reservation = [Task(0, 1, job.tasks[0].devices, "reserved")]
    add(sketch.state.nodes[1].reserved, *task_resources(sketch.state.nodes[1], need, job.tasks[0].devices))
    return job


@pytest.mark.parametrize("has", [runs, moves])
def test_a_policy_that_is_not_enforced_takes_nothing(sketch: Sketch, has: Any) -> None:
    has(sketch, "job", group(gpus=2), 50)
    bounds = {"limit": {"gpus": 1}}
    assert enforced(sketch, project=bounds, enforce=False) == []
    assert len(enforced(sketch, project=bounds)) == 1


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_thousandth_of_a_cpu_is_something(sketch: Sketch, has: Any, kind: str) -> None:
    has(sketch, "job", group(cpu_milli=1), 50)
    assert enforced(sketch, project={"limit": {"cpus": 0}}) == [(kind, "job", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_job_without_gpus_keeps_its_cpus_while_gpus_are_taken(sketch: Sketch, has: Any, kind: str) -> None:
    """For the department's limit `middle` and `large` are taken. Then `middle` would fit again, but not beside `cpus`, whose
    project has only one CPU: that job was never in excess, so it stays.
    """
    has(sketch, "cpus", group(cpu=1), 10)
    has(sketch, "middle", group(gpus=1, cpu=1), 20)
    has(sketch, "large", group(gpus=2), 30, "other")
    has(sketch, "top", group(gpus=1), 40, "other")
    found = enforced(sketch, {"limit": {"gpus": 2}}, {"limit": {"cpus": 1}})
    assert sorted(found) == [(kind, "large", ""), (kind, "middle", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_preemptible_job_is_not_taken_for_the_quota_of_work_that_is_not_preemptible(
    sketch: Sketch, has: Any, kind: str
) -> None:
    """As above: without `middle` and `large` the department is within its quota again, and `cheap` was never in the way."""
    has(sketch, "cheap", group(gpus=1, cpu=1), 10)
    for name, need, priority, project in (
        ("middle", group(gpus=1, cpu=1), 20, "p"),
        ("large", group(gpus=2), 30, "other"),
        ("top", group(gpus=1), 40, "other"),
    ):
        has(sketch, name, need, priority, project).preemptible = False
    found = enforced(sketch, {"quota": {"gpus": 2, "cpus": 9}}, {"quota": {"gpus": 8, "cpus": 9}, "limit": {"cpus": 1}}, other=8)
    assert sorted(found) == [(kind, "large", ""), (kind, "middle", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_job_of_another_project_does_not_go_for_the_limit_of_a_project(sketch: Sketch, has: Any, kind: str) -> None:
    """`p` needs only `cheap` to go. For the GPUs of `other`, of which `large` alone has too many, `dear` is of no use."""
    has(sketch, "cheap", group(cpu=8), 10)
    has(sketch, "dear", group(gpus=1, cpu=8), 20)
    has(sketch, "large", group(gpus=2), 30, "other")
    found = enforced(sketch, project={"limit": {"cpus": 8}}, beside={"limit": {"gpus": 1}})
    assert sorted(found) == [(kind, "cheap", ""), (kind, "large", "")]


def test_a_reservation_that_goes_for_the_department_counts_once_for_its_project(sketch: Sketch) -> None:
    moves(sketch, "first", group(gpus=1), 10)
    moves(sketch, "second", group(gpus=1), 20)
    found = enforced(sketch, {"limit": {"gpus": 1}}, {"limit": {"gpus": 0}})
    assert sorted(found) == [("ReservationDropped", "first", ""), ("ReservationDropped", "second", "")]


def elastic(sketch: Sketch, *groups: TaskGroup, minimum: int, phase: Any = "running") -> Job:
    """Tasks of one GPU each, or of none, on node a."""
    job = sketch.job("elastic", *groups)
    job.project, job.demand = "p", job.demand.model_copy(update={"min_tasks": minimum})
    devices = iter(range(8))
    return sketch.at(job, *(("a", [next(devices)] if need.gpu_milli else []) for need in job.groups()), phase=phase)


def test_surplus_without_gpus_goes_with_the_gpus_above_it(sketch: Sketch) -> None:
    elastic(sketch, group(2, gpus=1), group(1, cpu=1), minimum=1)
    assert enforced(sketch, project={"limit": {"gpus": 1}}) == [("EvictionDecided", "elastic", "1-2")]


def test_of_a_job_that_runs_only_what_is_reserved_goes_where_that_is_enough(sketch: Sketch) -> None:
    job = elastic(sketch, group(3, gpus=1), minimum=1)
    job.reservation = [Task(index, 1, 1 << index, "reserved") for index in (1, 2)]
    assert enforced(sketch, project={"limit": {"gpus": 3}}) == [("ReservationDropped", "elastic", "1-2")]


def test_what_has_not_started_goes_first_whatever_its_priority(sketch: Sketch) -> None:
    runs(sketch, "low", group(gpus=1), 10)
    runs(sketch, "reserved", group(gpus=1), 50, phase="reserved")
    assert enforced(sketch, project={"limit": {"gpus": 1}}) == [("ReservationDropped", "reserved", "")]


def test_of_a_reserved_job_surplus_alone_may_go(sketch: Sketch) -> None:
    elastic(sketch, group(3, gpus=1), minimum=1, phase="reserved")
    assert enforced(sketch, project={"limit": {"gpus": 2}}) == [("EvictionDecided", "elastic", "2")]
    assert enforced(sketch, project={"limit": {"gpus": 0}}) == [("ReservationDropped", "elastic", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_of_what_would_be_too_much_the_most_valuable_job_that_may_stay_stays(sketch: Sketch, has: Any, kind: str) -> None:
    """All three go until the limit holds. Then `high` does not fit, `middle` does, and beside it `low` does not."""
    for name, gpus, priority in (("low", 2, 10), ("middle", 1, 20), ("high", 3, 30)):
        has(sketch, name, group(gpus=gpus), priority)
    assert sorted(enforced(sketch, project={"limit": {"gpus": 2}})) == [(kind, "high", ""), (kind, "low", "")]


@pytest.mark.parametrize("has", [runs, moves])
def test_of_equal_jobs_the_later_ones_go_in_the_order_in_which_they_were_submitted(sketch: Sketch, has: Any) -> None:
    for name in ("c", "b", "a"):
        has(sketch, name, group(gpus=1), 50)
    assert [job for _, job, _ in enforced(sketch, project={"limit": {"gpus": 1}})] == ["b", "a"]


def test_beside_a_job_that_goes_whole_a_lesser_one_may_stay(sketch: Sketch) -> None:
    runs(sketch, "cheap", group(gpus=2), 10)
    job = elastic(sketch, group(1, gpus=1), group(1, gpus=1), minimum=1)
    job.demand = job.demand.model_copy(update={"tasks": (group(1, gpus=3), group(1, gpus=1))})
    assert enforced(sketch, project={"limit": {"gpus": 2}}) == [("EvictionDecided", "elastic", "")]


@pytest.mark.parametrize("has", [runs, moves])
def test_what_is_tried_leaves_the_use_of_the_projects_as_it_is(sketch: Sketch, has: Any) -> None:
    has(sketch, "job", group(gpus=2), 50)
    assert len(enforced(sketch, project={"limit": {"gpus": 1}})) == 1
    assert current_snapshot(sketch.state).usage.allocated("p") == ResourceVector(2000)


@pytest.mark.parametrize(
    ("need", "limit", "reason"),
    [
        (group(gpus=1, cpu=2), {"gpus": 1, "cpus": 1}, "project p uses 2 of its limit of 1 CPUs"),
        (group(gpus=2, cpu=2), {"gpus": 1, "cpus": 1}, "project p uses 2 of its limit of 1 GPUs"),
        (group(memory_bytes=2**30), {"memory": 2**30 - 1}, "project p uses 1 of its limit of 0.999 GiB of memory"),
    ],
    ids=("CPUs", "GPUs first", "a byte"),
)
def test_the_reason_names_the_first_resource_of_which_there_is_too_much(
    sketch: Sketch, need: TaskGroup, limit: Any, reason: str
) -> None:
    runs(sketch, "job", need, 50)
    enforced(sketch, project={"limit": limit})
    assert [each.reason for each in enforcement(sketch.state)] == [f"the policy is enforced: {reason}"]  # type: ignore[attr-defined]
