"""Why a pending job is not placed now: the same answers for `explain` and `plan`."""

from bailiff_core.actions.allocate import WOULD_DELAY
from bailiff_core.actions.growth import growth_that_fits
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import Unit, next_unit, restarts_to_grow
from bailiff_core.placement.gang import GangPlacement, NoFit, cannot_fit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.protections.payback import too_dear_to_grow
from bailiff_core.quota.maintenance import on_open_nodes, with_maintenance
from bailiff_core.quota.quota_checks import cooldown_violation, over_bounds
from bailiff_core.scheduling_snapshot import current_snapshot

from .budgets import waits_for_budget
from .sentences import clock


def what_it_lacks(state: PoolState, job: Job) -> str | None:
    """The limit, the resources or the gain that the job's next unit lacks; None if it fits, or if it has no next unit."""
    unit = next_unit(job)
    if unit is None:
        return None
    snapshot = current_snapshot(state)
    violation = waits_for_budget(state, job) or cooldown_violation(snapshot, unit) or over_bounds(snapshot, unit)
    if violation is not None:
        return violation
    if "allocate" not in state.rules.preemption.actions:
        return "action allocate is disabled (policy field preemption.actions)"
    found = place_now(state, unit)
    if isinstance(found, NoFit):
        return with_maintenance(state, job, found.why)
    waits = waits_until(state, job) if job.tasks else None
    if waits is not None or not restarts_to_grow(state, job):
        return waits
    growth = growth_that_fits(state, unit, found)
    return None if growth.pays else too_dear_to_grow(growth)


def waits_until(state: PoolState, job: Job) -> str | None:
    """Until when the job is not started again, or does not grow, and by which field; None: it does not wait."""
    if job.not_before <= state.now:
        return None
    before, rules = f"before {clock(job.not_before)}", state.rules.restarts
    if restarts_to_grow(state, job):
        return f"it does not restart to grow {before} (policy field restarts.grow_after)"
    if job.tasks:
        return f"it does not grow {before}, as it has just lost tasks"
    own = job.demand.restart_backoff or 0
    field = "its own restart_backoff" if own > rules.backoff else "policy field restarts.backoff"
    return f"it is not started again {before} ({field}, doubled for each restart, at most policy field restarts.max_backoff)"


def place_now(state: PoolState, unit: Unit) -> GangPlacement | NoFit:
    """A place of the unit on free and releasing resources, whatever the bounds of its projects."""
    cluster = current_snapshot(state).cluster
    mark = cluster.mark()
    found = place_unit(cluster, on_open_nodes(state, unit), StepBudget(state.rules.preemption.search_steps))
    cluster.rollback(mark)
    return found


def has_room(state: PoolState, unit: Unit) -> bool:
    """Whether the unit fits now, within the bounds of its projects: it lacks no victims."""
    snapshot = current_snapshot(state)
    if cooldown_violation(snapshot, unit) or over_bounds(snapshot, unit) or cannot_fit(snapshot.cluster, unit):
        return False
    return isinstance(place_now(state, unit), GangPlacement)


def with_field(state: PoolState, reason: str) -> str:
    """The reason on record, with the policy's field that it follows from, where it is the backfill."""
    return f"{reason} (policy field backfill: {state.rules.backfill})" if reason.startswith(WOULD_DELAY) else reason


def held_back(state: PoolState) -> str | None:
    """Why a job that fits is not started all the same; None where the policy starts every job that fits."""
    backfill = state.rules.backfill
    if backfill == "greedy":
        return None
    only = "; only preemptible jobs are, while nothing says when that job can start" if backfill == "preemptible" else ""
    text = "it fits, but it is not started where that would delay the first job in the queue"
    return f"{text}{only} (policy field backfill: {backfill})"
