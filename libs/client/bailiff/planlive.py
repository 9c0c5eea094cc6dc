"""`bailiff plan --live`: what would become of a job that nobody has submitted, told in sentences."""

from collections.abc import Iterator, Sequence
from typing import Any

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Pool
from bailiff_core.plan.report import VictimLine
from bailiff_core.plan.whatif import Answer, what_if
from bailiff_core.words import cost_text, count_text, duration_text, gpus_text

from .eventline.words import demand_text
from .tables.plan import displacing

YES_NO = {"starts": "yes", "reserved": "soon", "displaces": "yes, by displacing others", "waits": "no", "rejected": "no"}


def ask(pool: Pool, demand: JobDemand, now: int) -> tuple[dict[str, Any], list[str]]:
    """The answer as data for programs and as sentences for people. `pool` is only read."""
    answer = what_if(pool, demand, now)
    return _data(pool, answer), list(_sentences(pool, demand, answer))


def _data(pool: Pool, answer: Answer) -> dict[str, Any]:
    decision, waits = answer.decision, answer.waits
    return {
        "job": answer.job,
        "pool": pool.domain,
        "computed_at": pool.seq,
        "outcome": answer.outcome,
        "reason": answer.reason,
        "nodes": list(answer.places),
        "ahead": answer.ahead,
        "decision": decision.model_dump(mode="json") if decision is not None else None,
        "waiting": waits.model_dump(mode="json") if waits is not None else None,
    }


def _sentences(pool: Pool, demand: JobDemand, answer: Answer) -> Iterator[str]:
    what = f"{answer.job} ({demand_text(demand)})"
    where = _nodes(answer.places)
    match answer.outcome:
        case "rejected":
            yield f"{what} would be rejected: {answer.reason}"
        case "starts":
            yield f"{what} would start at once, on {where}; nobody is displaced"
        case "reserved":
            yield f"{what} would get {where} as soon as those who are leaving it are gone; nobody else is displaced"
        case "displaces" if answer.decision is not None:
            decision = answer.decision
            yield f"{what} would run on {where} by {decision.verb}; for it must leave:"
            for victim in decision.victims:
                yield f"  {_victim(pool, victim)}"
            lost = sum(victim.lost_gpu_seconds for victim in decision.victims)
            proof = "proven: nothing cheaper would do" if decision.proven else "not proven: the search gave up before the end"
            yield f"in all {cost_text(round(lost * 1000))} of work would be lost ({proof})"
        case _:
            ahead = f", with {count_text(answer.ahead, 'job')} before it" if answer.ahead else ""
            yield f"{what} would wait{ahead}: {answer.reason}"
            yield from displacing(answer.waits) if answer.waits is not None else ()
    yield f"computed at {pool.domain}#{pool.seq}; nothing was submitted"


def _victim(pool: Pool, victim: VictimLine) -> str:
    job = pool.jobs[victim.job]
    project = f", project {victim.project}" if victim.project else ""
    who = f"{victim.job} ({job.class_name} {victim.priority}{project})"
    if victim.was_reserved:
        return f"{who}: has not started yet, loses its reservation"
    does = f"moves to {_nodes(victim.moved_to)}" if victim.moved_to else "goes back to the queue"
    fewer = len(victim.tasks) - len(victim.moved_to)
    if not victim.stopped and fewer:
        moves = f"moves {len(victim.moved_to)} to {_nodes(victim.moved_to)} and " if victim.moved_to else ""
        does = f"{moves}goes on with {fewer} fewer tasks"
    if job.demand.on_eviction == "end":
        does = "ends"
    since = job.last_checkpoint if job.last_checkpoint is not None else job.last_start
    ago = f", {duration_text(max(0, pool.now - since))} since its last {_what(job)}" if since is not None else ""
    return f"{who}: {gpus_text(round(victim.gpus * 1000))}; loses {cost_text(round(victim.lost_gpu_seconds * 1000))}{ago}; {does}"


def _what(job: Any) -> str:
    return "checkpoint" if job.last_checkpoint is not None else "start"


def _nodes(names: Sequence[str]) -> str:
    counted = [f"{name} × {names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    shown = counted[:5]
    return ", ".join(shown) + (f" and {len(counted) - 5} more nodes" if len(counted) > 5 else "")
