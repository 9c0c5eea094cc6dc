"""Lines about where jobs are placed, what they wait for, and how they end."""

from bailiff_core.model.places import numbers
from bailiff_core.model.pool import Pool
from bailiff_core.records import decisions
from bailiff_core.words import cost_text, count_text, duration_text

from .line import Said
from .tellers import Tellers
from .words import joined, members, places_text, until

tells = Tellers()


@tells(decisions.JobPlaced)
def _job_placed(decision: decisions.JobPlaced, pool: Pool) -> Said:
    places = places_text(pool, decision.placement)
    again = f"attempt {decision.attempt}" if decision.attempt > 1 else ""
    if decision.reserved:
        held = until(decision.expires, "held until")
        return Said("job reserved", decision.job, joined(f"→ {places}", again, "room is on its way out", held))
    return Said("job placed", decision.job, joined(f"→ {places}", again), "good")


@tells(decisions.JobGrown)
def _job_grown(decision: decisions.JobGrown, pool: Pool) -> Said:
    more = count_text(sum(len(numbers(share.tasks)) for share in decision.placement), "task")
    places = places_text(pool, decision.placement)
    if decision.reserved:
        return Said("job grows", decision.job, joined(f"{more} more → {places}", "room is on its way out"))
    return Said("job grows", decision.job, f"{more} more → {places}", "good")


@tells(decisions.JobShrunk)
def _job_shrunk(decision: decisions.JobShrunk, _pool: Pool) -> Said:
    lost = f"lost {cost_text(decision.lost_gpu_ms)}" if decision.lost_gpu_ms else ""
    return Said(
        "job shrank", members(decision.job, decision.tasks), joined(f"it goes on without: {decision.cause}", lost), "warn"
    )


@tells(decisions.JobStartOrdered)
def _job_start_ordered(decision: decisions.JobStartOrdered, _pool: Pool) -> Said:
    return Said("job starts", members(decision.job, decision.tasks), "all of its reserved room is free", "good")


REASONS = {
    "expired": "it waited too long for the room",
    "cancelled": "the job was cancelled",
    "room-gone": "the room is not there any more",
    "given-up": "the plan behind it was given up",
    "preempted": "a job of higher priority takes the room",
    "scaled": "the job does not ask for it any more",
    "policy": "the policy in force does not allow it",
    "paused": "the job was paused",
    "asked": "somebody asked for it",
    "drain": "the node is being emptied",
}


@tells(decisions.ReservationDropped)
def _reservation_dropped(decision: decisions.ReservationDropped, _pool: Pool) -> Said:
    plan = f"plan #{decision.plan}" if decision.plan is not None else ""
    who = members(decision.job, decision.tasks)
    return Said("reservation dropped", who, joined(REASONS[decision.reason], plan), "warn")


@tells(decisions.JobWaits)
def _job_waits(decision: decisions.JobWaits, _pool: Pool) -> Said:
    return Said("job waits", decision.job, decision.reason)


@tells(decisions.JobAged)
def _job_aged(decision: decisions.JobAged, _pool: Pool) -> Said:
    now = f"counts with {decision.effective} instead of {decision.priority}"
    if decision.effective == decision.priority:
        now = f"counts with {decision.priority} again"
    return Said("job aged", decision.job, joined(now, decision.reason))


TIMED_OUT = {"report": "it waits on", "fail": "it ends", "pass": "smaller jobs may pass it"}


@tells(decisions.ScheduleTimedOut)
def _schedule_timed_out(decision: decisions.ScheduleTimedOut, _pool: Pool) -> Said:
    waited = f"no place for {duration_text(decision.waited)}: {TIMED_OUT[decision.then]}"
    return Said("waits too long", decision.job, joined(waited, decision.reason), "warn")


@tells(decisions.JobIdle)
def _job_idle(decision: decisions.JobIdle, _pool: Pool) -> Said:
    follows = {"warn": "it goes on", "pause": "it is paused"}[decision.then]
    return Said("job idle", decision.job, f"its GPUs have done nothing for {duration_text(decision.lasted)}: {follows}", "warn")


@tells(decisions.JobRequeued)
def _job_requeued(decision: decisions.JobRequeued, _pool: Pool) -> Said:
    lost = f"lost {cost_text(decision.lost_gpu_ms)}" if decision.lost_gpu_ms else ""
    later = until(decision.not_before or None, "not before")
    how = f"attempt {decision.attempt} {decision.outcome}"
    return Said("job requeued", decision.job, joined(f"{how}: {decision.cause}", lost, later), "warn")


def how_it_ended(decision: decisions.JobEnded) -> str:
    """What there is to say of a job's end beside its outcome."""
    codes = ", ".join(f"task {task}: {code}" for task, code in list(decision.exit_codes.items())[:4] if code)
    return joined(decision.reason, f"exit codes {codes}" if codes else "")


@tells(decisions.JobEnded)
def _job_ended(decision: decisions.JobEnded, _pool: Pool) -> Said:
    more = joined(decision.outcome, how_it_ended(decision))
    return Said("job ended", decision.job, more, "good" if decision.outcome == "succeeded" else "bad")
