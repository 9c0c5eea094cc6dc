"""How many jobs a user, a project and the pool may have that have not ended."""

from bailiff_core.fold.open_jobs import open_jobs, reached
from bailiff_core.model.state import PoolState

from .rejected import Rejected
from .senders import Ownership

RETRY_AFTER = 60_000_000


def too_many_jobs(state: PoolState, owner: Ownership, job: str) -> Rejected | None:
    """Why one more job of this owner is too many."""
    reason = reached(state.rules.limits, open_jobs(state), owner.user, owner.user_verified, owner.project or "")
    return None if reason is None else Rejected.later("too-many-jobs", reason, state.now + RETRY_AFTER, job)
