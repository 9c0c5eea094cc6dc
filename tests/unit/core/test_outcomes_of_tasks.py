"""What the exits of tasks mean for their job, as tables: which rule applies, whose exit counts, when a gang saves together."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.lifecycle.coordinated_checkpoint import common_step
from bailiff_core.lifecycle.devices import device_evictions
from bailiff_core.lifecycle.outcome import EXIT_0_AFTER_NOTICE, gang_verdict, rule_of, verdict
from bailiff_core.model.evictions import ActiveEviction
from bailiff_core.model.state import Eviction, Job, Task

EVICTION = Eviction(1, "preemption", 30_000_000)


def task(index: int = 0, state: Any = "exited", **about: Any) -> Task:
    return Task(index, 0, 0, state, **about)


def gang(*tasks: Task, evicted: bool = False) -> Job:
    job = Sketch().job("job", group(max(2, len(tasks)), gpus=1))
    job.tasks, job.phase, job.eviction = list(tasks), "running", EVICTION if evicted else None
    return job


@pytest.mark.parametrize(
    ("about", "applies"),
    [
        ({"exit_code": 0, "noticed": True}, True),
        ({"exit_code": 0, "term_sent": True}, True),
        ({"exit_code": 0}, False),
        ({"exit_code": 0, "noticed": True, "reported_done": True}, False),
        ({"exit_code": 0, "noticed": True, "acknowledged": True}, False),
        ({"exit_code": 85, "noticed": True}, False),
    ],
)
def test_exit_0_after_a_notice_is_a_rule_of_its_own_for_one_task_of_the_gang(about: dict[str, Any], applies: bool) -> None:
    job = gang(task(**about), task(1, exit_code=85, noticed=True))
    assert rule_of(job, "preempted") == (EXIT_0_AFTER_NOTICE if applies else "")


@pytest.mark.parametrize(
    ("noticed", "alone", "found"), [(True, True, "preempted-unclean"), (False, True, "failed"), (True, False, "failed")]
)
def test_a_failure_after_the_notice_of_a_task_that_is_evicted_singly_is_unclean(noticed: bool, alone: bool, found: str) -> None:
    assert verdict(task(exit_code=1, noticed=noticed, eviction=EVICTION if alone else None)) == found


@pytest.mark.parametrize(
    ("tasks", "evicted", "found"),
    [
        ((task(exit_code=0), task(1, exit_code=1, eviction=EVICTION)), False, "finished"),
        ((task(exit_code=1, eviction=EVICTION), task(1, "running")), False, "failed"),
        ((task(exit_code=0, eviction=EVICTION), task(1, exit_code=1, eviction=EVICTION)), False, "failed"),
        ((task(exit_code=0, acknowledged=True), task(1, exit_code=1, noticed=True)), True, "preempted-unclean"),
        ((task(exit_code=0, acknowledged=True), task(1, exit_code=1, noticed=True)), False, "failed"),
        ((task(exit_code=0, acknowledged=True), task(1, exit_code=1)), True, "failed"),
        ((task(exit_code=0, noticed=True), task(1, exit_code=1, noticed=True)), True, "failed"),
    ],
)
def test_the_outcome_of_a_gang_is_the_worst_of_those_that_count(tasks: tuple[Task, ...], evicted: bool, found: str) -> None:
    assert gang_verdict(gang(*tasks, evicted=evicted)) == found


def rank(index: int, **about: Any) -> Task:
    return task(index, **{"state": "running", "attached": True, "noticed": True, "notice_step": 10, **about})


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        ((rank(0), rank(1, notice_step=13)), (15, False)),
        ((rank(0, notice_step=None), rank(1, notice_step=None)), (2, False)),
        # 100 steps per second for two round trips of 0.1 s are 20 steps, of the fastest rank
        ((rank(0, notice_step_rate_milli=100_000), rank(1, notice_step_rate_milli=1_000)), (30, False)),
        # a step more than two, however little of it: 1.001 steps per second for twice 0.999001 s are 2.000000002 steps
        ((rank(0, notice_step_rate_milli=1_001, stage_times={"noticed": 999_001}), rank(1)), (13, False)),
        ((rank(0, notice_step_rate_milli=1_500, stage_times={"noticed": 1_000_000}), rank(1)), (13, False)),
        ((rank(0, attached=False, notice_step_rate_milli=100_000), rank(1)), (12, False)),
        ((rank(0, confirmed_step=12), rank(1, confirmed_step=12)), (12, True)),
        ((rank(0, confirmed_step=12), rank(1, confirmed_step=14)), (14, False)),
        ((rank(0, noticed=False), rank(1)), None),
        ((rank(0, state="exited"), rank(1)), None),
        ((rank(0, attached=False), rank(1, attached=False)), None),
        ((rank(0),), None),
    ],
)
def test_the_step_at_which_a_gang_saves_together(ranks: tuple[Task, ...], found: Any) -> None:
    started = Eviction(1, "preemption", 30_000_000, started_at=0)
    assert common_step(ActiveEviction(gang(*ranks), started, list(ranks), "")) == found
    assert common_step(ActiveEviction(gang(*ranks), started, list(ranks), "0-1")) is None, "a part does not save together"
    assert common_step(ActiveEviction(gang(*ranks), EVICTION, list(ranks), "")) is None, "it has not begun"


@pytest.mark.parametrize(
    ("about", "decided"),
    [
        ({"device_failed": True}, ("device", "a device of a failed and recovered")),
        ({"over_share": True}, ("over-share", "task 0 uses more of its GPU than its share")),
        ({"device_failed": True, "over_share": True}, ("device", "a device of a failed and recovered")),
        ({}, None),
    ],
)
@pytest.mark.parametrize("evicting", [False, True])
def test_a_job_with_a_broken_device_is_evicted_once(about: dict[str, Any], decided: Any, evicting: bool) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    job = sketch.running("job", "a", [0])
    for name, value in about.items():
        setattr(job.tasks[0], name, value)
    job.eviction = EVICTION if evicting else None
    sketch.state.indices.touched["job"] = None
    found = [(each.cause, each.reason) for each in device_evictions(sketch.state)]  # type: ignore[attr-defined]
    assert found == ([decided] if decided and not evicting else [])


def test_the_fault_of_a_device_that_is_still_broken_is_the_reason() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=2)
    job = sketch.running("job", "a", range(2))
    job.tasks[0].device_failed = True
    node.devices[1].healthy, node.devices[1].fault = False, "xid 79"
    sketch.state.indices.touched["job"] = None
    (found,) = device_evictions(sketch.state)
    assert found.reason == "a-1 of a: xid 79"  # type: ignore[attr-defined]
    node.devices[1].fault = "x" * 2000
    (found,) = device_evictions(sketch.state)
    assert found.reason == f"a-1 of a: {'x' * 1000}"[:1000]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("others", "tasks"), [(("running", "running"), "0"), (("exited", "running"), "0"), (("exited", "exited"), "")]
)
def test_a_job_whose_last_task_is_on_a_broken_device_is_evicted_whole_although_others_have_succeeded(
    others: tuple[Any, ...], tasks: str
) -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    job = sketch.at(sketch.job("job", group(3, gpus=1)), ("a", [0]), ("a", [1]), ("a", [2]))
    job.demand = job.demand.model_copy(update={"min_tasks": 2})
    job.tasks[0].device_failed = True
    for member, state in zip(job.tasks[1:], others, strict=True):
        member.state, member.exit_code = state, 0 if state == "exited" else None
    sketch.state.indices.touched["job"] = None
    (found,) = device_evictions(sketch.state)
    assert found.tasks == tasks  # type: ignore[attr-defined]
