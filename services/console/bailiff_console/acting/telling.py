"""Words and rows that previews share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bailiff.foreseen import Foreseen
from bailiff.present.drains import AffectedRow
from bailiff.present.jobs import gpus_of_tasks
from bailiff.problem import ExitCode, Problem
from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.loss import held_gpu_milli, lost_gpu_ms
from bailiff_core.model.places import numbers, ranges
from bailiff_core.model.pool import Job, Node, Pool
from bailiff_core.records import decisions
from bailiff_core.words import count_text

MOST_NAMED = 8


@dataclass
class Preview:
    """sentences: what it would cause, in order. affected: whom. faults: why it would be refused as things are."""

    sentences: list[str] = field(default_factory=list)
    affected: list[AffectedRow] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        """For the page."""
        faults = [{"where": "", "text": text} for text in self.faults]
        return {"sentences": self.sentences, "affected": self.affected, "faults": faults}


def job_of(pool: Pool, name: str) -> Job:
    """The job. Raises `Problem` where the pool has none of that name."""
    found = pool.jobs.get(name)
    if found is None:
        raise Problem(ExitCode.NOT_FOUND, f"there is no job {name!r} in {pool.domain}")
    return found


def node_of(pool: Pool, name: str) -> Node:
    """The node. Raises `Problem` where the pool has none of that name."""
    if name not in pool.node_numbers:
        raise Problem(ExitCode.NOT_FOUND, f"there is no node {name!r} in {pool.domain}")
    return pool.nodes[pool.node_numbers[name]]


def news(found: Foreseen, otherwise: Foreseen, but: str) -> dict[str, list[str]]:
    """Who gets a place because of the request, and would not have got one anyway."""
    before = otherwise.placed()
    return {job: nodes for job, nodes in found.placed().items() if job != but and job not in before}


def row(pool: Pool, job: Job, what: str, to: Sequence[str] = (), tasks: Sequence[int] | None = None) -> AffectedRow:
    members = [task for task in job.tasks if tasks is None or task.index in tasks]
    return {
        "job": job.id,
        "priority_class": job.class_name,
        "priority": job.priority,
        "what": what,
        "to": list(to),
        "tasks": ranges(task.index for task in members),
        "gpus": gpus_of_tasks(job.group(task.index) for task in members),
        "grace_s": grace_of(pool, job) // 1_000_000,
        "lost_gpu_ms": lost_gpu_ms(pool, job, held_gpu_milli(pool, job, members)),
    }


def starting(pool: Pool, got: dict[str, list[str]]) -> Iterator[AffectedRow]:
    for name, nodes in got.items():
        yield {**row(pool, pool.jobs[name], "starts", nodes), "grace_s": 0, "lost_gpu_ms": 0}


def victims(pool: Pool, found: Foreseen) -> Iterator[AffectedRow]:
    for decision in found.now:
        for choice in decision.victims if isinstance(decision, decisions.PreemptionDecided) else ():
            what = (
                "promise goes elsewhere"
                if choice.reserved
                else "moves"
                if choice.goes_on
                else "shrinks"
                if choice.tasks
                else "leaves"
            )
            tasks = list(numbers(choice.tasks)) if choice.tasks else None
            found_row = row(pool, pool.jobs[choice.job], what, found.nodes(choice.moved), tasks)
            yield {**found_row, "lost_gpu_ms": choice.lost_gpu_ms}


def ahead(pool: Pool, job: str) -> str:
    waits = [name for name in pool.queue if name not in pool.active]
    ahead = waits.index(job) if job in waits else 0
    return f", with {count_text(ahead, 'job')} before it" if ahead else ""


def some(names: Iterable[str]) -> str:
    all_of_them = list(names)
    more = f" and {len(all_of_them) - MOST_NAMED} more" if len(all_of_them) > MOST_NAMED else ""
    return ", ".join(all_of_them[:MOST_NAMED]) + more


def listed(names: Iterable[str]) -> str:
    all_of_them = list(names)
    if len(all_of_them) > MOST_NAMED:
        return some(all_of_them)
    return " and ".join([", ".join(all_of_them[:-1]), all_of_them[-1]] if len(all_of_them) > 1 else all_of_them)
