"""Texts and rows shared by the previews."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiff.client.errors import ClientError, ExitCode
from bailiff.client.preview import Forecast
from bailiff.render.serializers.drains import AffectedRow
from bailiff.render.serializers.jobs import gpus_of_tasks
from bailiff_core.humanize import count_text
from bailiff_core.model.grace import grace_of
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.model.work_lost import counted_gpu_milli, lost_gpu_ms
from bailiff_core.records import decisions

MOST_NAMED = 8


@dataclass
class Preview:
    """sentences: the effects, in order. affected: rows of affected jobs. errors: why the request would be rejected now."""

    sentences: list[str] = field(default_factory=list)
    affected: list[AffectedRow] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        errors = [{"location": "", "detail": text} for text in self.errors]
        return {"sentences": self.sentences, "affected": self.affected, "errors": errors}


def job_of(state: PoolState, name: str) -> Job:
    """The job. Raises `ClientError` if it does not exist."""
    found = state.jobs.get(name)
    if found is None:
        raise ClientError(ExitCode.NOT_FOUND, f"no job {name!r} in {state.pool}")
    return found


def node_of(state: PoolState, name: str) -> Node:
    """The node. Raises `ClientError` if it does not exist."""
    if name not in state.node_numbers:
        raise ClientError(ExitCode.NOT_FOUND, f"no node {name!r} in {state.pool}")
    return state.nodes[state.node_numbers[name]]


def newly_placed(found: Forecast, baseline: Forecast, except_job: str) -> dict[str, list[str]]:
    """Nodes by job, of jobs that are placed only because of the request. except_job: a job to omit."""
    before = baseline.placed()
    return {job: nodes for job, nodes in found.placed().items() if job != except_job and job not in before}


def row(state: PoolState, job: Job, effect: str, to: Sequence[str] = (), tasks: Sequence[int] | None = None) -> AffectedRow:
    members = [task for task in job.tasks if tasks is None or task.index in tasks]
    return {
        "job": job.id,
        "priority_class": job.class_name,
        "priority": job.priority,
        "effect": effect,
        "to": list(to),
        "tasks": ranges(task.index for task in members),
        "gpus": gpus_of_tasks(job.group(task.index) for task in members),
        "grace_s": grace_of(state, job) // 1_000_000,
        "lost_gpu_ms": lost_gpu_ms(state, job, counted_gpu_milli(state, job, members)),
    }


def starting(state: PoolState, gained: dict[str, list[str]]) -> Iterator[AffectedRow]:
    for name, nodes in gained.items():
        yield {**row(state, state.jobs[name], "starts", nodes), "grace_s": 0, "lost_gpu_ms": 0}


def victims(state: PoolState, found: Forecast) -> Iterator[AffectedRow]:
    for decision in found.now:
        for choice in decision.victims if isinstance(decision, decisions.PreemptionDecided) else ():
            effect = (
                "reservation moves"
                if choice.reserved
                else "migrates"
                if choice.relocated
                else "shrinks"
                if choice.tasks
                else "evicted"
            )
            tasks = list(numbers(choice.tasks)) if choice.tasks else None
            found_row = row(state, state.jobs[choice.job], effect, found.nodes(choice.moved_to), tasks)
            yield {**found_row, "lost_gpu_ms": choice.lost_gpu_ms}


def jobs_ahead(state: PoolState, job: str) -> str:
    pending = [name for name in state.queue if name not in state.active]
    ahead = pending.index(job) if job in pending else 0
    return f", with {count_text(ahead, 'job')} ahead of it" if ahead else ""


def first_of(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more


def listed(names: Iterable[str]) -> str:
    every = list(names)
    if len(every) > MOST_NAMED:
        return first_of(every)
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)
