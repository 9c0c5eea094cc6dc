"""`bailiff.eviction-progress`: evictions that the executor starts, preemptions that it abandons."""

from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_core.admission.rejected import Rejected
from bailiff_core.admission.reported import decided_evictions, every_eviction
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import EvictionStarted, PreemptionAbandoned
from bailiff_core.records.payload import Fact


def facts_of_progress(state: PoolState, progress: StartEviction | AbandonPreemption) -> list[Fact] | Rejected:
    """The fact; none if it is outdated: another attempt, a cancelled eviction, a closed preemption."""
    named = progress.preemption if isinstance(progress, AbandonPreemption) else progress.decided_by
    if named > state.seq:
        return Rejected("ahead-of-log", f"it names the decision #{named}, but the log ends at #{state.seq}")
    if isinstance(progress, AbandonPreemption):
        plan = state.preemptions.get(progress.preemption)
        begun = plan is not None and any(_started(state, victim, plan.seq) for victim in plan.victims)
        if plan is None or plan.abandoned is not None or begun:
            return []
        return [PreemptionAbandoned.saying(progress)]
    waiting = decided_evictions(state, progress.job, progress.attempt, progress.decided_by)
    if not any(eviction.started_seq is None and eviction.cancel_seq is None for eviction in waiting):
        return []
    return [EvictionStarted.saying(progress)]


def _started(state: PoolState, name: str, plan: int) -> bool:
    job = state.jobs.get(name)
    evictions = every_eviction(job) if job is not None else []
    return any(eviction.preemption == plan and eviction.started_seq is not None for eviction in evictions)
