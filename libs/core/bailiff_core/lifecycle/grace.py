"""How long who leaves has between notice and KILL, seen from who needs the room."""

from bailiff_core.model.pool import Job, Pool

from .attempts import grace_of

PART = 5  # 120 s and 30 s of the default grace


def grace_for(pool: Pool, asker: Job, victim: Job) -> int:
    """The victim's own grace, µs; at most the tier's short one where the asker's class is `immediate`."""
    own = grace_of(pool, victim)
    tier = pool.rules.find_class(asker.class_name)
    return min(own, tier.immediate_grace) if tier is not None and tier.immediate else own


def term_after(pool: Pool, job: Job, grace: int) -> int:
    """When TERM goes to a task that knows what a notice is, µs after the notice; the rest of the grace is until KILL.

    The job's own word for that rest, else its class's, else the policy's; a fifth where nobody says, or not so much is left.
    """
    entry = pool.rules.find_class(job.class_name)
    said = (job.demand.kill_after, entry.kill_after if entry is not None else None, pool.rules.eviction.kill_after)
    own = next((each for each in said if each is not None), None)
    return grace - own if own is not None and own < grace else usual_term(grace)


def usual_term(grace: int) -> int:
    """The same, µs, where nobody says how long the rest is to be."""
    return grace - grace // PART
