"""Rules of waiting jobs, one by one: which are due, which let others pass, and where they stand in the order."""

from fractions import Fraction
from typing import Any

import pytest
from tests.builders import group
from tests.unit.core_protections.kit import MINUTE, Bench
from tests.unit.core_queue.kit import Town, gpus, project, whole

from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.queue import preemption_delay, schedule_timeout
from bailiff_core.queue.order import Pass, try_key
from bailiff_core.queue.schedule_timeout import lets_others_pass
from bailiff_core.quota import usage as usage_module

# --- timers


@pytest.mark.parametrize(
    ("phase", "placed", "cancelled", "due"),
    [
        ("pending", 0, False, True),
        ("pending", 0, True, False),
        ("running", 1, False, True),  # it lacks a task
        ("running", 1, True, False),
        ("running", 2, False, False),
        ("evicting", 1, False, False),
    ],
)
def test_the_preemption_delay_ends_for_jobs_that_lack_tasks(phase: Any, placed: int, cancelled: bool, due: bool) -> None:
    bench = Bench(protections={"preemption_delay": "5m"})
    job = bench.running("x", tasks=2, min_tasks=1, phase="evicting" if phase == "evicting" else "running")
    job.phase, job.cancelled, job.submitted_at = phase, cancelled, 7
    del job.tasks[placed:]
    assert preemption_delay.due(bench.state, job) == (7 + 5 * MINUTE if due else None)


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


@pytest.mark.parametrize(
    ("rule", "recorded", "passes"),
    [
        (None, True, False),
        ({"action": "report"}, True, False),
        ({"action": "fail"}, True, False),
        ({"action": "pass"}, True, True),
        ({"action": "pass"}, False, False),
    ],
)
def test_a_job_that_has_timed_out_lets_others_pass_where_the_policy_says_so(rule: Any, recorded: bool, passes: bool) -> None:
    bench = Bench(protections={"schedule_timeout": rule})
    job = bench.waiting("x")
    job.timeout_recorded = recorded
    assert lets_others_pass(bench.state, job) is passes


# --- the order


def test_a_complete_job_stands_with_those_at_their_minimum() -> None:
    town = Town()
    rigid = town.runs("rigid", "", group(count=2, gpus=1), minimum=2)
    grown = town.runs("grown", "", group(count=3, gpus=1), minimum=2)
    lacks = town.runs("lacks", "", group(count=2, gpus=1), minimum=2, placed=1)
    assert [try_key(job)[1] for job in (lacks, rigid, grown)] == [0, 1, 2], "before them those that lack tasks to their minimum"


def test_a_job_that_asks_for_nothing_does_not_end_the_pass() -> None:
    town = Town()
    town.waits("b", "")
    complete = town.runs("a", "", priority=75)
    order = Pass(town.snapshot(), [complete, town.state.jobs["b"]])  # type: ignore[arg-type]
    unit = order.next()
    assert unit is not None
    assert unit.job.id == "b"
    assert order.next() is None


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


@pytest.mark.parametrize("at", [0, 1, 2], ids=("GPUs", "CPUs", "memory"))
def test_the_least_amount_beyond_a_share_of_nothing_counts(at: int) -> None:
    """Thousandths of a GPU or CPU, or a byte: where a project is entitled to nothing of it, it is tried after the others."""
    town = Town(project("a"), project("b"), gpus=0)
    jobs = [town.waits(name, name, group()) for name in ("a", "b")]
    order = Pass(town.snapshot(), jobs, {"a": gpus(1, 1, 1), "b": gpus(1, 1, 1)})  # type: ignore[arg-type]
    least = ResourceVector(*(int(place == at) for place in range(3)))
    entitled, not_entitled = gpus(1, 1, 1), ResourceVector(*(0 if place == at else 9 for place in range(3)))
    assert order._dominant(least, not_entitled)[0] == 1
    assert order._dominant(least, entitled)[0] == 0
    assert order._dominant(ResourceVector(0, 0, 0), not_entitled) == (0, 0)


def test_a_project_without_any_share_of_memory_comes_after_one_with_some() -> None:
    none = {"gpus": -1, "cpus": -1, "memory": 0}
    town = Town(project("a", limit=none), project("b"), gpus=0)
    byte = group(memory_bytes=1)
    jobs = [town.waits(name, name, byte) for name in ("a", "b")]
    shares = {"a": ResourceVector(0, 0, 1), "b": ResourceVector(0, 0, 1)}
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


def test_of_projects_that_are_entitled_to_nothing_their_part_of_the_pool_decides() -> None:
    order = Pass(Town(project("a"), gpus=8).snapshot(), [])  # type: ignore[arg-type]
    assert order._dominant(gpus(2), gpus(0)) == (1, Fraction(1, 4))
    assert order._dominant(gpus(2, 500), gpus(0)) == (1, Fraction(1, 2)), "the greatest part, of 1000 CPUs"
    assert order._dominant(gpus(2, 500), gpus(4, 2000)) == (0, Fraction(1, 2))


def test_a_share_of_nothing_counts_more_than_any_part_of_another_share() -> None:
    order = Pass(Town(project("a"), gpus=8).snapshot(), [])  # type: ignore[arg-type]
    assert order._dominant(gpus(1, 500), gpus(0, 500)) == (1, Fraction(1, 8)), "and all of its CPUs"
    assert order._dominant(gpus(4, 1), gpus(4, 0)) == (1, Fraction(1, 1000)), "and all of its GPUs"
