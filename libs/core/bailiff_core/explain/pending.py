"""Why a job is pending: as recorded, and as of now."""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import count_text, duration_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue import start_slo
from bailiff_core.queue.backfilled import backfilled_victims
from bailiff_core.queue.order import shares_now
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.project_cooldown import cooldown_violation
from bailiff_core.quota.quota_checks import may_reclaim, over_bounds
from bailiff_core.records import Record, decisions, facts
from bailiff_core.scheduling_snapshot import current_snapshot

from .sentences import Sentence, clock, first_names, listed, newest_of, seqs_of, without_stop
from .victims import refusal_sentences


def pending_sentences(state: PoolState, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    """The recorded reason, what blocks it now, and what the policy has to do with it."""
    recent = since_queued(history)
    queued = newest_of(recent, decisions.JobPending)
    if queued is not None and isinstance(queued.data, decisions.JobPending) and queued.data.reason:
        yield Sentence(f"As of {clock(queued.time)}: {without_stop(queued.data.reason)}.", seqs_of(queued.seq))
    yield from obstacle_sentences(state, job)
    if job.not_before > state.now:
        yield Sentence(
            f"Restart backoff: it is not started again before {clock(job.not_before)}.",
            seqs_of(_seq_of(history, decisions.JobRequeued)),
        )
    yield from _lateness(state, job)
    late = newest_of(recent, decisions.ScheduleTimedOut)
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
    refusal = newest_refusal(recent)
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


def obstacle_sentences(state: PoolState, job: Job) -> Iterable[Sentence]:
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


def _evicted_for_it(state: PoolState, job: Job) -> Iterable[Sentence]:
    """Which backfilled jobs are evicted for the head of the queue."""
    test = backfilled_victims(state, "preempt", job)
    names = list(test.now()) if test is not None else []
    if names:
        text = (
            f"{count_text(len(names), 'backfilled job')}, which started behind it, can be evicted for it as soon as it then fits"
        )
        yield Sentence(f"{text} (policy field backfill): {first_names(names)}.", seqs_of(state.policy_revision))


def since_queued(history: Sequence[Record]) -> Sequence[Record]:
    """Records since the job was last queued."""
    for at in reversed(range(len(history))):
        if isinstance(history[at].data, facts.JobSubmitted | decisions.JobRequeued | decisions.ReservationDropped):
            return history[at:]
    return history


def _seq_of(history: Sequence[Record], *kinds: type[object]) -> int | None:
    last = newest_of(history, *kinds)
    return last.seq if last is not None else None


def newest_refusal(history: Sequence[Record]) -> Record | None:
    """The newest refusal for a reason in the pool's state, else the newest: a stale proposal explains nothing."""
    refusals = [record for record in history if isinstance(record.data, decisions.PreemptionRefused)]
    conclusive = [record for record in refusals if getattr(record.data, "reason", "") in ("impossible", "gave-up")]
    return next(reversed(conclusive or refusals), None)
