"""Measures the stages of evictions in log time: from the decision to the preemptor's start, and to the evicted job's return.

What is open is stored with the aggregates, so that an eviction that ends after a crash of the roll-up is measured whole.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts

TaskStage = Literal["notice", "acknowledge", "save", "exit", "release"]
JobStage = Literal["start", "total", "return"]
REACHED: dict[str, TaskStage] = {"noticed": "notice", "acknowledged": "acknowledge", "checkpoint_committed": "save"}
Open = dict[str, dict[str, Any]]  # by job; JSON


class Measured(NamedTuple):
    """A stage that has ended.

    Attributes:
        micros: Since the end of the stage before it.
        node: Of a stage of a task.
    """

    stage: TaskStage | JobStage
    job: str
    micros: int
    node: str = ""


def measure(opened: dict[str, Open], state: PoolState, record: Record) -> Iterator[Measured]:
    """The stages that this record ends.

    Args:
        opened: What is open, which changes.
        state: After the record.
    """
    data, now = record.data, record.time
    victims, preemptors, returning = (opened.setdefault(name, {}) for name in ("victims", "preemptors", "returning"))
    match data:
        case decisions.PreemptionDecided():
            preemptors[data.preemptor.job] = {"decided": now, "released": now}
            for victim in data.new_victims:
                if not victim.reserved:
                    _decide(victims, state, victim.job, victim.tasks if not victim.together else "", now, data.preemptor.job)
        case decisions.EvictionDecided():
            _decide(victims, state, data.job, data.tasks if not data.together else "", now)
        case decisions.MigrationDecided():
            _decide(victims, state, data.job, "", now)
        case facts.EvictionStageReached() if data.stage in REACHED:
            yield from _reached(victims, data, REACHED[data.stage], now)
        case facts.TaskExited():
            yield from _reached(victims, data, "exit", now)
        case facts.TaskReleased():
            yield from _reached(victims, data, "release", now)
            evicted = victims.get(data.job, {"tasks": {}, "for": ""})
            if evicted["tasks"].pop(str(data.task), None) is not None and evicted["for"] in preemptors:
                preemptors[evicted["for"]]["released"] = now
        case facts.TaskStarted() if state.jobs[data.job].last_start is not None:
            if (preemptor := preemptors.pop(data.job, None)) is not None:
                yield Measured("start", data.job, now - preemptor["released"])
                yield Measured("total", data.job, now - preemptor["decided"])
            if (requeued := returning.pop(data.job, None)) is not None:
                yield Measured("return", data.job, now - requeued["at"])
        case decisions.JobRequeued():
            if victims.pop(data.job, None) is not None:
                returning[data.job] = {"at": now}
        case decisions.EvictionCancelled() | decisions.JobShrunk():
            _forget(victims, data.job, data.tasks)
        case decisions.ReservationDropped():
            preemptors.pop(data.job, None)
        case decisions.JobEnded():
            for each in (victims, preemptors, returning):
                each.pop(data.job, None)
        case _:
            pass


def _decide(victims: Open, state: PoolState, job: str, tasks: str, now: int, preemptor: str = "") -> None:
    """Opens the eviction of these tasks, or of all. A task that is evicted already goes on with that."""
    indices: Iterable[int] = numbers(tasks) if tasks else [task.index for task in state.jobs[job].tasks]
    victim = victims.setdefault(job, {"tasks": {}, "for": preemptor})
    victim["for"] = preemptor or victim["for"]
    victim["tasks"] = {**{str(index): now for index in indices}, **victim["tasks"]}


def _reached(victims: Open, data: facts.TaskFact, stage: TaskStage, now: int) -> Iterator[Measured]:
    tasks = victims.get(data.job, {}).get("tasks", {})
    if (before := tasks.get(str(data.task))) is not None:
        tasks[str(data.task)] = now
        yield Measured(stage, data.job, now - before, data.node)


def _forget(victims: Open, job: str, tasks: str) -> None:
    left = victims.get(job, {}).get("tasks", {})
    for index in list(numbers(tasks)) if tasks else list(left):
        left.pop(str(index), None)
    if not left:
        victims.pop(job, None)
