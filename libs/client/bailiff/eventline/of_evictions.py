"""Lines about evictions: decided, begun, how far they have come, and taken back."""

from bailiff_core.model.pool import Pool
from bailiff_core.records import decisions, facts
from bailiff_core.words import duration_text

from .line import Said
from .of_tasks import _on, _task, checkpoint_text
from .tellers import Tellers
from .words import joined, members, places_text, until

tells = Tellers()


STAGES: dict[facts.EvictionStage, str] = {
    "noticed": "was told",
    "acknowledged": "acknowledged",
    "step_confirmed": "will save together",
    "step_agreed": "is to save together",
    "checkpoint_started": "saves",
    "saving_in_flight": "has a save in flight",
    "checkpoint_committed": "has saved",
    "yielding": "leaves by itself",
    "term_sent": "was sent TERM",
    "kill_sent": "was sent KILL",
}


STUCK: dict[facts.EvictionStage, str] = {
    "noticed": "never acknowledged",
    "acknowledged": "acknowledged and did not save",
    "step_confirmed": "its gang did not come to agree on a step",
    "step_agreed": "did not come to the step agreed on",
    "checkpoint_started": "its checkpoint was not committed",
    "saving_in_flight": "its save in flight was not committed",
    "checkpoint_committed": "saved and did not leave",
    "yielding": "said that it leaves and did not",
    "term_sent": "did not leave on TERM",
    "kill_sent": "did not leave on KILL",
}


@tells(facts.EvictionStaged)
def _eviction_staged(fact: facts.EvictionStaged, _pool: Pool) -> Said:
    after = f"{duration_text(fact.after)} after the notice" if fact.after else ""
    return Said("eviction", _task(fact), joined(STAGES[fact.stage], _on(fact, *stage_facts(fact), after)), "evict")


def stage_facts(stage: facts.Stage) -> list[str]:
    """What is to be said about a stage beside its name and time."""
    told = [f"step {stage.step}"] if stage.step is not None and stage.checkpoint is None else []
    told += [checkpoint_text(stage.checkpoint)] if stage.checkpoint is not None else []
    told += [STUCK[stage.stuck_in]] if stage.stuck_in is not None else []
    if stage.hard is not None:
        term = f"TERM after {duration_text(stage.soft or 0)}" if stage.attached else "knows of no notices: TERM at once"
        told.append(f"{term}, KILL after {duration_text(stage.hard)}")
    return told


@tells(facts.TaskSpared)
def _task_spared(fact: facts.TaskSpared, _pool: Pool) -> Said:
    return Said("spared", _task(fact), _on(fact, "runs on"), "good")


@tells(facts.SpareRefused)
def _spare_refused(fact: facts.SpareRefused, _pool: Pool) -> Said:
    return Said("spare came too late", _task(fact), _on(fact, "the eviction stands"), "warn")


@tells(facts.EvictionBegun)
def _eviction_begun(fact: facts.EvictionBegun, _pool: Pool) -> Said:
    return Said("eviction begins", fact.job, f"decided at #{fact.decided}; its nodes are told", "evict")


CAUSES = {
    "cancelled": "cancelled",
    "gang-failure": "another task of the gang failed",
    "stale-gang": "the gang lacks a member that it needs",
    "scaled": "the job asks for fewer tasks",
    "policy": "the policy in force would not have admitted it",
    "time-limit": "it has run for as long as it may",
    "paused": "it is paused",
    "asked": "by hand",
    "drain": "its node is being emptied",
    "device": "a GPU broke under it",
    "over-share": "it uses more of a GPU than its share",
}


@tells(decisions.EvictionDecided)
def _eviction_decided(decision: decisions.EvictionDecided, _pool: Pool) -> Said:
    grace = f"grace {duration_text(decision.grace)}"
    who = members(decision.job, decision.tasks)
    return Said("eviction decided", who, joined(CAUSES[decision.cause], decision.reason, grace), "evict")


@tells(decisions.DrainDue)
def _drain_due(decision: decisions.DrainDue, _pool: Pool) -> Said:
    return Said("drain due", decision.node, "its deadline is over: what is still there leaves", "warn")


@tells(decisions.MigrationDecided)
def _migration_decided(decision: decisions.MigrationDecided, pool: Pool) -> Said:
    more = joined(decision.reason, f"grace {duration_text(decision.grace)}", until(decision.expires, "kept until"))
    what = "job moves" if decision.cause == "migration" else "job starts again"
    return Said(what, f"{decision.job} → {places_text(pool, decision.placement)}", more, "evict")


@tells(decisions.MigrationRefused)
def _migration_refused(decision: decisions.MigrationRefused, _pool: Pool) -> Said:
    return Said("move refused", decision.job, f"it stays: {decision.reason}", "warn")


@tells(decisions.EvictionStuck)
def _eviction_stuck(decision: decisions.EvictionStuck, _pool: Pool) -> Said:
    who = members(decision.job, decision.tasks)
    return Said("eviction stuck", who, "its GPUs did not come free in time and count as taken until they do", "bad")


@tells(decisions.EvictionWithdrawn)
def _eviction_withdrawn(decision: decisions.EvictionWithdrawn, _pool: Pool) -> Said:
    told = "its nodes are asked to confirm" if decision.told else "nobody had been told"
    return Said("eviction withdrawn", members(decision.job, decision.tasks), joined(decision.reason, told), "good")
