"""Lines about what people ask for."""

from bailiff_core.model.pool import Pool
from bailiff_core.records import facts
from bailiff_core.words import count_text, duration_text

from .line import Said
from .tellers import Tellers
from .words import class_text, demand_text, joined

tells = Tellers()


@tells(facts.JobSubmitted)
def _job_submitted(fact: facts.JobSubmitted, pool: Pool) -> Said:
    known = pool.jobs.get(fact.demand.job)
    rank = class_text(pool, known.id, known.priority) if known is not None else fact.demand.priority_class or "default class"
    return Said("job submitted", fact.demand.job, f"{demand_text(fact.demand)}, {rank}")


@tells(facts.JobCancelled)
def _job_cancelled(fact: facts.JobCancelled, _pool: Pool) -> Said:
    return Said("cancel asked", fact.job, fact.reason, "warn")


@tells(facts.JobScaled)
def _job_scaled(fact: facts.JobScaled, _pool: Pool) -> Said:
    least = f"at least {fact.min_tasks} together" if fact.min_tasks is not None else ""
    group = f"of group {fact.group}" if fact.group else ""
    return Said("scale asked", fact.job, joined(count_text(fact.tasks, "task") + (f" {group}" if group else ""), least))


@tells(facts.JobReclassified)
def _job_reclassified(fact: facts.JobReclassified, _pool: Pool) -> Said:
    return Said("class changed", fact.job, f"to {fact.priority_class}")


@tells(facts.JobEvictionAsked)
def _job_eviction_asked(fact: facts.JobEvictionAsked, _pool: Pool) -> Said:
    return Said("eviction asked", fact.job, fact.reason, "warn")


@tells(facts.JobPaused)
def _job_paused(fact: facts.JobPaused, _pool: Pool) -> Said:
    return Said("job paused", fact.job, fact.reason, "warn")


@tells(facts.JobUnpaused)
def _job_unpaused(fact: facts.JobUnpaused, _pool: Pool) -> Said:
    return Said("job goes on", fact.job, joined("through the queue", fact.reason), "good")


@tells(facts.JobMigrationAsked)
def _job_migration_asked(fact: facts.JobMigrationAsked, _pool: Pool) -> Said:
    return Said("move asked", fact.job, joined(f"to {fact.node}" if fact.node else "to other nodes", fact.reason))


@tells(facts.NodeDrained)
def _node_drained(fact: facts.NodeDrained, _pool: Pool) -> Said:
    within = f"within {duration_text(fact.deadline)}" if fact.deadline is not None else ""
    more = joined(f"nothing new is placed there, {DRAINS[fact.mode]}", within, fact.reason)
    return Said("node drained", fact.node, more, "warn")


DRAINS = {
    "graceful": "its jobs may finish",
    "quick": "its jobs leave now",
    "fast": "its jobs leave now, with the short grace",
}


@tells(facts.NodeUndrained)
def _node_undrained(fact: facts.NodeUndrained, _pool: Pool) -> Said:
    return Said("node undrained", fact.node, joined("it takes work again", fact.reason), "good")


@tells(facts.NodeReplaced)
def _node_replaced(fact: facts.NodeReplaced, _pool: Pool) -> Said:
    return Said("node replaced", fact.node, f"machine {fact.machine_id} may take the name", "warn")


@tells(facts.NodeReturned)
def _node_returned(fact: facts.NodeReturned, _pool: Pool) -> Said:
    return Said("trusted again", fact.node or "all nodes", "silence is judged again", "good")
