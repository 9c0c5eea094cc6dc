"""`bailiff plan --live`: predicts the outcome for a job without submitting it, as data and as sentences."""

from collections.abc import Iterator, Sequence
from typing import Any

from bailiff.render.record_text.phrases import demand_text
from bailiff.render.tables.plan import refusal_lines
from bailiff_core.humanize import cost_text, count_text, duration_text, gpus_text
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.state import PoolState
from bailiff_core.plan.report import VictimLine
from bailiff_core.plan.whatif import WhatIfResult, what_if

YES_NO = {"starts": "yes", "reserved": "soon", "preempts": "yes, by preemption", "pending": "no", "rejected": "no"}


def predict(state: PoolState, demand: JobDemand, now: int) -> tuple[dict[str, Any], list[str]]:
    """The predicted outcome as data and as sentences. now: µs. `state` is only read."""
    outcome = what_if(state, demand, now)
    return _data(state, outcome), list(_sentences(state, demand, outcome))


def _data(state: PoolState, outcome: WhatIfResult) -> dict[str, Any]:
    decision, pending = outcome.decision, outcome.pending
    return {
        "job": outcome.job,
        "pool": state.pool,
        "computed_at": state.seq,
        "outcome": outcome.outcome,
        "reason": outcome.reason,
        "nodes": list(outcome.places),
        "jobs_ahead": outcome.ahead,
        "decision": decision.model_dump(mode="json") if decision is not None else None,
        "pending": pending.model_dump(mode="json") if pending is not None else None,
    }


def _sentences(state: PoolState, demand: JobDemand, outcome: WhatIfResult) -> Iterator[str]:
    what = f"{outcome.job} ({demand_text(demand)})"
    where = _nodes(outcome.places)
    match outcome.outcome:
        case "rejected":
            yield f"{what} would be rejected: {outcome.reason}"
        case "starts":
            yield f"{what} would start immediately on {where}; no job is preempted"
        case "reserved":
            yield f"{what} would run on {where} once its resources are released; no other job is preempted"
        case "preempts" if outcome.decision is not None:
            decision = outcome.decision
            yield f"{what} would run on {where} by {decision.action}; it would preempt:"
            for victim in decision.victims:
                yield f"  {_victim(state, victim)}"
            lost = sum(victim.lost_gpu_seconds for victim in decision.victims)
            proof = "proven: no cheaper set exists" if decision.proven else "not proven: the search reached its step limit"
            yield f"total: {cost_text(round(lost * 1000))} of work would be lost ({proof})"
        case _:
            ahead = f", with {count_text(outcome.ahead, 'job')} ahead" if outcome.ahead else ""
            yield f"{what} would be pending{ahead}: {outcome.reason}"
            yield from refusal_lines(outcome.pending) if outcome.pending is not None else ()
    yield f"computed at {state.pool}#{state.seq}; nothing was submitted"


def _victim(state: PoolState, victim: VictimLine) -> str:
    job = state.jobs[victim.job]
    project = f", project {victim.project}" if victim.project else ""
    name = f"{victim.job} ({job.class_name} {victim.priority}{project})"
    if victim.was_reserved:
        return f"{name}: not started yet, loses its reservation"
    does = f"migrating to {_nodes(victim.moved_to)}" if victim.moved_to else "returns to the queue"
    fewer = len(victim.tasks) - len(victim.moved_to)
    if not victim.stopped and fewer:
        moves = f"moves {len(victim.moved_to)} to {_nodes(victim.moved_to)} and " if victim.moved_to else ""
        does = f"{moves}continues with {fewer} fewer tasks"
    if job.demand.on_eviction == "end":
        does = "ends"
    since = job.last_checkpoint if job.last_checkpoint is not None else job.last_start
    age = f", {duration_text(max(0, state.now - since))} since its last {_what(job)}" if since is not None else ""
    return (
        f"{name}: {gpus_text(round(victim.gpus * 1000))}; loses {cost_text(round(victim.lost_gpu_seconds * 1000))}{age}; {does}"
    )


def _what(job: Any) -> str:
    return "checkpoint" if job.last_checkpoint is not None else "start"


def _nodes(names: Sequence[str]) -> str:
    counted = [f"{name} × {names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    shown = counted[:5]
    return ", ".join(shown) + (f" and {len(counted) - 5} more nodes" if len(counted) > 5 else "")
