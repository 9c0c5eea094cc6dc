"""Why a job is pending: as recorded, and as of now."""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import MAX_NAMED, count_text, duration_text, first_names
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.queue import start_slo
from bailiff_core.queue.head import backfilled_victims
from bailiff_core.queue.preemption_delay import delay_text, may_preempt_from
from bailiff_core.records import Record, decisions, facts
from bailiff_core.scheduling_snapshot import current_usage

from .budgets import budget_sentences
from .drained_nodes import DrainedNodes
from .failed_starts import failed_start_sentences, spared_sentences
from .not_placed import held_back, waits_until, what_it_lacks, with_field
from .pending_records import CONCLUSIVE
from .reservations import reserved_for_it
from .sentences import Sentence, clock, listed, newest_of, seqs_of, without_stop
from .victims import exclusion_sentences, refusal_sentences
from .without_selection import WithoutSelection


def pending_sentences(
    state: PoolState, job: Job, history: Sequence[Record], without_selection: WithoutSelection
) -> Iterable[Sentence]:
    """The recorded reason, what blocks it now, and what the policy has to do with it."""
    recent = since_queued(history)
    queued = newest_of(recent, decisions.JobPending)
    if queued is not None and isinstance(queued.data, decisions.JobPending) and queued.data.reason:
        reason = with_field(state, without_stop(queued.data.reason))
        yield Sentence(f"As of {clock(queued.time)}: {reason}.", seqs_of(queued.seq))
    refusal = newest_refusal(recent)
    yield from obstacle_sentences(state, job, refusal, without_selection)
    waits = waits_until(state, job)
    if waits is not None:
        yield Sentence(f"Restart backoff: {waits}.", seqs_of(_seq_of(history, decisions.JobRequeued)))
    yield from failed_start_sentences(job, history)
    yield from spared_sentences(state, job)
    yield from budget_sentences(state, job)
    yield from reserved_for_it(state, job)
    yield from _lateness(state, job)
    late = newest_of(recent, decisions.ScheduleTimedOut)
    if late is not None:
        assert isinstance(late.data, decisions.ScheduleTimedOut)
        effect = {"report": "is only reported", "fail": "fails it", "pass": "lets smaller jobs pass it"}[late.data.action]
        text = (
            f"Rule schedule-timeout: it was pending for {duration_text(late.data.waited)}, longer than allowed, which {effect} "
            "(policy field protections.schedule_timeout)."
        )
        yield Sentence(text, seqs_of(late.seq))
    actions = state.rules.preemption.actions
    disabled = [action for action in ("reclaim", "preempt") if action not in actions]
    if disabled:
        text = f"The policy disables {listed(disabled)} in this pool (policy field preemption.actions)."
        yield Sentence(text, seqs_of(state.policy_revision))
    if state.selection is not None:
        for request in state.selection.requests:
            if request.job == job.id:
                yield Sentence("Victim selection is searching for victims for it.", seqs_of(request.seq))
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


def obstacle_sentences(
    state: PoolState, job: Job, refusal: Record | None = None, without_selection: WithoutSelection | None = None
) -> Iterable[Sentence]:
    """What blocks it in the current state: resources and limits for allocate, and what each other action lacks.

    Args:
        refusal: The newest one, which says itself whom the rules protect.
        without_selection: On this state; None: it is made where it is needed.
    """
    if next_unit(job) is None or state.policy is None:
        return
    reason, held = what_it_lacks(state, job), held_back(state)
    if reason is not None:
        yield Sentence(f"Currently: {without_stop(reason)}.")
    elif held is not None and waits_until(state, job) is None:
        yield Sentence(f"Currently {held}.", seqs_of(state.policy_revision))
    if reason is not None:
        yield from _uncounted_nodes(state, job)
    delayed = may_preempt_from(state, job)
    if reason is not None and delayed <= state.now:
        yield from _without_selection(without_selection or WithoutSelection(state), state, job, excluded=refusal is None)
    found = DrainedNodes(state).that_would_help(job)
    if found is not None:
        text = str(found)
        seqs = seqs_of(*(node.drain.seq for node in found.nodes[:MAX_NAMED] if node.drain is not None))
        yield Sentence(f"{text[0].upper()}{text[1:]}.", seqs)
    yield from _evicted_for_it(state, job)
    if delayed > state.now and job.may_preempt:
        text = f"It may not preempt before {clock(delayed)} ({delay_text(state, job)})."
        yield Sentence(text, seqs_of(state.policy_revision))


def _uncounted_nodes(state: PoolState, job: Job) -> Iterable[Sentence]:
    """Which nodes do not count, where not all of the quota of the job's projects is in force."""
    usage = current_usage(state)
    path = usage.tree.branches[usage.leaf_of(job)].path
    nodes = [node for node in state.nodes.values() if node.devices and not node.schedulable]
    if nodes and any(usage.entitlements[project].quota != usage.entitlements[project].full for project in path):
        names = first_names([f"{node.name} ({'drained' if node.drain is not None else node.state})" for node in nodes])
        seqs = seqs_of(*(node.drain.seq for node in nodes[:MAX_NAMED] if node.drain is not None))
        yield Sentence(f"What there is for quotas leaves out nodes that take no tasks: {names}.", seqs)


def _without_selection(now: WithoutSelection, state: PoolState, job: Job, *, excluded: bool) -> Iterable[Sentence]:
    for tried in now.attempts(job, search=False):
        if tried.would_need:
            yield Sentence(f"It may not {tried.action}: {without_stop(tried.would_need)}.", seqs_of(state.policy_revision))
        if excluded:
            yield from exclusion_sentences(
                seqs_of(state.policy_revision), tried.candidates, tried.excluded, f"Under {tried.action}, "
            )


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
    conclusive = [record for record in refusals if getattr(record.data, "reason", "") in CONCLUSIVE]
    return next(reversed(conclusive or refusals), None)
