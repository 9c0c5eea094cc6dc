"""Previews a submission: the live rules for one more job on a copy of the state, with victims selected immediately."""

import dataclasses
from typing import Literal

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.decision_cycle import decide
from bailiff_core.engine import LOGIC
from bailiff_core.explain.budgets import would_use
from bailiff_core.explain.dependencies import waits_for_text
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision
from bailiff_core.victims.batch import compute_proposals

from .build import append_facts, request
from .report import DecisionLine, PendingLine
from .report_builder import decision_line, node_names, pending_lines

MAX_SELECTIONS = 100
Outcome = Literal["starts", "reserved", "preempts", "pending", "rejected"]


@dataclasses.dataclass(frozen=True, slots=True)
class WhatIfResult:
    """Outcome of the submission.

    Attributes:
        places: Nodes of the job's tasks, by index.
        ahead: Number of jobs ahead of it in the queue.
        budgets: What it would use of its budgets, in sentences.
    """

    job: str
    outcome: Outcome
    reason: str = ""
    places: tuple[str, ...] = ()
    decision: DecisionLine | None = None
    pending: PendingLine | None = None
    ahead: int = 0
    budgets: tuple[str, ...] = ()


def what_if(state: PoolState, demand: JobDemand, now: int, sender: Requester = PERMITTED) -> WhatIfResult:
    """The result for a job submitted at `now`, µs. `state` is unchanged.

    Args:
        sender: Whose job it would be; whether that user may submit it is not looked at.
    """
    body = facts.SubmitJob(demand=demand, spec=JobSpec(command="true", runtime="simulated"))
    found = admit(Context(state, dataclasses.replace(sender, permitted=True), request(f"what if {demand.job}")), body)
    if isinstance(found, Rejected):
        return WhatIfResult(demand.job, "rejected", found.text)
    trial = from_snapshot(to_snapshot(dataclasses.replace(state, cycle_open=False)))
    append_facts(trial, found, at=max(now, trial.now), close=False)
    budgets = tuple(would_use(trial, trial.jobs[demand.job]))
    return dataclasses.replace(_result_for(trial, demand.job, decide_until_stable(trial)), budgets=budgets)


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
    if job.phase == "waiting":
        return WhatIfResult(name, "pending", f"it {waits_for_text(state, job)}")
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
