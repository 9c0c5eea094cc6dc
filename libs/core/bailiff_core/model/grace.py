"""Grace periods: the time a victim has between its eviction notice and KILL, and between TERM and KILL. µs."""

from .state import Job, PoolState

PART = 5  # 120 s and 30 s of the default grace


def grace_of(state: PoolState, job: Job) -> int:
    """How long the job has from notice to KILL: its own word, else its class's, else the policy's. µs."""
    if job.demand.grace is not None:
        return job.demand.grace
    entry = state.rules.find_class(job.class_name)
    return entry.grace if entry is not None and entry.grace is not None else state.rules.eviction.grace


def grace_for(state: PoolState, preemptor: Job, victim: Job) -> int:
    """The victim's own grace, µs; at most the tier's short one where the preemptor's class is `immediate`."""
    own = grace_of(state, victim)
    tier = state.rules.find_class(preemptor.class_name)
    return min(own, tier.immediate_grace) if tier is not None and tier.immediate else own


def term_after(state: PoolState, job: Job, grace: int) -> int:
    """When TERM goes to a task that knows what a notice is, µs after the notice; the rest of the grace is until KILL.

    The job's own word for that rest, else its class's, else the policy's; a fifth where nobody says, or not so much is left.
    """
    entry = state.rules.find_class(job.class_name)
    said = (job.demand.kill_after, entry.kill_after if entry is not None else None, state.rules.eviction.kill_after)
    own = next((each for each in said if each is not None), None)
    return grace - own if own is not None and own < grace else default_term_after(grace)


def default_term_after(grace: int) -> int:
    """The same, µs, where nobody says how long the rest is to be."""
    return grace - grace // PART
