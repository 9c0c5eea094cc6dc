"""`bailiff plan --live`: predicts the outcome for a job without submitting it, as data and as sentences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from bailiff.render.record_text.phrases import demand_text
from bailiff_core.admission import PERMITTED
from bailiff_core.explain.victims import rule_with_field
from bailiff_core.humanize import count_text, duration_text, gpus_text
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.proposal import AttemptedAction, Excluded, Explanation
from bailiff_core.model.snapshots import too_slow_to_save
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.work_lost import Loss
from bailiff_core.permissions import Requester
from bailiff_core.plan.report import DecisionLine, PendingLine
from bailiff_core.plan.whatif import WhatIfResult, what_if
from bailiff_core.views import VictimView, requested_gpu_milli


class LivePlan(TypedDict):
    """The predicted outcome for one job.

    Attributes:
        jobs_ahead: Number of jobs ahead of it in the queue, if it would be pending.
    """

    job: str
    pool: str
    computed_at: int
    outcome: Literal["starts", "reserved", "preempts", "pending", "rejected"]
    reason: str
    nodes: list[str]
    jobs_ahead: int | None
    decision: DecisionLine | None
    pending: PendingLine | None


def predict(state: PoolState, demand: JobDemand, now: int, sender: Requester = PERMITTED) -> tuple[dict[str, Any], list[str]]:
    """Predicts the outcome, as data and as sentences. `state` is only read.

    Args:
        now: µs UTC.
        sender: Whose job it would be.
    """
    outcome = what_if(state, demand, now, sender)
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
            yield from _borrowed(state, demand, ())
        case "reserved":
            yield f"{what} would run on {where} once its resources are released; no other job is preempted"
        case "preempts" if outcome.decision is not None:
            decision = outcome.decision
            yield f"{what} would run on {where} by {decision.action}; it would preempt:"
            for victim in decision.victims:
                yield f"  {victim_text(victim, _age(state, victim))}"
            lost = Loss(0, 0)
            for victim in decision.victims:
                lost = lost.plus(_loss(victim))
            proof = f" ({proof_text(decision.explanation)})" if decision.explanation is not None else ""
            yield f"total loss: {lost}{proof}"
            yield from _borrowed(state, demand, decision.victims)
        case _:
            ahead = f", with {count_text(outcome.ahead, 'job')} ahead" if outcome.ahead else ""
            yield f"{what} would be pending{ahead}: {outcome.reason}"
            yield from refusal_lines(outcome.pending) if outcome.pending is not None else ()
    yield from outcome.budgets
    yield from _slow_save(state, demand)
    yield f"computed at {state.pool}#{state.seq}; nothing was submitted"


def _slow_save(state: PoolState, demand: JobDemand) -> Iterator[str]:
    """That the job's grace may be too short to save it."""
    entry = state.rules.find_class(demand.priority_class)
    if entry is None:
        return
    job = Job(demand.job, 0, 0, demand, entry.name, entry.value, entry.preemptible, True, "", project=demand.project or "")
    if slow := too_slow_to_save(state, job):
        yield slow


def _borrowed(state: PoolState, demand: JobDemand, victims: Sequence[VictimView]) -> Iterator[str]:
    """How many of the job's GPUs would be above a quota, of its project or of one above it."""
    from bailiff_log.quota_usage_rows import project_usage  # imported here: it loads engine rules

    gpus = requested_gpu_milli(demand, state.policy)
    parents = {project.name: project.parent for project in state.rules.projects}
    if not gpus or demand.project not in parents:
        return
    usage, most = project_usage(state), 0
    for level in _levels(demand.project, parents):
        used, quota = usage[level]["used"][0] or 0, usage[level]["quota"][0]
        left = sum(
            round(each["gpus"] * 1000) for each in victims if not each["to"] and level in _levels(each["project"], parents)
        )
        if quota is not None:
            most = max(most, min(gpus, used - left + gpus - quota))
    if most:
        part = f"{most / 1000:g} of these {gpus_text(gpus)}" if most < gpus else gpus_text(gpus)
        yield f"{part} would be borrowed and may be reclaimed"


def _levels(project: str, parents: Mapping[str, str | None]) -> list[str]:
    """The project and those above it."""
    found = []
    at: str | None = project
    while at is not None and at in parents:
        found.append(at)
        at = parents[at]
    return found


def victim_text(victim: VictimView, age: str = "") -> str:
    """A victim, what it loses, and what becomes of it.

    Args:
        age: How much time its loss covers.
    """
    project = f", project {victim['project']}" if victim["project"] else ""
    name = f"{victim['job']} ({victim['priority_class']} {victim['priority']}{project})"
    if victim["effect"] == "loses its reservation":
        return f"{name}: not started yet, loses its reservation"
    loses = f"{_loss(victim)}{age}" if sum(_loss(victim)) else "nothing more"
    return f"{name}: {gpus_text(round(victim['gpus'] * 1000))}; loses {loses}; {_fate(victim)}"


def _fate(victim: VictimView) -> str:
    to, where = victim["to"], _nodes(victim["to"])
    if victim["effect"] == "migrates":
        return f"migrates to {where}"
    if to and not victim["tasks"]:
        return f"restarts with {count_text(len(to), 'task')} on {where}"
    fewer = f"{count_text(len(numbers(victim['tasks'])) - len(to), 'task')} fewer"
    moves = f"moves {len(to)} to {where} and " if to else ""
    fates = {
        "evicted": "returns to the queue",
        "shrinks": f"{moves}continues with {fewer}",
        "restarts with fewer tasks": f"{moves}restarts with {fewer}",
    }
    return fates.get(victim["effect"], victim["effect"])


def _age(state: PoolState, victim: VictimView) -> str:
    job = state.jobs[victim["job"]]
    since, what = (job.last_start, "start") if job.last_checkpoint is None else (job.last_checkpoint, "checkpoint")
    return f", {duration_text(max(0, state.now - since))} since its last {what}" if since is not None else ""


def _loss(victim: VictimView) -> Loss:
    restart = (0, victim["restart_gpu_ms"]) if victim["restart_measured"] else (victim["restart_gpu_ms"], 0)
    return Loss(victim["work_lost_gpu_ms"], *restart)


def _nodes(names: Sequence[str]) -> str:
    counted = [f"{name} × {names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    shown = counted[:5]
    return ", ".join(shown) + (f" and {len(counted) - 5} more nodes" if len(counted) > 5 else "")


def shielded(excluded: Iterable[Excluded], until: Mapping[str, str] = {}) -> list[str]:
    """Returns `2 jobs excluded by eviction-cap, the first until 2026-01-01T22:00:00Z`, rule by rule.

    Args:
        until: By rule, when it ends for the first job that it protects; RFC 3339.
    """
    return [
        f"{count_text(group.jobs, 'job')} excluded by {rule_with_field(group.rule)}"
        + (f", {'the first ' if group.jobs > 1 else ''}until {_to_the_second(until[group.rule])}" if group.rule in until else "")
        for group in excluded
    ]


def _to_the_second(time: str) -> str:
    return time[:19] + "Z"


def proof_text(explanation: Explanation) -> str:
    """Whether the victims are proven to be the cheapest."""
    return "proven: no cheaper set exists" if explanation.proven else "not proven: the search reached its step limit"


def attempt_text(attempt: AttemptedAction, until: Mapping[str, str] = {}, not_before: str | None = "") -> str:
    """Returns the result of an action that found no victims.

    Args:
        until: As for `shielded`.
        not_before: When it finds victims at the earliest as these rules end, RFC 3339; None: their end does not help; empty: not
            known.
    """
    ended = "reached its step limit" if attempt.refused == "gave-up" else "found no victims"
    need = f": {attempt.would_need}" if attempt.would_need else ""
    parts = [f"{attempt.action} {ended}{need}", *shielded(attempt.excluded, until)]
    if not_before is None:
        parts.append("waiting for protections to end does not help")
    elif not_before and not_before != min(until.values()):
        parts.append(f"it finds none before {_to_the_second(not_before)}")
    return "; ".join(parts)


def refusal_lines(line: PendingLine) -> list[str]:
    """Why the job does not preempt others, by action."""
    return [
        attempt_text(attempt, line.protected_until.get(attempt.action, {}), line.not_before.get(attempt.action, ""))
        for attempt in line.attempted_actions
    ]
