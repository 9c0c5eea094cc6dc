"""How long who leaves has between notice and KILL, seen from who needs the room."""

from bailiff_core.model.pool import Job, Pool

from .attempts import grace_of


def grace_for(pool: Pool, asker: Job, victim: Job) -> int:
    """The victim's own grace, µs; at most the tier's short one where the asker's class is `immediate`."""
    own = grace_of(pool, victim)
    tier = pool.rules.find_class(asker.class_name)
    return min(own, tier.immediate_grace) if tier is not None and tier.immediate else own
