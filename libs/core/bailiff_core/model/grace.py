"""Grace periods: the time from eviction notice to KILL and from TERM to KILL, in µs."""

from .claims import believed, within
from .job_rules import GRACE, KILL_AFTER
from .state import Job, PoolState

KILL_FRACTION = 5  # TERM to KILL is 1/5 of the grace: 30 s of the default 150 s


def grace_of(state: PoolState, job: Job) -> int:
    """Returns the time from notice to KILL, µs: what is granted, or less for a job that is believed less."""
    granted = granted_grace(state, job)
    return max(min(granted, state.rules.eviction.short_grace), believed(job, granted))


def granted_grace(state: PoolState, job: Job) -> int:
    """Returns the grace that the policy grants, µs: the job's own, at most its bound, else that of `grace_by_policy`."""
    default, claimed = grace_by_policy(state, job), job.demand.grace
    return default if claimed is None else within(state, job, "grace", claimed, default)


def grace_by_policy(state: PoolState, job: Job) -> int:
    """Returns the grace of a job that claims none, µs: its project's, else its class's, else the policy's."""
    return GRACE.of(state, job).value


def grace_for(state: PoolState, preemptor: Job, victim: Job) -> int:
    """Returns the victim's grace, µs; capped by `immediate_grace` if the preemptor's class is `immediate`."""
    configured = grace_of(state, victim)
    tier = state.rules.find_class(preemptor.class_name)
    return min(configured, tier.immediate_grace) if tier is not None and tier.immediate else configured


def term_after(state: PoolState, job: Job, grace: int) -> int:
    """Returns the time from notice to TERM of a task that handles notices, µs; KILL follows at the end of the grace.

    The time from TERM to KILL is the job's `kill_after`, else its project's, its class's or the policy's; a fifth of the grace
    where none is set, or where it is not shorter than the grace.
    """
    own = job.demand.kill_after
    configured = KILL_AFTER.of(state, job).value if own is None else own
    return grace - configured if configured is not None and configured < grace else default_term_after(grace)


def default_term_after(grace: int) -> int:
    """Returns the time from notice to TERM where no `kill_after` is set, µs."""
    return grace - grace // KILL_FRACTION
