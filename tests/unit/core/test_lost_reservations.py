"""Reservations whose resources somebody keeps, and reservations over a limit: which of them are dropped."""

import pytest
from tests.builders import Sketch, group
from tests.unit.core_protections.kit import rules

from bailiff_core.lifecycle.enforcement import enforcement
from bailiff_core.lifecycle.reservations import reservations
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resources import add
from bailiff_core.model.state import Job, Task
from bailiff_core.records.decisions import Decision, ReservationDropped

HALF, MOST, WHOLE = group(gpu_share_milli=500), group(gpu_share_milli=600), group(gpus=1)


def dropped(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(each.job, each.reason) for each in decisions if isinstance(each, ReservationDropped)]


@pytest.mark.parametrize(
    ("stays", "leaves", "waits", "is_lost"),
    [
        (HALF, None, HALF, False),
        (MOST, None, HALF, True),
        (HALF, None, WHOLE, True),
        (None, HALF, WHOLE, False),
        (None, MOST, HALF, False),
        (HALF, HALF, HALF, False),
        (HALF, HALF, WHOLE, True),
    ],
)
def test_a_reservation_is_lost_if_too_much_of_its_gpu_stays_in_use(
    stays: TaskGroup | None, leaves: TaskGroup | None, waits: TaskGroup, is_lost: bool
) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    for name, phase, need in (("stays", "running", stays), ("leaves", "evicting", leaves)):
        if need is not None:
            sketch.at(sketch.job(name, need), ("a", [0]), phase=phase)  # type: ignore[arg-type]
    sketch.at(sketch.job("waits", waits), ("a", [0]), phase="reserved")
    sketch.state.reserved["waits"] = None
    assert dropped(list(reservations(sketch.state))) == ([("waits", "resources-lost")] if is_lost else [])


def moving(sketch: Sketch, name: str, project: str, *, priority: int = 50, preemptible: bool = True, cpu: int = 0) -> Job:
    """It is being evicted from one GPU, or only from CPUs, and the same is reserved for it on node b."""
    number = len(sketch.state.active)
    job = sketch.job(name, group(cpu=cpu) if cpu else group(gpus=1), priority=priority, preemptible=preemptible)
    job.project = project
    sketch.at(job, ("a", [] if cpu else [number]), phase="evicting")
    job.reservation = [Task(0, 1, 0 if cpu else 1 << number, "reserved")]
    add(sketch.state.nodes[1].reserved, *task_resources(sketch.state.nodes[1], job.group(0), job.reservation[0].devices))
    return job


def enforced(sketch: Sketch, **of_a: object) -> list[str]:
    """The jobs whose reservations are dropped once project a has these bounds."""
    sketch.state.policy = rules(projects=[{"name": "a", "quota": {"gpus": 8}, **of_a}, {"name": "b"}])
    sketch.state.enforcing = True
    sketch.state.indices.snapshot = None
    decisions = list(enforcement(sketch.state))
    assert len(dropped(decisions)) == len(decisions), "nobody who runs is evicted"
    return [job for job, _ in dropped(decisions)]


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a")
    made.node("b")
    return made


def test_over_a_limit_the_reservation_of_the_lowest_priority_goes_and_of_the_youngest(sketch: Sketch) -> None:
    moving(sketch, "outside", "b", priority=10)
    moving(sketch, "first", "a")
    moving(sketch, "cpus", "a", priority=20, cpu=4)
    moving(sketch, "second", "a")
    moving(sketch, "dear", "a", priority=75)
    assert enforced(sketch, limit={"gpus": 3}) == []
    assert enforced(sketch, limit={"gpus": 2}) == ["second"]
    assert sorted(enforced(sketch, limit={"gpus": 1})) == ["first", "second"]
    assert sorted(enforced(sketch, limit={"gpus": 0})) == ["dear", "first", "second"]
    assert enforced(sketch, limit={"cpus": 3}) == ["cpus"]


def test_over_a_quota_only_reservations_of_work_that_is_not_preemptible_go(sketch: Sketch) -> None:
    moving(sketch, "preemptible", "a", priority=10)
    moving(sketch, "fixed", "a", preemptible=False)
    moving(sketch, "fixed-too", "a", preemptible=False)
    assert enforced(sketch, quota={"gpus": 1}) == ["fixed-too"]


def test_a_reservation_stays_where_one_that_goes_for_another_limit_is_enough(sketch: Sketch) -> None:
    """The department would drop the reservation of the lowest priority; project a has to drop one of its own anyway."""
    moving(sketch, "low", "b", priority=10)
    moving(sketch, "first", "a")
    moving(sketch, "second", "a")
    projects = [
        {"name": "dept", "limit": {"gpus": 2}},
        {"name": "a", "parent": "dept", "limit": {"gpus": 1}},
        {"name": "b", "parent": "dept"},
    ]
    sketch.state.policy, sketch.state.enforcing = rules(projects=projects), True
    assert dropped(list(enforcement(sketch.state))) == [("second", "policy")]
