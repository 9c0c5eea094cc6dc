"""Text of records about evictions: decided, started, their stages, cancelled."""

from bailiff_core.explain.eviction_stages import SHORTENED_BY, STAGES, snapshot_text, stuck_text
from bailiff_core.explain.victims import EVICTED, eviction_cause_text, stop_word
from bailiff_core.humanize import cost_text, duration_text, user_text, window_text
from bailiff_core.model.evictions import evictions_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.work_lost import loss_text, past_loss
from bailiff_core.records import Record, decisions, facts

from .line import Statement
from .phrases import island_text, joined, members, places_text, until
from .registry import Entries
from .tasks import _on, _task, checkpoint_text

describes = Entries()


@describes(facts.EvictionStageReached)
def _eviction_stage_reached(fact: facts.EvictionStageReached, state: PoolState) -> Statement:
    job = state.jobs.get(fact.job)
    task = job.task(fact.task) if job is not None and job.attempt == fact.attempt else None
    after = f"{duration_text(fact.elapsed)} after the notice" if fact.elapsed else ""
    return Statement(
        "eviction",
        _task(fact),
        joined(STAGES[fact.stage], _on(fact, *stage_facts(fact, task is None or task.attached), after)),
        "evict",
    )


@describes(facts.SnapshotStageReached)
def _snapshot_stage_reached(fact: facts.SnapshotStageReached, _state: PoolState) -> Statement:
    after = f"{duration_text(fact.elapsed)} after it was ordered" if fact.elapsed else ""
    kind = {"stored": "good", "save_failed": "warn"}.get(fact.stage, "quiet")
    goes_on = "it goes on" if fact.stage == "save_failed" else ""
    return Statement("snapshot", _task(fact), joined(STAGES[fact.stage], _on(fact, snapshot_text(fact), after, goes_on)), kind)


@describes(facts.ParkedTaskStageReached, event=lambda _, fact, __: "ParkedLost" if fact.stage == "park_lost" else "")
def _parked_task_stage_reached(fact: facts.ParkedTaskStageReached, _state: PoolState) -> Statement:
    kind = {"stored": "good", "save_failed": "warn", "park_lost": "bad"}.get(fact.stage, "quiet")
    stays = "it stays parked" if fact.stage == "save_failed" else ""
    lost = f"which loses {cost_text(fact.lost_gpu_ms)} of work" if fact.lost_gpu_ms else ""
    return Statement("parked", _task(fact), joined(STAGES[fact.stage], _on(fact, snapshot_text(fact), stays, lost)), kind)


def stage_facts(stage: facts.Stage, attached: bool) -> list[str]:
    """The details of a stage: step, checkpoint, stage in which it is stuck, grace."""
    details = [f"step {stage.step}"] if stage.step is not None and stage.checkpoint is None else []
    details += [checkpoint_text(stage.checkpoint)] if stage.checkpoint is not None else []
    details += [saved] if (saved := snapshot_text(stage)) else []
    details += [why] if (why := stuck_text(stage, attached)) else []
    if stage.kill_after is not None:
        term = f"TERM after {duration_text(stage.term_after or 0)}" if stage.attached else "no notice channel: TERM at once"
        details.append(f"{term}, KILL after {duration_text(stage.kill_after)}")
    return details


def _cancelled_word(_record: Record, fact: facts.TaskEvictionCancelled, state: PoolState) -> str:
    """One event for all tasks of the eviction: that of the last one, with which it is over."""
    job = state.jobs.get(fact.job)
    pending = job is not None and any(each.eviction.cancel_seq is not None and each.remaining for each in evictions_of(job))
    return "" if pending else "EvictionCancelled"


def _continues_word(_record: Record, fact: facts.TaskCancelEvictionRefused, state: PoolState) -> str:
    """One event for all tasks of the eviction: that of the first one that was already told to stop."""
    job = state.jobs.get(fact.job)
    found = evictions_of(job) if job is not None else []
    mine = next((each for each in found if each.part and any(task.index == fact.task for task in each.tasks)), None)
    # An eviction that continues is no preemption's any more; a whole job's continues with its first task.
    earlier = mine is not None and any(
        task.eviction and task.eviction.preemption is None and task.index != fact.task for task in mine.tasks
    )
    return "" if earlier else "EvictionContinues"


@describes(facts.TaskEvictionCancelled, event=_cancelled_word)
def _task_eviction_cancelled(fact: facts.TaskEvictionCancelled, _state: PoolState) -> Statement:
    return Statement("eviction cancelled", _task(fact), _on(fact, "keeps running"), "good")


@describes(facts.TaskCancelEvictionRefused, event=_continues_word)
def _task_cancel_eviction_refused(fact: facts.TaskCancelEvictionRefused, state: PoolState) -> Statement:
    return Statement("cancel refused", _task(fact), _on(fact, too_late_text(state.jobs.get(fact.job))), "warn")


def too_late_text(job: Job | None) -> str:
    """What becomes of a job whose eviction can no longer be cancelled."""
    return f"too late: it was already told to stop; it {follows(job)}"


def follows(job: Job | None) -> str:
    """What a job does after its eviction; `None`: it is not known any more."""
    ends = job is not None and job.eviction is not None and job.demand.on_eviction == "end"
    return "ends" if ends else "resumes later"


@describes(facts.EvictionStarted)
def _eviction_started(fact: facts.EvictionStarted, _state: PoolState) -> Statement:
    return Statement("eviction started", fact.job, f"decided at #{fact.decided_by}; notices sent", "evict")


def _stop_word(_record: Record, decision: decisions.EvictionDecided, _state: PoolState) -> str:
    return "Evicting" if stop_word(decision.cause) == EVICTED else "Stopping"


@describes(decisions.EvictionDecided, event=_stop_word)
def _eviction_decided(decision: decisions.EvictionDecided, state: PoolState) -> Statement:
    known = state.jobs.get(decision.job)
    requester = user_text(known.requester, known.requester_verified) if known is not None else ""
    cause = eviction_cause_text(decision, requester)
    grace = f"grace {duration_text(decision.grace)}"
    who = members(decision.job, decision.tasks)
    what = "eviction decided" if stop_word(decision.cause) == EVICTED else "stop decided"
    return Statement(what, who, joined(cause, grace), "evict")


@describes(decisions.DrainDeadlineReached)
def _drain_deadline_reached(decision: decisions.DrainDeadlineReached, _state: PoolState) -> Statement:
    return Statement("drain deadline", decision.node, "remaining jobs are evicted", "warn")


@describes(decisions.MaintenanceBegan)
def _maintenance_began(decision: decisions.MaintenanceBegan, _state: PoolState) -> Statement:
    still = f"still there: {', '.join(decision.leaving)}" if decision.leaving else ""
    return Statement("maintenance begins", decision.node, joined(window_text(decision.begin, decision.end), still), "warn")


@describes(decisions.MaintenanceEnded)
def _maintenance_ended(decision: decisions.MaintenanceEnded, _state: PoolState) -> Statement:
    return Statement("maintenance ended", decision.node, "still drained" if decision.drained else "schedulable again", "good")


@describes(decisions.MigrationDecided, event=lambda _, decision, __: "Moved" if decision.cause == "migration" else "Resized")
def _migration_decided(decision: decisions.MigrationDecided, state: PoolState) -> Statement:
    job = state.jobs.get(decision.job)
    present = job is not None and job.attempt == decision.attempt and state.policy is not None
    stopped = [task for task in job.tasks if task.state != "reserved"] if job is not None and present else []
    measured = {"measured": decision.measured}
    loss = past_loss(state, job, decision.lost_gpu_ms, stopped, **measured) if job is not None and stopped else None
    more = joined(
        decision.reason,
        f"loses {loss_text(loss, decision.lost_gpu_ms)}" if decision.lost_gpu_ms else "",
        island_text(decision.island),
        f"grace {duration_text(decision.grace)}",
        until(decision.expires, "reserved until"),
    )
    what = "job migrates" if decision.cause == "migration" else "job restarts"
    return Statement(what, f"{decision.job} → {places_text(state, decision.placement)}", more, "evict")


@describes(decisions.MigrationRefused)
def _migration_refused(decision: decisions.MigrationRefused, _state: PoolState) -> Statement:
    return Statement("migration refused", decision.job, f"not moved: {decision.reason}", "warn")


@describes(decisions.EvictionStuck, event="EvictionStuck")
def _eviction_stuck(decision: decisions.EvictionStuck, _state: PoolState) -> Statement:
    who = members(decision.job, decision.tasks)
    return Statement("eviction stuck", who, "its GPUs were not released in time and count as allocated until they are", "bad")


@describes(decisions.GraceShortened, event="GraceShortened")
def _grace_shortened(decision: decisions.GraceShortened, _state: PoolState) -> Statement:
    times = f"{duration_text(decision.earlier)} to {duration_text(decision.grace)}"
    who = members(decision.job, decision.tasks)
    return Statement("grace shortened", who, joined(times, SHORTENED_BY[decision.cause]), "evict")


# Once agents were notified, theirs is the last word.
@describes(decisions.EvictionCancelled, event=lambda _, decision, __: "" if decision.notified else "EvictionCancelled")
def _eviction_cancelled(decision: decisions.EvictionCancelled, state: PoolState) -> Statement:
    who, job = members(decision.job, decision.tasks), state.jobs.get(decision.job)
    if not decision.notified:
        return Statement("eviction cancelled", who, joined(decision.reason, "no notice had been sent"), "good")
    asked = (each for each in (evictions_of(job) if job is not None else ()) if each.eviction.cancel_seq is not None)
    late = any(each.too_late for each in asked if each.part == decision.tasks)
    details = too_late_text(job) if late else "awaiting confirmation by its nodes"
    return Statement("eviction cancellation", who, joined(decision.reason, details), "warn" if late else "")
