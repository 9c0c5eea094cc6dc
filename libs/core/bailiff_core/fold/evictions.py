"""Evictions: decided, begun, stuck, taken back."""

from bailiff_core.model.pool import Eviction, Pool
from bailiff_core.records import decisions, facts

from .register import folds
from .room import changing, phase_of, set_phase


@folds(decisions.EvictionDecided)
def eviction_decided(pool: Pool, decision: decisions.EvictionDecided) -> None:
    """The attempt is to end."""
    job = pool.jobs[decision.job]
    with changing(pool, job):
        job.eviction = Eviction(pool.seq, decision.cause, decision.grace)
    pool.room_grew = True
    set_phase(pool, job, "evicting")


@folds(facts.EvictionBegun)
def eviction_begun(pool: Pool, fact: facts.EvictionBegun) -> None:
    """From here on agents may be told, by the order of this record."""
    eviction = pool.jobs[fact.job].eviction
    if eviction is not None and eviction.begun_seq is None:
        eviction.begun_seq, eviction.begun_at = pool.seq, pool.now


@folds(decisions.EvictionStuck)
def eviction_stuck(pool: Pool, decision: decisions.EvictionStuck) -> None:
    """Nobody counts on this room any more."""
    job = pool.jobs[decision.job]
    with changing(pool, job):
        if job.eviction is not None:
            job.eviction.stuck = True
    for name in pool.reserved:
        pool.touched[name] = None


@folds(decisions.EvictionWithdrawn)
def eviction_withdrawn(pool: Pool, decision: decisions.EvictionWithdrawn) -> None:
    """Never told: it is as if nothing had been. Told: the agents' confirmations are awaited."""
    job = pool.jobs[decision.job]
    with changing(pool, job):
        if job.eviction is not None and decision.told:
            job.eviction.spare_seq = pool.seq
        else:
            job.eviction = None
    if not decision.told:
        pool.touched[job.id] = None
        set_phase(pool, job, phase_of(job))
