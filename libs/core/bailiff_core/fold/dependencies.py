"""Which jobs wait for others: kept from a submission until each of those has ended."""

from bailiff_core.model.state import ENDED, NOTHING, Job, PoolState
from bailiff_core.records import decisions

from .allocation import set_phase
from .registry import folds


def note_dependencies(state: PoolState, job: Job) -> None:
    """A submitted job waits for those of its dependencies that have not ended.

    One that the state does not have ended before its retention, or outside of what is simulated: it counts as met.
    """
    for dependency in job.demand.after:
        other = state.jobs.get(dependency.job)
        if other is None or other is job:
            continue
        if other.phase not in ENDED:
            job.waits_for = {**job.waits_for, other.id: dependency.until}
            state.dependents.setdefault(other.id, {})[job.id] = None
        elif dependency.until == "succeeded" and other.phase != "succeeded":
            job.failed_dependency = job.failed_dependency or other.id


def settle_dependents(state: PoolState, ended: Job) -> None:
    """Jobs that waited for this one wait no longer, or can never start. Call when it has ended."""
    for name in ended.waits_for:
        del state.dependents[name][ended.id]
        if not state.dependents[name]:
            del state.dependents[name]
    ended.waits_for = NOTHING
    for name in state.dependents.pop(ended.id, {}):
        job = state.jobs[name]
        until = job.waits_for[ended.id]
        job.waits_for = {name: each for name, each in job.waits_for.items() if name != ended.id} or NOTHING
        if until == "succeeded" and ended.phase != "succeeded":
            job.failed_dependency = job.failed_dependency or ended.id
        state.indices.touched[name] = None


@folds(decisions.DependenciesMet)
def dependencies_met(state: PoolState, decision: decisions.DependenciesMet) -> None:
    """The job joins the queue; its time there begins now."""
    job = state.jobs[decision.job]
    job.pending_since = state.now
    state.indices.touched[job.id] = None
    state.indices.retry_unschedulable = True
    set_phase(state, job, "pending" if job.paused_seq is None else "paused")
