"""What an enforced policy takes from whom, decision by decision: reservations first, and never what is of no use."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_protections.kit import rules

from bailiff_core.lifecycle.enforcement import enforcement
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resources import add
from bailiff_core.model.state import Job, Task

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


def test_a_preemptible_job_is_not_taken_for_the_quota_of_work_that_is_not_preemptible(sketch: Sketch) -> None:
    """As above: without `middle` and `large` the department is within its quota again, and `cheap` was never in the way."""
    runs(sketch, "cheap", group(gpus=1, cpu=1), 10)
    for name, need, priority, project in (
        ("middle", group(gpus=1, cpu=1), 20, "p"),
        ("large", group(gpus=2), 30, "other"),
        ("top", group(gpus=1), 40, "other"),
    ):
        runs(sketch, name, need, priority, project).preemptible = False
    found = enforced(sketch, {"quota": {"gpus": 2, "cpus": 9}}, {"quota": {"gpus": 8, "cpus": 9}, "limit": {"cpus": 1}}, other=8)
    assert sorted(found) == [("EvictionDecided", "large", ""), ("EvictionDecided", "middle", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_job_of_another_project_does_not_go_for_the_limit_of_a_project(sketch: Sketch, has: Any, kind: str) -> None:
    """`other` needs only `cheap` to go. For the GPUs of `p`, which `large` alone has too many of, `dear` is of no use."""
    has(sketch, "cheap", group(cpu=8), 10, "other")
    has(sketch, "dear", group(gpus=1, cpu=8), 20, "other")
    has(sketch, "large", group(gpus=2), 30)
    found = enforced(sketch, project={"limit": {"gpus": 1}}, beside={"limit": {"cpus": 8}})
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


def test_of_a_reserved_job_surplus_alone_may_go(sketch: Sketch) -> None:
    elastic(sketch, group(3, gpus=1), minimum=1, phase="reserved")
    assert enforced(sketch, project={"limit": {"gpus": 2}}) == [("EvictionDecided", "elastic", "2")]
    assert enforced(sketch, project={"limit": {"gpus": 0}}) == [("ReservationDropped", "elastic", "")]
