"""Decisions job by job: a job that a rule does not concern keeps none behind it from being decided about."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.lifecycle.dependencies import dependencies
from bailiff_core.lifecycle.devices import device_evictions
from bailiff_core.lifecycle.evictions import cancelled_evictions_of_preemptions
from bailiff_core.lifecycle.operator_actions import drains
from bailiff_core.lifecycle.termination import broken_attempts, cancelled_jobs
from bailiff_core.model.state import Drain, Eviction, Job, PoolState
from bailiff_core.records.payload import Decision


def place(sketch: Sketch, *names: str, tasks: int = 1) -> list[Job]:
    """Running jobs on node a, whose tasks have one GPU each."""
    jobs = []
    for name in names:
        used = sum(len(job.tasks) for job in sketch.state.jobs.values())
        job = sketch.job(name, group(tasks, gpus=1))
        jobs.append(sketch.at(job, *(("a", [used + number]) for number in range(tasks))))
        sketch.state.indices.touched[name] = None
    return jobs


def drained(sketch: Sketch) -> None:
    for job in place(sketch, "evicting", "runs")[:1]:
        job.phase = "evicting"
    sketch.state.nodes[0].drain, sketch.state.draining = Drain(1, "quick", due=True), {0: None}


def broken_devices(sketch: Sketch) -> None:
    first, second = place(sketch, "evicting", "runs")
    first.tasks[0].device_failed = second.tasks[0].device_failed = True
    first.phase, first.eviction = "evicting", Eviction(1, "drain", 5)


def broken_gangs(sketch: Sketch) -> None:
    first, second = place(sketch, "evicting", "runs", tasks=2)
    for job in (first, second):
        job.tasks[0].state, job.tasks[0].exit_code = "exited", 1
    first.phase = "evicting"


def cancelled(sketch: Sketch) -> None:
    for name in ("kept", "waits"):
        sketch.job(name).cancelled = name == "waits"
        sketch.state.indices.touched[name] = None


def free_to_start(sketch: Sketch) -> None:
    for name in ("cancelled", "waits"):
        job = sketch.job(name)
        job.phase, job.cancelled = "waiting", name == "cancelled"
        sketch.state.indices.touched[name] = None


def unneeded(sketch: Sketch, first: Eviction, *, exited: bool = False) -> None:
    """The second is evicted for a preemption that is over, the first for another reason."""
    jobs = place(sketch, "evicting", "runs", tasks=2)
    for job, eviction in zip(jobs, (first, Eviction(3, "preemption", 5, preemption=7, for_job="gone")), strict=True):
        job.phase, job.eviction = "evicting", eviction
        sketch.state.evicting[job.id] = None
    if exited:
        jobs[0].tasks[0].state = "exited"


def of_a_cancelled_job(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "cancelled", 5))


def of_a_job_that_does_not_move_after_all(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "migration", 5))


def of_a_node_that_is_drained_no_more(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "drain", 5))


def of_a_job_one_task_of_which_has_exited(sketch: Sketch) -> None:
    unneeded(sketch, Eviction(2, "preemption", 5, preemption=6, for_job="gone", started_seq=4), exited=True)


@pytest.mark.parametrize(
    ("prepare", "decide", "decided"),
    [
        (drained, drains, ["EvictionDecided runs"]),
        (broken_devices, device_evictions, ["EvictionDecided runs"]),
        (broken_gangs, broken_attempts, ["EvictionDecided runs"]),
        (cancelled, cancelled_jobs, ["JobEnded waits"]),
        (free_to_start, dependencies, ["DependenciesMet waits"]),
        (of_a_cancelled_job, cancelled_evictions_of_preemptions, ["EvictionCancelled runs"]),
        (of_a_job_that_does_not_move_after_all, cancelled_evictions_of_preemptions,
         ["EvictionCancelled evicting", "EvictionCancelled runs"]),
        (of_a_node_that_is_drained_no_more, cancelled_evictions_of_preemptions,
         ["EvictionCancelled evicting", "EvictionCancelled runs"]),
        (of_a_job_one_task_of_which_has_exited, cancelled_evictions_of_preemptions, ["EvictionCancelled runs"]),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_a_rule_passes_a_job_that_it_does_not_concern(
    prepare: Callable[[Sketch], None], decide: Callable[[PoolState], Iterator[Decision]], decided: list[str]
) -> None:
    sketch = Sketch()
    sketch.node("a")
    prepare(sketch)
    found: list[Any] = list(decide(sketch.state))
    assert [f"{type(each).__name__} {each.job}" for each in found] == decided
