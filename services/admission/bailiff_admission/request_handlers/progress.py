"""`bailiff.eviction-progress`: evictions that the executor starts, preemptions that it abandons."""

from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.state import Eviction, Job, PoolState
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
    job = state.jobs.get(progress.job)
    if job is None or job.attempt != progress.attempt:
        return []
    waiting = [eviction for eviction in _evictions(job) if eviction.decided_seq == progress.decided_by]
    if not any(eviction.started_seq is None and eviction.cancel_seq is None for eviction in waiting):
        return []
    return [EvictionStarted.saying(progress)]


def _started(state: PoolState, name: str, plan: int) -> bool:
    job = state.jobs.get(name)
    evictions = _evictions(job) if job is not None else []
    return any(eviction.preemption == plan and eviction.started_seq is not None for eviction in evictions)


def _evictions(job: Job) -> list[Eviction]:
    """Evictions of the job and of single tasks."""
    found = (job.eviction, *(task.eviction for task in job.tasks))
    return [eviction for eviction in found if eviction is not None]
