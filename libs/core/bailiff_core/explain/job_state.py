"""What a job's state is: in one sentence, and what is special about its placement."""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import count_text, duration_text, first_names, user_text, with_exit_codes
from bailiff_core.model.state import ENDED, OPERATOR, Job, PoolState
from bailiff_core.placement.islands import NO_ISLAND, PER_TASK
from bailiff_core.records import Record, decisions

from .dependencies import waits_for_text
from .evictions import REQUESTS
from .reservations import leaves_for_maintenance, stays_until
from .sentences import Sentence, actor_text, clock, has_or_have, newest_of, seqs_of, without_stop

SECOND = 1_000_000
ISLANDS = {
    PER_TASK: "The GPUs of each of its tasks are on one island; no free island fitted all of them",
    NO_ISLAND: "No free island fitted, so its GPUs are not all on one, and it did not wait for one",
}


def state_sentences(state: PoolState, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """Its state, whether it was backfilled, and whether its GPUs are on one island."""
    yield _state_sentence(state, job, history)
    yield from stays_until(state, job)
    yield from leaves_for_maintenance(state, job)
    yield from _backfilled(state, job, history)
    yield from _island(job, history)


def _state_sentence(state: PoolState, job: Job, history: Sequence[Record]) -> Sentence:
    rank = f"{job.class_name} {job.priority}"
    if job.priority != job.base_priority:
        rank += f", {job.base_priority} by its class"
    user, requester = user_text(job.user, job.user_verified), user_text(job.requester, job.requester_verified)
    belongs = [f"{what} {name}" for what, name in (("project", job.project), ("user", user)) if name]
    subject = f"{job.id} ({', '.join([rank, *belongs])})"
    if job.phase in ENDED:
        last = newest_of(history, decisions.JobEnded)
        reason = end_reason(job, history)
        why = f", {reason}" if (job.phase == "failed" or job.failed_dependency) and reason else ""
        why = f" by {requester}" if job.phase == "cancelled" and requester else why
        return Sentence(
            f"{subject} ended at {clock(job.ended_at)}: {job.phase}{why}.", seqs_of(last.seq if last is not None else None)
        )
    if job.suspended_reason is not None:
        return Sentence(f"{subject} is suspended: {job.suspended_reason}.", seqs_of(job.seq))
    if job.eviction is not None:
        is_being = "is being stopped" if job.eviction.cause == "cancelled" else "is being evicted"
        why = f"for {job.eviction.for_job}" if job.eviction.for_job else f"({job.eviction.cause})"
        by_request = job.eviction.cause in REQUESTS
        why += f" by {requester}" if by_request and requester else ""
        late = "; its resources were not released in time" if job.eviction.stuck else ""
        shortened = ", shortened" if job.eviction.shortened_seq is not None else ""
        text = f"{subject} {is_being} {why}, with {duration_text(job.eviction.grace)} of grace{shortened}{late}."
        return Sentence(text, seqs_of(job.eviction.decided_seq, job.eviction.started_seq, job.eviction.shortened_seq))
    if job.phase == "paused":
        reason = f": {without_stop(job.pause_reason)}" if job.pause_reason else ""
        by = _by(history, job.paused_seq)
        how = f"bailiff resume {job.id}{', which only an operator may' if OPERATOR in job.holds else ''}"
        text = f"{subject} {f'has been paused{by}' if by else 'is paused'}{reason}. To resume it: {how}."
        return Sentence(text, seqs_of(job.paused_seq))
    if job.phase == "waiting":
        return Sentence(f"{subject} {waits_for_text(state, job)}.", seqs_of(job.seq))
    if job.phase == "pending":
        pending = [name for name in state.queue if name not in state.active]
        ahead = pending.index(job.id) if job.id in pending else 0
        before = f"{count_text(ahead, 'job')} ahead of it in the queue" if ahead else "first in the queue"
        since = job.queued_since
        duration = f" ({duration_text(state.now - since)})" if state.now - since >= SECOND else ""
        return Sentence(f"{subject} has been pending since {clock(since)}{duration}, {before}.", seqs_of(job.seq))
    where = _nodes(state, (task.node for task in job.tasks))
    if job.phase == "reserved":
        plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
        until = f" until {clock(job.reserved_until)}" if job.reserved_until else ""
        starts_when = (
            f"; it starts when {first_names(plan.victims)} {has_or_have(plan.victims)} exited"
            if plan is not None and plan.victims
            else ""
        )
        return Sentence(f"{subject} has resources reserved on {where}{until}{starts_when}.", seqs_of(_placed_by(history, job.id)))
    running = sum(task.state == "running" for task in job.tasks)
    running_tasks = f", {running} of {job.size} tasks (at least {job.minimum})" if job.minimum < job.size else ""
    return Sentence(
        f"{subject} {_runs(job)} on {where} as attempt {job.attempt}{running_tasks}.", seqs_of(_placed_by(history, job.id))
    )


def end_reason(job: Job, history: Sequence[Record]) -> str:
    """Why the job ended; empty if it succeeded, or no record says it."""
    last = newest_of(history, decisions.JobEnded)
    if last is None or not isinstance(last.data, decisions.JobEnded):
        return ""
    end = last.data
    if end.outcome == "evicted":
        return ", ".join(filter(None, ["it was evicted, and on_eviction is end", end.reason]))
    limit = job.demand.max_failures
    if end.outcome == "failed" and limit is not None and job.failures > limit and job.demand.on_failure == "restart":
        return f"{with_exit_codes(end.reason)}; it failed {count_text(job.failures, 'time')}, and max_failures is {limit}"
    return with_exit_codes(end.reason)


def _by(history: Sequence[Record], seq: int | None) -> str:
    """Time and actor of the record, if it has one."""
    for record in history:
        if record.seq == seq:
            by = actor_text(record)
            return f" since {clock(record.time)}" + (f" by {by}" if by else "")
    return ""


def _runs(job: Job) -> str:
    return f"has been running since {clock(job.last_start)}" if job.last_start is not None else "is starting"


def _backfilled(state: PoolState, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """That the job may be evicted for the head of the queue."""
    if job.id in state.backfilled:
        text = "It was backfilled: it started while a job ahead of it in the queue was waiting, and may be evicted for that job"
        yield Sentence(f"{text} (policy field backfill).", seqs_of(_placed_by(history, job.id), state.policy_revision))


def _island(job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """What its preference for GPUs on one island came to when it was placed."""
    if job.phase in ENDED or not job.tasks:
        return
    for record in reversed(history):
        island = getattr(record.data, "island", "")
        if island and (
            isinstance(record.data, decisions.JobPlaced | decisions.MigrationDecided) or preemptor_of(record) == job.id
        ):
            what = ISLANDS.get(island, f"Its GPUs are on one island, {island}")
            yield Sentence(f"{what} (placement: prefer nvlink).", seqs_of(record.seq))
            return


def _placed_by(history: Sequence[Record], job: str) -> int | None:
    """Seq of the newest record that placed the job."""
    placing = (
        record for record in reversed(history) if isinstance(record.data, decisions.JobPlaced) or preemptor_of(record) == job
    )
    return next((record.seq for record in placing), None)


def preemptor_of(record: Record) -> str | None:
    """The job for which this record evicts others."""
    return record.data.preemptor.job if isinstance(record.data, decisions.PreemptionDecided) else None


def _nodes(state: PoolState, found: Iterable[int]) -> str:
    return first_names([state.nodes[number].name for number in dict.fromkeys(found) if number in state.nodes]) or "no node"
