"""`bailiff plan --live`: the outcome for a job that is not submitted, as sentences."""

from collections.abc import Iterator, Sequence
from typing import Any

from bailiff.render.record_text.phrases import demand_text
from bailiff.render.tables.plan import displacing
from bailiff_core.humanize import cost_text, count_text, duration_text, gpus_text
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.state import PoolState
from bailiff_core.plan.report import VictimLine
from bailiff_core.plan.whatif import WhatIfResult, what_if

YES_NO = {"starts": "yes", "reserved": "soon", "preempts": "yes, by preemption", "pending": "no", "rejected": "no"}


def ask(state: PoolState, demand: JobDemand, now: int) -> tuple[dict[str, Any], list[str]]:
    """The answer as data for programs and as sentences for people. `pool` is only read."""
    answer = what_if(state, demand, now)
    return _data(state, answer), list(_sentences(state, demand, answer))


def _data(state: PoolState, answer: WhatIfResult) -> dict[str, Any]:
    decision, pending = answer.decision, answer.pending
    return {
        "job": answer.job,
        "pool": state.pool,
        "computed_at": state.seq,
        "outcome": answer.outcome,
        "reason": answer.reason,
        "nodes": list(answer.places),
        "jobs_ahead": answer.ahead,
        "decision": decision.model_dump(mode="json") if decision is not None else None,
        "pending": pending.model_dump(mode="json") if pending is not None else None,
    }


def _sentences(state: PoolState, demand: JobDemand, answer: WhatIfResult) -> Iterator[str]:
    what = f"{answer.job} ({demand_text(demand)})"
    where = _nodes(answer.places)
    match answer.outcome:
        case "rejected":
            yield f"{what} would be rejected: {answer.reason}"
        case "starts":
            yield f"{what} would start immediately on {where}; no job is preempted"
        case "reserved":
            yield f"{what} would run on {where} once its resources are released; no other job is preempted"
        case "preempts" if answer.decision is not None:
            decision = answer.decision
            yield f"{what} would run on {where} by {decision.action}; it would preempt:"
            for victim in decision.victims:
                yield f"  {_victim(state, victim)}"
            lost = sum(victim.lost_gpu_seconds for victim in decision.victims)
            proof = "proven: nothing cheaper would do" if decision.proven else "not proven: the search gave up before the end"
            yield f"total: {cost_text(round(lost * 1000))} of work would be lost ({proof})"
        case _:
            ahead = f", with {count_text(answer.ahead, 'job')} ahead" if answer.ahead else ""
            yield f"{what} would be pending{ahead}: {answer.reason}"
            yield from displacing(answer.pending) if answer.pending is not None else ()
    yield f"computed at {state.pool}#{state.seq}; nothing was submitted"


def _victim(state: PoolState, victim: VictimLine) -> str:
    job = state.jobs[victim.job]
    project = f", project {victim.project}" if victim.project else ""
    who = f"{victim.job} ({job.class_name} {victim.priority}{project})"
    if victim.was_reserved:
        return f"{who}: not started yet, loses its reservation"
    does = f"migrating to {_nodes(victim.moved_to)}" if victim.moved_to else "returns to the queue"
    fewer = len(victim.tasks) - len(victim.moved_to)
    if not victim.stopped and fewer:
        moves = f"moves {len(victim.moved_to)} to {_nodes(victim.moved_to)} and " if victim.moved_to else ""
        does = f"{moves}continues with {fewer} fewer tasks"
    if job.demand.on_eviction == "end":
        does = "ends"
    since = job.last_checkpoint if job.last_checkpoint is not None else job.last_start
    ago = f", {duration_text(max(0, state.now - since))} since its last {_what(job)}" if since is not None else ""
    return f"{who}: {gpus_text(round(victim.gpus * 1000))}; loses {cost_text(round(victim.lost_gpu_seconds * 1000))}{ago}; {does}"


def _what(job: Any) -> str:
    return "checkpoint" if job.last_checkpoint is not None else "start"


def _nodes(names: Sequence[str]) -> str:
    counted = [f"{name} × {names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    shown = counted[:5]
    return ", ".join(shown) + (f" and {len(counted) - 5} more nodes" if len(counted) > 5 else "")
