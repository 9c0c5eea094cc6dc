"""Text of records about evictions: decided, started, their stages, cancelled."""

from bailiff_core.explain.victims import eviction_cause_text
from bailiff_core.humanize import duration_text, user_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts

from .line import Statement
from .phrases import island_text, joined, members, places_text, until
from .registry import Entries
from .tasks import _on, _task, checkpoint_text

describes = Entries()


def _migration_word(_record: Record, decision: decisions.MigrationDecided, _state: PoolState) -> str:
    return "Moved" if decision.cause == "migration" else "Resized"


STAGES: dict[facts.EvictionStage, str] = {
    "noticed": "notice delivered",
    "acknowledged": "notice acknowledged",
    "step_confirmed": "coordinated checkpoint confirmed",
    "step_agreed": "checkpoint step agreed",
    "checkpoint_started": "checkpoint started",
    "saving_in_flight": "checkpoint in flight",
    "checkpoint_committed": "checkpoint saved",
    "yielding": "exiting voluntarily",
    "term_sent": "TERM sent",
    "kill_sent": "KILL sent",
}


STUCK: dict[facts.EvictionStage, str] = {
    "noticed": "notice never acknowledged",
    "acknowledged": "acknowledged but started no checkpoint",
    "step_confirmed": "its gang agreed on no checkpoint step",
    "step_agreed": "did not reach the agreed step",
    "checkpoint_started": "checkpoint not committed",
    "saving_in_flight": "checkpoint in flight not committed",
    "checkpoint_committed": "checkpoint saved but did not exit",
    "yielding": "announced its exit but did not exit",
    "term_sent": "did not exit on TERM",
    "kill_sent": "did not exit on KILL",
}


@describes(facts.EvictionStageReached)
def _eviction_stage_reached(fact: facts.EvictionStageReached, _state: PoolState) -> Statement:
    after = f"{duration_text(fact.elapsed)} after the notice" if fact.elapsed else ""
    return Statement("eviction", _task(fact), joined(STAGES[fact.stage], _on(fact, *stage_facts(fact), after)), "evict")


def stage_facts(stage: facts.Stage) -> list[str]:
    """The details of a stage: step, checkpoint, stage in which it is stuck, grace."""
    details = [f"step {stage.step}"] if stage.step is not None and stage.checkpoint is None else []
    details += [checkpoint_text(stage.checkpoint)] if stage.checkpoint is not None else []
    details += [STUCK[stage.stuck_in]] if stage.stuck_in is not None else []
    if stage.kill_after is not None:
        term = f"TERM after {duration_text(stage.term_after or 0)}" if stage.attached else "no notice channel: TERM at once"
        details.append(f"{term}, KILL after {duration_text(stage.kill_after)}")
    return details


@describes(facts.TaskEvictionCancelled)
def _task_eviction_cancelled(fact: facts.TaskEvictionCancelled, _state: PoolState) -> Statement:
    return Statement("eviction cancelled", _task(fact), _on(fact, "keeps running"), "good")


@describes(facts.TaskCancelEvictionRefused)
def _task_cancel_eviction_refused(fact: facts.TaskCancelEvictionRefused, _state: PoolState) -> Statement:
    return Statement("cancel refused", _task(fact), _on(fact, "too late, the eviction continues"), "warn")


@describes(facts.EvictionStarted)
def _eviction_started(fact: facts.EvictionStarted, _state: PoolState) -> Statement:
    return Statement("eviction started", fact.job, f"decided at #{fact.decided_by}; notices sent", "evict")


@describes(decisions.EvictionDecided, event="Evicting")
def _eviction_decided(decision: decisions.EvictionDecided, state: PoolState) -> Statement:
    known = state.jobs.get(decision.job)
    requester = user_text(known.requester, known.requester_verified) if known is not None else ""
    cause = eviction_cause_text(decision, requester)
    grace = f"grace {duration_text(decision.grace)}"
    who = members(decision.job, decision.tasks)
    return Statement("eviction decided", who, joined(cause, grace), "evict")


@describes(decisions.DrainDeadlineReached)
def _drain_deadline_reached(decision: decisions.DrainDeadlineReached, _state: PoolState) -> Statement:
    return Statement("drain deadline", decision.node, "remaining jobs are evicted", "warn")


@describes(decisions.MigrationDecided, event=_migration_word)
def _migration_decided(decision: decisions.MigrationDecided, state: PoolState) -> Statement:
    more = joined(
        decision.reason,
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


@describes(decisions.EvictionCancelled, event="EvictionCancelled")
def _eviction_cancelled(decision: decisions.EvictionCancelled, _state: PoolState) -> Statement:
    details = "awaiting confirmation by its nodes" if decision.notified else "no notice had been sent"
    return Statement("eviction cancelled", members(decision.job, decision.tasks), joined(decision.reason, details), "good")
