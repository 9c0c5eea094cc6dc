"""Text of records about jobs: placed, pending, requeued, ended."""

from bailiff_core.explain.evictions import ATTEMPT_ENDS
from bailiff_core.explain.pending_records import DROP_REASONS
from bailiff_core.explain.sentences import tasks_text
from bailiff_core.humanize import cost_text, count_text, duration_text, exit_value, first_names, window_text, with_exit_codes
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.project_tree import ROOT, project_text
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.model.units import restarts_to_shrink
from bailiff_core.model.work_lost import loss_text, newest_loss, past_loss
from bailiff_core.queue import share_turn
from bailiff_core.records import Record, decisions
from bailiff_core.records.wire import time_text

from .line import Statement
from .phrases import island_text, joined, members, places_text, until
from .registry import Entries

describes = Entries()


def _grown_word(record: Record, decision: decisions.JobGrown, state: PoolState) -> str:
    """A job grows task by task: its first reservation is an event, and then that the last of these tasks runs."""
    job = state.jobs.get(decision.job)
    if job is None or not decision.reserved or state.seq != record.seq:
        return ""
    added = [index for share in decision.placement for index in numbers(share.tasks)]
    return "Reserved" if sum(task.state == "reserved" for task in job.tasks) == len(added) else ""


def _ended_word(_record: Record, decision: decisions.JobEnded, _state: PoolState) -> str:
    return decision.outcome.title().replace("-", "")


@describes(decisions.JobPlaced, event=lambda _, decision, __: "Reserved" if decision.reserved else "Scheduled")
def _job_placed(decision: decisions.JobPlaced, state: PoolState) -> Statement:
    places = places_text(state, decision.placement)
    again = f"attempt {decision.attempt}" if decision.attempt > 1 else ""
    backfilled = "backfilled" if decision.backfilled else ""
    island = island_text(decision.island)
    if decision.reserved:
        held = until(decision.expires, "reserved until")
        detail = joined(f"→ {places}", island, again, backfilled, "resources are being released", held)
        return Statement("job reserved", decision.job, detail)
    return Statement("job placed", decision.job, joined(f"→ {places}", island, again, backfilled), "good")


@describes(decisions.JobGrown, event=_grown_word)
def _job_grown(decision: decisions.JobGrown, state: PoolState) -> Statement:
    added = count_text(sum(len(numbers(share.tasks)) for share in decision.placement), "task")
    places, island = places_text(state, decision.placement), island_text(decision.island)
    if decision.reserved:
        return Statement("job grown", decision.job, joined(f"{added} more → {places}", island, "resources are being released"))
    return Statement("job grown", decision.job, joined(f"{added} more → {places}", island), "good")


def _lost(state: PoolState, decision: decisions.JobShrunk | decisions.JobRequeued) -> str:
    job = state.jobs.get(decision.job)
    part = numbers(decision.tasks) if isinstance(decision, decisions.JobShrunk) else ()
    measured = isinstance(decision, decisions.JobRequeued) and decision.measured
    loss = newest_loss(state, decision.job, decision.lost_gpu_ms)
    if loss is None and job is not None and state.policy is not None:
        loss = past_loss(state, job, decision.lost_gpu_ms, [Task(index, 0, 0, "released") for index in part], measured=measured)
    return f"lost {loss_text(loss, decision.lost_gpu_ms)}" if decision.lost_gpu_ms else ""


def with_fewer(job: Job | None) -> str:
    """What an elastic job does when it loses some of its tasks."""
    return "restarts" if job is not None and restarts_to_shrink(job) else "continues"


@describes(decisions.JobShrunk, event="Shrunk")
def _job_shrunk(decision: decisions.JobShrunk, state: PoolState) -> Statement:
    more = joined(f"{with_fewer(state.jobs.get(decision.job))} without them: {decision.cause}", _lost(state, decision))
    return Statement("job shrunk", members(decision.job, decision.tasks), more, "warn")


@describes(decisions.JobStarting, event=lambda _, decision, __: "" if decision.tasks else "Scheduled")
def _job_starting(decision: decisions.JobStarting, _state: PoolState) -> Statement:
    return Statement("job starting", members(decision.job, decision.tasks), "its reserved resources are free", "good")


@describes(decisions.ReservationDropped, event="Unreserved")
def _reservation_dropped(decision: decisions.ReservationDropped, _state: PoolState) -> Statement:
    plan = f"preemption #{decision.preemption}" if decision.preemption is not None else ""
    who = members(decision.job, decision.tasks)
    return Statement("reservation dropped", who, joined(DROP_REASONS[decision.reason], plan), "warn")


@describes(decisions.JobPending, event="Pending")
def _job_pending(decision: decisions.JobPending, _state: PoolState) -> Statement:
    return Statement("job pending", decision.job, decision.reason)


@describes(decisions.DependenciesMet, event="DependenciesMet")
def _dependencies_met(decision: decisions.DependenciesMet, _state: PoolState) -> Statement:
    return Statement("dependencies met", decision.job, "it joins the queue")


@describes(decisions.JobPriorityBoosted, event="PriorityBoosted")
def _job_priority_boosted(decision: decisions.JobPriorityBoosted, _state: PoolState) -> Statement:
    now = f"effective priority {decision.effective_priority} instead of {decision.priority}"
    if decision.effective_priority == decision.priority:
        now = f"effective priority {decision.priority} again"
    return Statement("priority boosted", decision.job, joined(now, decision.reason))


TIMED_OUT = {"report": "it stays pending", "fail": "it fails", "pass": "smaller jobs may be placed before it"}


@describes(decisions.ScheduleTimedOut, event="ScheduleTimedOut")
def _schedule_timed_out(decision: decisions.ScheduleTimedOut, _state: PoolState) -> Statement:
    waited = f"unschedulable for {duration_text(decision.waited)}: {TIMED_OUT[decision.action]}"
    return Statement("schedule timeout", decision.job, joined(waited, decision.reason), "warn")


@describes(decisions.JobIdle, event="Idle")
def _job_idle(decision: decisions.JobIdle, _state: PoolState) -> Statement:
    follows = {"warn": "it keeps running", "pause": "it is paused"}[decision.action]
    return Statement("job idle", decision.job, f"its GPUs were idle for {duration_text(decision.duration)}: {follows}", "warn")


@describes(decisions.JobCheckpointDue)
def _job_checkpoint_due(decision: decisions.JobCheckpointDue, _state: PoolState) -> Statement:
    return Statement("save due", decision.job, "its nodes save it while it runs", "quiet")


@describes(decisions.ParkedJobSaveDue)
def _parked_job_save_due(decision: decisions.ParkedJobSaveDue, _state: PoolState) -> Statement:
    why = {"park-limit": "it has been parked for long", "drain": "its node is drained", "policy": "the policy parks no jobs"}
    return Statement("save due", decision.job, f"{why[decision.why]}: its node saves it to disk", "quiet")


@describes(decisions.SnapshotExpired, event="SnapshotExpired")
def _snapshot_expired(decision: decisions.SnapshotExpired, _state: PoolState) -> Statement:
    lost = f", which loses {cost_text(decision.lost_gpu_ms)} of work" if decision.lost_gpu_ms else ""
    return Statement("snapshot over", decision.job, f"kept as long as the policy says: it begins anew{lost}", "warn")


@describes(decisions.JobRequeued, event=lambda _, decision, __: "Shrunk" if decision.without else "Requeued")
def _job_requeued(decision: decisions.JobRequeued, state: PoolState) -> Statement:
    lost = _lost(state, decision)
    fewer = f"restarts without {tasks_text(decision.without)}" if decision.without else ""
    later = until(decision.not_before or None, "not before")
    how = f"attempt {decision.attempt} {ATTEMPT_ENDS[decision.outcome]}"
    rule = f"rule {decision.rule}" if decision.rule else ""
    elsewhere = f"not again on {', '.join(decision.refused_by)}" if decision.refused_by else ""
    held = f"paused: {decision.held}" if decision.held else ""
    more = joined(f"{how}: {decision.cause}", fewer, rule, lost, elsewhere, held or later)
    return Statement("job requeued", decision.job, more, "warn")


def how_it_ended(decision: decisions.JobEnded) -> str:
    """The reason and the exit codes of a job's end."""
    codes = [(task, code) for task, code in list(decision.exit_codes.items())[:4] if code]
    listed = ", ".join(f"task {task}: {exit_value(code)}" for task, code in codes)
    return joined(with_exit_codes(decision.reason), f"exit codes {listed}" if codes else "")


@describes(decisions.JobEnded, event=_ended_word)
def _job_ended(decision: decisions.JobEnded, _state: PoolState) -> Statement:
    lost = f"lost {cost_text(decision.lost_gpu_ms)} of work" if decision.lost_gpu_ms else ""
    more = joined(decision.outcome, how_it_ended(decision), lost)
    return Statement("job ended", decision.job, more, "good" if decision.outcome == "succeeded" else "bad")


@describes(decisions.ShareTurnBegan)
def _share_turn_began(decision: decisions.ShareTurnBegan, _state: PoolState) -> Statement:
    return Statement("share turn", project_text(decision.parent or ROOT), share_turn.text(decision))


@describes(decisions.BudgetLevelChanged)
def _budget_level_changed(decision: decisions.BudgetLevelChanged, _state: PoolState) -> Statement:
    used = f"{cost_text(decision.used_gpu_ms)} of {cost_text(decision.of_gpu_ms)} used in {time_text(decision.month)[:7]}"
    what = {"within": "budget within", "warning": "budget warning", "exhausted": "budget exhausted"}[decision.level]
    return Statement(what, decision.budget, used, {"within": "good", "warning": "warn", "exhausted": "bad"}[decision.level])


@describes(decisions.ReservationBegan)
def _reservation_began(decision: decisions.ReservationBegan, _state: PoolState) -> Statement:
    gpus = f"{count_text(decision.gpus, 'GPU')} for project {decision.project}, {window_text(decision.begin, decision.end)}"
    if not decision.missing:
        return Statement("reservation began", decision.reservation, gpus, "good")
    nodes = f"; {first_names(decision.unavailable)} take no tasks" if decision.unavailable else ""
    leaving = f"; {first_names(decision.leaving)} have not left yet" if decision.leaving else ""
    return Statement("reservation began", decision.reservation, f"{gpus}: {decision.missing} are missing{nodes}{leaving}", "bad")


@describes(decisions.ReservationEnded)
def _reservation_ended(decision: decisions.ReservationEnded, _state: PoolState) -> Statement:
    return Statement("reservation ended", decision.reservation, "all of it is over" if decision.last else "until the next time")
