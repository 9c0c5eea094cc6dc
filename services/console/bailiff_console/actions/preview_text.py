"""Texts and rows shared by the previews."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NotRequired

from typing_extensions import TypedDict

from bailiff.client.answers import not_found
from bailiff.client.errors import JobNotFound, NodeNotFound
from bailiff.client.preview import Forecast
from bailiff.render.serializers.victims import AffectedView, affected
from bailiff_core.humanize import count_text
from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Job, Node, PoolState
from bailiff_core.model.units import has_resources
from bailiff_core.model.work_lost import NO_LOSS, eviction_loss
from bailiff_core.records import decisions
from bailiff_core.views import Effect, chosen_victim, tasks_of, victim_view

MOST_NAMED = 8


class ErrorRow(TypedDict):
    """Why a request would be rejected. location: the field, if any. line: in the submitted document."""

    location: str
    detail: str
    line: NotRequired[int | None]


class PreviewAnswer(TypedDict):
    """The effects of a request. errors: why it would be rejected now, or may not be made."""

    sentences: list[str]
    affected: list[AffectedView]
    errors: list[ErrorRow]


def error_row(detail: str) -> ErrorRow:
    """An error of the whole request."""
    return {"location": "", "detail": detail}


@dataclass
class Preview:
    """sentences: the effects, in order. affected: rows of affected jobs. errors: why the request would be rejected now."""

    sentences: list[str] = field(default_factory=list)
    affected: list[AffectedView] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def to_data(self) -> PreviewAnswer:
        """As JSON."""
        return {"sentences": self.sentences, "affected": self.affected, "errors": [error_row(text) for text in self.errors]}


def job_of(state: PoolState, name: str) -> Job:
    """The job. Raises `NotFound`."""
    found = state.jobs.get(name)
    if found is None:
        raise not_found(JobNotFound, name, state)
    return found


def node_of(state: PoolState, name: str) -> Node:
    """The node. Raises `NotFound`."""
    if name not in state.node_numbers:
        raise not_found(NodeNotFound, name, state)
    return state.nodes[state.node_numbers[name]]


@dataclass(frozen=True, slots=True)
class Gains:
    """Jobs that get resources only because of the request, with the nodes: they start, or run already and get more tasks."""

    starts: dict[str, list[str]]
    grows: dict[str, list[str]]

    def __bool__(self) -> bool:
        return bool(self.starts or self.grows)

    def text(self) -> str:
        """`a (n1) and b (n2) can start, c (n1) can get more tasks`."""
        parts = [f"{_named(self.starts)} can start"] if self.starts else []
        parts += [f"{_named(self.grows)} can get more tasks"] if self.grows else []
        return ", ".join(parts)

    def rows(self, state: PoolState) -> Iterator[AffectedView]:
        """state: after the forecast."""
        effects: tuple[tuple[Effect, dict[str, list[str]]], ...] = (("starts", self.starts), ("grows", self.grows))
        for effect, gained in effects:
            for name, nodes in gained.items():
                job = state.jobs[name]
                yield affected(job, job.tasks, victim_view(state, job, job.tasks, NO_LOSS, effect, nodes), 0)


def gains(found: Forecast, baseline: Forecast, except_job: str = "") -> Gains:
    """except_job: a job to omit."""
    return Gains(_gained(found.placed(), baseline.placed(), except_job), _gained(found.grown(), baseline.grown(), except_job))


def _gained(found: dict[str, list[str]], before: dict[str, list[str]], except_job: str) -> dict[str, list[str]]:
    return {job: nodes for job, nodes in found.items() if job != except_job and job not in before}


def _named(gained: dict[str, list[str]]) -> str:
    return listed(f"{name} ({first_of(nodes)})" for name, nodes in gained.items())


def row(state: PoolState, job: Job, effect: Effect, to: Sequence[str] = (), tasks: Sequence[int] | None = None) -> AffectedView:
    members = [task for task in job.tasks if tasks is None or task.index in tasks]
    leaving = [task for task in members if has_resources(task)]
    loss = eviction_loss(state, job, leaving, whole=tasks is None, moved=effect != "ends")
    return affected(job, members, victim_view(state, job, members, loss, effect, to), grace_of(state, job))


def victims(state: PoolState, found: Forecast) -> Iterator[AffectedView]:
    for decision in found.now:
        for choice in decision.victims if isinstance(decision, decisions.PreemptionDecided) else ():
            view, job = chosen_victim(state, choice), state.jobs[choice.job]
            yield affected(job, tasks_of(job, choice.tasks), view, grace_of(state, job))


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
