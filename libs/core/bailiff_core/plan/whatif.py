"""What would become of one more job: the live rules on a copy of the pool, with victims found at once."""

import dataclasses
from typing import Literal

from bailiff_core.engine import LOGIC
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Pool
from bailiff_core.placement.ever import could_ever_fit
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision
from bailiff_core.turn import decide
from bailiff_core.victims.batch import select_batch

from .build import NOTHING, happens, request
from .look import decision_line, node_names, waiting_lines
from .report import DecisionLine, WaitLine

MOST_SELECTIONS = 100
Outcome = Literal["starts", "reserved", "displaces", "waits", "rejected"]


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What would happen to the job. places: the nodes of its tasks, by index. ahead: jobs before it in the queue."""

    job: str
    outcome: Outcome
    reason: str = ""
    places: tuple[str, ...] = ()
    decision: DecisionLine | None = None
    waits: WaitLine | None = None
    ahead: int = 0


def what_if(pool: Pool, demand: JobDemand, now: int) -> Answer:
    """The answer for a job submitted at `now`, µs. `pool` is only read."""
    refused = _rejected(pool, demand)
    if refused is not None:
        return Answer(demand.job, "rejected", refused)
    trial = from_snapshot(to_snapshot(dataclasses.replace(pool, turn_open=False)))
    submitted = facts.JobSubmitted(request=request(f"what if {demand.job}"), demand=demand, spec_digest=NOTHING)
    happens(trial, submitted, at=max(now, trial.now), close=False)
    return _told(trial, demand.job, until_at_rest(trial))


def _rejected(pool: Pool, demand: JobDemand) -> str | None:
    """Why admission would not take the job at all."""
    rules = pool.rules
    if demand.job in pool.jobs:
        return f"there is a job {demand.job!r} already ({pool.jobs[demand.job].phase})"
    if rules.find_class(demand.priority_class) is None:
        known = ", ".join(entry.name for entry in rules.priority_classes)
        return f"there is no priority class {demand.priority_class!r}; the policy has {known}"
    names = [project.name for project in rules.projects]
    if demand.project is not None and demand.project not in names:
        return f"there is no project {demand.project!r}; the policy has {', '.join(names) or 'none'}"
    return could_ever_fit(pool, demand) if pool.nodes else None


def until_at_rest(pool: Pool) -> list[Decision]:
    """All decisions of the turn, every request for victims answered."""
    made = list(decide(pool))
    for _ in range(MOST_SELECTIONS):
        if pool.selection is None:
            break
        answers = select_batch(pool, pool.selection.requests, pool.rules.preemption.search_steps)
        proposal = facts.ProposalReceived(number=pool.selection.number, computed_at=pool.seq, logic=LOGIC, answers=tuple(answers))
        happens(pool, proposal, close=False)
        made += decide(pool)
    return made


def _told(pool: Pool, name: str, made: list[Decision]) -> Answer:
    job = pool.jobs[name]
    names = {each.id: [f"{each.id}-{index}" for index in range(each.size)] for each in pool.jobs.values()}
    ahead = pool.queue.index(name) if name in pool.queue else 0
    places = node_names(pool, job.tasks)
    for decision in reversed(made):
        line = decision_line(pool, names, decision)
        if line is None or line.job != name:
            continue
        if isinstance(decision, decisions.PreemptionDecided):
            return Answer(name, "displaces", line.reason, places, line)
        return Answer(name, "reserved" if line.outcome == "reserved" else "starts", line.reason, places, line)
    waits = waiting_lines(pool, {name: names[name]}, made)
    reason = waits[0].reason if waits else ""
    return Answer(name, "waits", reason, waits=waits[0] if waits else None, ahead=ahead)
