"""Explanation of one job: its state, why it is pending, what would unblock it, its evictions, and the jobs it preempted."""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import count_text, duration_text, user_text
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.islands import NO_ISLAND, PER_TASK
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue import start_slo
from bailiff_core.queue.backfilled import backfilled_victims
from bailiff_core.queue.order import shares_now
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.project_cooldown import cooldown_violation
from bailiff_core.quota.quota_checks import may_reclaim, over_bounds
from bailiff_core.records import Record, decisions, facts
from bailiff_core.scheduling_snapshot import current_snapshot

from .dependencies import dependency_sentences, waits_for_text
from .evictions import (
    REQUESTS,
    earlier_evictions,
    eviction_course,
    eviction_reasons,
    evicts,
    evicts_surplus_only,
    return_sentences,
)
from .sentences import Section, Sentence, actor_text, clock, first_names, has_or_have, listed, newest_of, seqs_of, without_stop
from .unblockers import unblocking_sentences
from .victims import preemption_sentences, refusal_sentences

SECOND = 1_000_000


def explain_job(state: PoolState, job: Job, history: Sequence[Record]) -> list[Section]:
    """Sections about the job. state: after the last record.

    history: the records about the job, and the requests that decisions about it answer, in order.
    """
    sections = [
        Section(
            "What is its state?",
            (_state_sentence(state, job, history), *_backfilled(state, job, history), *_island(job, history)),
        )
    ]
    if job.phase == "waiting":
        sections.append(Section("Which jobs does it wait for?", tuple(dependency_sentences(state, job))))
    elif job.phase == "pending":
        sections.append(Section("Why is it pending?", tuple(_pending_sentences(state, job, history))))
        refusal = _newest_refusal(_since_queued(history))
        sections.append(Section("What would unblock it?", tuple(unblocking_sentences(state, job, refusal))))
    elif job.id in state.queue:
        sections.append(Section("Why are some of its tasks pending?", tuple(_current_obstacles(state, job))))
    evicted = [record for record in history if evicts(record, job.id)]
    if evicted:
        subject = "were some of its tasks" if evicts_surplus_only(evicted[-1], job.id) else "was it"
        reasons = (*eviction_reasons(job, evicted[-1], history), *_preemptor_s_user(state, evicted[-1]))
        sections.append(Section(f"Why {subject} evicted?", reasons))
        sections.append(
            Section("When does it resume, and what protects it then?", tuple(return_sentences(state, job, evicted[-1], history)))
        )
        sections.append(Section("How did the eviction proceed?", tuple(eviction_course(job, evicted[-1], history))))
        sections += earlier_evictions(job, evicted, history)
    preemptions = [record for record in history if _preemptor_of(record) == job.id]
    if preemptions:
        sections.append(Section("Which jobs did it preempt?", tuple(preemption_sentences(preemptions[-1]))))
    return [section for section in sections if section.sentences]


def _preemptor_s_user(state: PoolState, record: Record) -> Iterable[Sentence]:
    """Whose job the preemptor is."""
    preemptor = state.jobs.get(_preemptor_of(record) or "")
    if preemptor is not None and preemptor.user:
        user = user_text(preemptor.user, preemptor.user_verified)
        yield Sentence(f"{preemptor.id} was submitted by {user}.", seqs_of(preemptor.seq))


def _state_sentence(state: PoolState, job: Job, history: Sequence[Record]) -> Sentence:
    rank = f"{job.class_name} {job.priority}"
    if job.priority != job.base_priority:
        rank += f", {job.base_priority} by its class"
    user = user_text(job.user, job.user_verified)
    belongs = [f"{what} {name}" for what, name in (("project", job.project), ("user", user)) if name]
    subject = f"{job.id} ({', '.join([rank, *belongs])})"
    if job.phase in ENDED:
        last = newest_of(history, decisions.JobEnded)
        reason = last.data.reason if last is not None and isinstance(last.data, decisions.JobEnded) else ""
        why = f", {reason}" if (job.phase == "failed" or job.failed_dependency) and reason else ""
        why = f" by {job.requester}" if job.phase == "cancelled" and job.requester else why
        return Sentence(
            f"{subject} ended at {clock(job.ended_at)}: {job.phase}{why}.", seqs_of(last.seq if last is not None else None)
        )
    if job.suspended_reason is not None:
        return Sentence(f"{subject} is suspended: {job.suspended_reason}.", seqs_of(job.seq))
    if job.eviction is not None:
        why = f"for {job.eviction.for_job}" if job.eviction.for_job else f"({job.eviction.cause})"
        by_request = job.eviction.cause in REQUESTS
        why += f" by {job.requester}" if by_request and job.requester else ""
        late = "; its resources were not released in time" if job.eviction.stuck else ""
        text = f"{subject} is being evicted {why}, with {duration_text(job.eviction.grace)} of grace{late}."
        return Sentence(text, seqs_of(job.eviction.decided_seq, job.eviction.started_seq))
    if job.phase == "paused":
        reason = f": {without_stop(job.pause_reason)}" if job.pause_reason else ""
        by = _by(history, job.paused_seq)
        text = f"{subject} {f'has been paused{by}' if by else 'is paused'}{reason}. To resume it: bailiff resume {job.id}."
        return Sentence(text, seqs_of(job.paused_seq))
    if job.phase == "waiting":
        return Sentence(f"{subject} {waits_for_text(job)}.", seqs_of(job.seq))
    if job.phase == "pending":
        pending = [name for name in state.queue if name not in state.active]
        ahead = pending.index(job.id) if job.id in pending else 0
        before = f"{count_text(ahead, 'job')} ahead of it in the queue" if ahead else "first in the queue"
        since = max(job.submitted_at, job.last_eviction or 0, job.pending_since if job.demand.after else 0)
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
        return Sentence(
            f"{subject} has resources reserved on {where}{until}{starts_when}.",
            seqs_of(_placed_by(history, job.id)),
        )
    running = sum(task.state == "running" for task in job.tasks)
    running_tasks = f", {running} of {job.size} tasks (at least {job.minimum})" if job.minimum < job.size else ""
    return Sentence(
        f"{subject} {_runs(job)} on {where} as attempt {job.attempt}{running_tasks}.",
        seqs_of(_placed_by(history, job.id)),
    )


def _by(history: Sequence[Record], seq: int | None) -> str:
    """Time and actor of the record, if it has one."""
    for record in history:
        if record.seq == seq:
            by = actor_text(record)
            return f" since {clock(record.time)}" + (f" by {by}" if by else "")
    return ""


def _runs(job: Job) -> str:
    return f"has been running since {clock(job.last_start)}" if job.last_start is not None else "is starting"


def _pending_sentences(state: PoolState, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    since_queued = _since_queued(history)
    queued = newest_of(since_queued, decisions.JobPending)
    if queued is not None and isinstance(queued.data, decisions.JobPending) and queued.data.reason:
        yield Sentence(f"As of {clock(queued.time)}: {without_stop(queued.data.reason)}.", seqs_of(queued.seq))
    yield from _current_obstacles(state, job)
    if job.not_before > state.now:
        yield Sentence(
            f"Restart backoff: it is not started again before {clock(job.not_before)}.",
            seqs_of(_seq_of(history, decisions.JobRequeued)),
        )
    yield from _lateness(state, job)
    late = newest_of(since_queued, decisions.ScheduleTimedOut)
    if late is not None:
        assert isinstance(late.data, decisions.ScheduleTimedOut)
        effect = {"report": "is only reported", "fail": "fails it", "pass": "lets smaller jobs pass it"}[late.data.action]
        text = (
            f"Rule schedule-timeout: it was pending for {duration_text(late.data.waited)}, longer than allowed, which {effect}."
        )
        yield Sentence(text, seqs_of(late.seq))
    actions = state.rules.preemption.actions
    if not job.may_preempt:
        yield Sentence(
            f"Jobs of class {job.class_name} may not preempt: its preemption policy is Never.", seqs_of(state.policy_revision)
        )
    disabled = [action for action in ("reclaim", "preempt") if action not in actions]
    if disabled:
        yield Sentence(f"The policy disables {listed(disabled)} in this pool.", seqs_of(state.policy_revision))
    if state.selection is not None:
        for request in state.selection.requests:
            if request.job == job.id:
                yield Sentence("Victim selection is searching for victims for it.", seqs_of(request.seq))
    refusal = _newest_refusal(since_queued)
    if refusal is not None:
        yield from refusal_sentences(refusal)


def _lateness(state: PoolState, job: Job) -> Iterable[Sentence]:
    """Start SLOs of its class that this job misses."""
    entry, waited = state.rules.find_class(job.class_name), start_slo.start_delay(state, job)
    for percent, within in start_slo.slo_targets(entry) if entry is not None else ():
        if waited is not None and waited > within:
            slo = f"{percent}% of jobs start within {duration_text(within)}"
            text = f"Start SLO of its class: {slo}; it is late by {duration_text(waited - within)}."
            yield Sentence(text, seqs_of(state.policy_revision))


def _current_obstacles(state: PoolState, job: Job) -> Iterable[Sentence]:
    """What blocks it in the current state: resources and limits for allocate, and the conditions of the other actions."""
    unit = next_unit(job)
    if unit is None or state.policy is None:
        return
    snapshot, rules = current_snapshot(state), state.rules
    reason = cooldown_violation(snapshot, unit) or over_bounds(snapshot, unit)
    if reason is None:
        mark = snapshot.mark()
        found = place_unit(snapshot.cluster, unit, StepBudget(rules.preemption.search_steps))
        snapshot.rollback(mark)
        reason = found.why if isinstance(found, NoFit) else None
    if reason is None and rules.backfill != "greedy":
        text = "Currently it fits, but it is not started where that would delay the first job in the queue"
        only = (
            "; only preemptible jobs are, while nothing says when that job can start" if rules.backfill == "preemptible" else ""
        )
        yield Sentence(f"{text}{only} (policy field backfill: {rules.backfill}).", seqs_of(state.policy_revision))
    elif reason is not None:
        yield Sentence(f"Currently: {without_stop(reason)}.")
    if reason is not None and rules.projects and "reclaim" in rules.preemption.actions:
        forbidden = may_reclaim(snapshot, shares_now(snapshot), unit)
        if forbidden is not None:
            yield Sentence(f"It may not reclaim from other projects: {without_stop(forbidden)}.", seqs_of(state.policy_revision))
    drained_nodes = [state.nodes[number] for number in state.draining]
    if drained_nodes:
        names = first_names([node.name for node in drained_nodes])
        yield Sentence(
            f"No new tasks are placed on {names}, which {'is' if len(drained_nodes) == 1 else 'are'} drained.",
            seqs_of(*(node.drain.seq for node in drained_nodes if node.drain is not None)),
        )
    yield from _evicted_for_it(state, job)
    delayed = may_preempt_from(state, job)
    if delayed > state.now and job.may_preempt:
        yield Sentence(f"Rule preemption-delay: it may not preempt before {clock(delayed)}.", seqs_of(state.policy_revision))


def _backfilled(state: PoolState, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """That the job may be evicted for the head of the queue."""
    if job.id in state.backfilled:
        text = "It was backfilled: it started while a job ahead of it in the queue was waiting, and may be evicted for that job"
        yield Sentence(f"{text} (policy field backfill).", seqs_of(_placed_by(history, job.id), state.policy_revision))


ISLANDS = {
    PER_TASK: "The GPUs of each of its tasks are on one island; no free island fitted all of them",
    NO_ISLAND: "No free island fitted, so its GPUs are not all on one, and it did not wait for one",
}


def _island(job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """What its preference for GPUs on one island came to when it was placed."""
    if job.phase in ENDED or not job.tasks:
        return
    for record in reversed(history):
        island = getattr(record.data, "island", "")
        if island and (
            isinstance(record.data, decisions.JobPlaced | decisions.MigrationDecided) or _preemptor_of(record) == job.id
        ):
            what = ISLANDS.get(island, f"Its GPUs are on one island, {island}")
            yield Sentence(f"{what} (placement: prefer nvlink).", seqs_of(record.seq))
            return


def _evicted_for_it(state: PoolState, job: Job) -> Iterable[Sentence]:
    """Which backfilled jobs are evicted for the head of the queue."""
    test = backfilled_victims(state, "preempt", job)
    names = list(test.now()) if test is not None else []
    if names:
        text = (
            f"{count_text(len(names), 'backfilled job')}, which started behind it, can be evicted for it as soon as it then fits"
        )
        yield Sentence(f"{text} (policy field backfill): {first_names(names)}.", seqs_of(state.policy_revision))


def _placed_by(history: Sequence[Record], job: str) -> int | None:
    """Seq of the newest record that placed the job."""
    placing = (
        record for record in reversed(history) if isinstance(record.data, decisions.JobPlaced) or _preemptor_of(record) == job
    )
    return next((record.seq for record in placing), None)


def _preemptor_of(record: Record) -> str | None:
    return record.data.preemptor.job if isinstance(record.data, decisions.PreemptionDecided) else None


def _since_queued(history: Sequence[Record]) -> Sequence[Record]:
    """Records since the job was last queued."""
    for at in reversed(range(len(history))):
        if isinstance(history[at].data, facts.JobSubmitted | decisions.JobRequeued | decisions.ReservationDropped):
            return history[at:]
    return history


def _seq_of(history: Sequence[Record], *kinds: type[object]) -> int | None:
    last = newest_of(history, *kinds)
    return last.seq if last is not None else None


def _newest_refusal(history: Sequence[Record]) -> Record | None:
    """The newest refusal for a reason in the pool's state, else the newest: a stale proposal explains nothing."""
    refusals = [record for record in history if isinstance(record.data, decisions.PreemptionRefused)]
    conclusive = [record for record in refusals if getattr(record.data, "reason", "") in ("impossible", "gave-up")]
    return next(reversed(conclusive or refusals), None)


def _nodes(state: PoolState, found: Iterable[int]) -> str:
    return first_names([state.nodes[number].name for number in dict.fromkeys(found) if number in state.nodes]) or "no node"
