"""Text of records about requests of users and operators."""

from bailiff_core.humanize import count_text, duration_text, window_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts

from .line import Statement
from .phrases import class_text, demand_text, joined, with_reason
from .registry import Entries

describes = Entries()


@describes(facts.JobSubmitted, event="Submitted")
def _job_submitted(fact: facts.JobSubmitted, state: PoolState) -> Statement:
    known = state.jobs.get(fact.demand.job)
    rank = class_text(state, known.id, known.priority) if known is not None else fact.demand.priority_class or "default class"
    return Statement("job submitted", fact.demand.job, f"{demand_text(fact.demand)}, {rank}")


@describes(facts.JobCancelled)
def _job_cancelled(fact: facts.JobCancelled, _state: PoolState) -> Statement:
    return Statement("cancel requested", fact.job, fact.reason, "warn")


@describes(facts.JobScaled, event="Scaled")
def _job_scaled(fact: facts.JobScaled, _state: PoolState) -> Statement:
    least = f"at least {fact.min_tasks} together" if fact.min_tasks is not None else ""
    group = f"of group {fact.group}" if fact.group else ""
    return Statement("scale requested", fact.job, joined(count_text(fact.tasks, "task") + (f" {group}" if group else ""), least))


@describes(facts.JobPriorityClassChanged, event="PriorityClassChanged")
def _job_priority_class_changed(fact: facts.JobPriorityClassChanged, _state: PoolState) -> Statement:
    return Statement("class changed", fact.job, f"to {fact.priority_class}")


@describes(facts.JobEvictionRequested, event="EvictionRequested")
def _job_eviction_requested(fact: facts.JobEvictionRequested, _state: PoolState) -> Statement:
    return Statement("eviction requested", fact.job, fact.reason, "warn")


@describes(facts.JobPaused, event="Paused")
def _job_paused(fact: facts.JobPaused, _state: PoolState) -> Statement:
    return Statement("job paused", fact.job, fact.reason, "warn")


@describes(facts.JobCheckpointRequested, event="CheckpointRequested")
def _job_checkpoint_requested(fact: facts.JobCheckpointRequested, _state: PoolState) -> Statement:
    return Statement("save requested", fact.job, with_reason("by its nodes, while it runs", fact.reason))


@describes(facts.JobResumed, event="Unpaused")
def _job_resumed(fact: facts.JobResumed, _state: PoolState) -> Statement:
    return Statement("job resumed", fact.job, with_reason("returns to the queue", fact.reason), "good")


@describes(facts.JobMigrationRequested, event="MigrationRequested")
def _job_migration_requested(fact: facts.JobMigrationRequested, _state: PoolState) -> Statement:
    where = f"to {fact.node}" if fact.node else "to other nodes"
    return Statement("migration requested", fact.job, with_reason(where, fact.reason))


@describes(facts.JobSpecGranted, event="SpecGranted")
def _job_spec_granted(fact: facts.JobSpecGranted, _state: PoolState) -> Statement:
    return Statement("spec granted", fact.job, "its command may be read by who asked")


@describes(facts.NodeDrained, event="NodeDrained")
def _node_drained(fact: facts.NodeDrained, _state: PoolState) -> Statement:
    if fact.begin is not None:
        window = window_text(fact.begin, fact.begin + (fact.duration or 0))
        return Statement("maintenance planned", fact.node, with_reason(f"{window}; jobs leave before", fact.reason), "warn")
    within = f"within {duration_text(fact.deadline)}" if fact.deadline is not None else ""
    more = with_reason(joined(f"no new placements, {DRAINS[fact.mode]}", within), fact.reason)
    return Statement("node drained", fact.node, more, "warn")


DRAINS = {"graceful": "jobs may finish", "quick": "jobs are evicted now", "fast": "jobs are evicted now with the short grace"}


@describes(facts.NodeUndrained, event="NodeUndrained")
def _node_undrained(fact: facts.NodeUndrained, _state: PoolState) -> Statement:
    return Statement("node undrained", fact.node, with_reason("schedulable again", fact.reason), "good")


@describes(facts.NodeReplaced)
def _node_replaced(fact: facts.NodeReplaced, _state: PoolState) -> Statement:
    return Statement("node replaced", fact.node, f"machine {fact.machine_id} may register under this name", "warn")


@describes(facts.NodeReturned)
def _node_returned(fact: facts.NodeReturned, _state: PoolState) -> Statement:
    return Statement("node returned", fact.node or "all nodes", "missing heartbeats count again", "good")


@describes(facts.BudgetToppedUp)
def _budget_topped_up(fact: facts.BudgetToppedUp, _state: PoolState) -> Statement:
    return Statement("budget topped up", fact.budget, with_reason(f"{fact.gpu_hours} GPU-h more this month", fact.reason))


@describes(facts.BudgetTransferred)
def _budget_transferred(fact: facts.BudgetTransferred, _state: PoolState) -> Statement:
    return Statement(
        "budget transferred", fact.budget, with_reason(f"{fact.gpu_hours} GPU-h to {fact.to} this month", fact.reason)
    )


@describes(facts.GpusReserved)
def _gpus_reserved(fact: facts.GpusReserved, _state: PoolState) -> Statement:
    when = window_text(fact.begin, fact.begin + fact.duration)
    often = f", {fact.repeat}, {count_text(fact.times, 'time')}" if fact.repeat != "never" else ""
    text = f"{count_text(fact.gpus, 'GPU')} for project {fact.project}, {when}{often}"
    return Statement("GPUs reserved", fact.reservation, with_reason(text, fact.reason))


@describes(facts.ReservationCancelled)
def _reservation_cancelled(fact: facts.ReservationCancelled, _state: PoolState) -> Statement:
    return Statement("reservation cancelled", fact.reservation, fact.reason, "warn")
