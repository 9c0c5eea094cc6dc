"""Previews a submission: the live rules for one more job on a copy of the state, with victims selected immediately."""

import dataclasses
from typing import Literal

from bailiff_core.decision_cycle import decide
from bailiff_core.engine import LOGIC
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.state import PoolState
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision
from bailiff_core.victims.batch import compute_proposals

from .build import NOTHING, append_facts, request
from .report import DecisionLine, PendingLine
from .report_builder import decision_line, node_names, pending_lines

MAX_SELECTIONS = 100
Outcome = Literal["starts", "reserved", "preempts", "pending", "rejected"]


@dataclasses.dataclass(frozen=True, slots=True)
class WhatIfResult:
    """Outcome of the submission. places: nodes of the job's tasks, by index. ahead: number of jobs ahead of it in the queue."""

    job: str
    outcome: Outcome
    reason: str = ""
    places: tuple[str, ...] = ()
    decision: DecisionLine | None = None
    pending: PendingLine | None = None
    ahead: int = 0


def what_if(state: PoolState, demand: JobDemand, now: int) -> WhatIfResult:
    """The result for a job submitted at `now`, µs. `state` is unchanged."""
    refused = _rejected(state, demand)
    if refused is not None:
        return WhatIfResult(demand.job, "rejected", refused)
    trial = from_snapshot(to_snapshot(dataclasses.replace(state, cycle_open=False)))
    submitted = facts.JobSubmitted(request=request(f"what if {demand.job}"), demand=demand, spec_digest=NOTHING)
    append_facts(trial, submitted, at=max(now, trial.now), close=False)
    return _result_for(trial, demand.job, decide_until_stable(trial))


def _rejected(state: PoolState, demand: JobDemand) -> str | None:
    """Why admission would reject the job."""
    rules = state.rules
    if demand.job in state.jobs:
        return f"there is a job {demand.job!r} already ({state.jobs[demand.job].phase})"
    if rules.find_class(demand.priority_class) is None:
        known = ", ".join(entry.name for entry in rules.priority_classes)
        return f"there is no priority class {demand.priority_class!r}; the policy has {known}"
    names = [project.name for project in rules.projects]
    if demand.project is not None and demand.project not in names:
        return f"there is no project {demand.project!r}; the policy has {', '.join(names) or 'none'}"
    return could_ever_fit(state, demand) if state.nodes else None


def decide_until_stable(state: PoolState) -> list[Decision]:
    """All decisions until no preemption request is open."""
    decisions_made = list(decide(state))
    for _ in range(MAX_SELECTIONS):
        if state.selection is None:
            break
        proposal = facts.ProposalReceived(
            selection=state.selection.number, computed_at=state.seq, logic=LOGIC, proposals=compute_proposals(state)
        )
        append_facts(state, proposal, close=False)
        decisions_made += decide(state)
    return decisions_made


def _result_for(state: PoolState, name: str, decisions_made: list[Decision]) -> WhatIfResult:
    job = state.jobs[name]
    names = {each.id: [f"{each.id}-{index}" for index in range(each.size)] for each in state.jobs.values()}
    ahead = state.queue.index(name) if name in state.queue else 0
    places = node_names(state, job.tasks)
    for decision in reversed(decisions_made):
        line = decision_line(state, names, decision)
        if line is None or line.job != name:
            continue
        if isinstance(decision, decisions.PreemptionDecided):
            return WhatIfResult(name, "preempts", line.reason, places, line)
        return WhatIfResult(name, "reserved" if line.outcome == "reserved" else "starts", line.reason, places, line)
    pending = pending_lines(state, {name: names[name]}, decisions_made)
    reason = pending[0].reason if pending else ""
    return WhatIfResult(name, "pending", reason, pending=pending[0] if pending else None, ahead=ahead)
