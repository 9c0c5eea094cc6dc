"""`bailiff.eviction-progress`: what the executor is about to do, or will not do."""

from bailiff_bus.messages import BegunEviction, GivenUpPlan
from bailiff_core.model.pool import Eviction, Job, Pool
from bailiff_core.records.facts import EvictionBegun, PlanGivenUp
from bailiff_core.records.payload import Fact


def facts_of_progress(pool: Pool, progress: BegunEviction | GivenUpPlan) -> list[Fact]:
    """Nothing where the state has moved on: another attempt, the eviction taken back, the plan closed."""
    if isinstance(progress, GivenUpPlan):
        plan = pool.plans.get(progress.plan)
        begun = plan is not None and any(_begun(pool, victim, plan.seq) for victim in plan.victims)
        if plan is None or plan.given_up is not None or begun:
            return []
        return [PlanGivenUp(plan=progress.plan, reason=progress.reason)]
    job = pool.jobs.get(progress.job)
    if job is None or job.attempt != progress.attempt:
        return []
    waiting = [eviction for eviction in _evictions(job) if eviction.decided_seq == progress.decided]
    if not any(eviction.begun_seq is None and eviction.spare_seq is None for eviction in waiting):
        return []
    return [EvictionBegun(job=progress.job, attempt=progress.attempt, decided=progress.decided)]


def _begun(pool: Pool, name: str, plan: int) -> bool:
    job = pool.jobs.get(name)
    return job is not None and any(eviction.plan == plan and eviction.begun_seq is not None for eviction in _evictions(job))


def _evictions(job: Job) -> list[Eviction]:
    """The whole job's, and those of single members."""
    found = (job.eviction, *(task.eviction for task in job.tasks))
    return [eviction for eviction in found if eviction is not None]
