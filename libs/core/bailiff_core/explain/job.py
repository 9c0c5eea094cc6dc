"""One job: why it waits, why it had to leave, for whom, and when it is back."""

from collections.abc import Iterable, Sequence

from bailiff_core.model.pool import ENDED, Job, Pool
from bailiff_core.model.units import next_unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.protections import start_within
from bailiff_core.protections.delay import may_displace_at
from bailiff_core.protections.no_borrowing import keeps_from_borrowing
from bailiff_core.queue.gates import may_reclaim, over_bounds
from bailiff_core.queue.order import shares_now
from bailiff_core.records import Record, decisions, facts
from bailiff_core.scene import scene_of
from bailiff_core.words import count_text, duration_text

from .evicted import coming_back, takes, takes_parts, times_before, way_out, why_it_left
from .freeing import what_would_free_it
from .said import Section, Sentence, clock, few, have, listed, newest, seqs_of, unstopped
from .victims import decided, refused

SECOND = 1_000_000


def explain_job(pool: Pool, job: Job, history: Sequence[Record]) -> list[Section]:
    """Where the job stands and how it came to be there. `pool`: as it is after the last record.

    history: in order, the records about it, and the requests that decisions about it answer.
    """
    sections = [Section("Where does it stand?", (_standing(pool, job, history),))]
    if job.phase == "pending":
        sections.append(Section("Why does it wait?", tuple(_why_it_waits(pool, job, history))))
        refusal = _newest_refusal(_since_it_waits(history))
        sections.append(Section("What would free it?", tuple(what_would_free_it(pool, job, refusal))))
    elif job.id in pool.queue:
        sections.append(Section("Why does it not have all of its tasks?", tuple(_as_things_are(pool, job))))
    evicted = [record for record in history if takes(record, job.id)]
    if evicted:
        parts = "some of its tasks" if takes_parts(evicted[-1], job.id) else "it"
        sections.append(Section(f"Why did {parts} have to leave?", tuple(why_it_left(job, evicted[-1], history))))
        sections.append(
            Section("When is it back, and what protects it then?", tuple(coming_back(pool, job, evicted[-1], history)))
        )
        sections.append(Section("How did it leave?", tuple(way_out(job, evicted[-1], history))))
        sections += times_before(job, evicted, history)
    asked = [record for record in history if _asker_of(record) == job.id]
    if asked:
        sections.append(Section("Who left for it?", tuple(decided(asked[-1]))))
    return [section for section in sections if section.says]


def _standing(pool: Pool, job: Job, history: Sequence[Record]) -> Sentence:
    rank = f"{job.class_name} {job.priority}"
    if job.priority != job.base_priority:
        rank += f", {job.base_priority} by its class"
    who = f"{job.id} ({rank}{f', project {job.project}' if job.project else ''})"
    if job.phase in ENDED:
        last = newest(history, decisions.JobEnded)
        reason = last.data.reason if last is not None and isinstance(last.data, decisions.JobEnded) else ""
        why = f", {reason}" if job.phase == "failed" and reason else ""
        return Sentence(
            f"{who} ended at {clock(job.ended_at)}: {job.phase}{why}.", seqs_of(last.seq if last is not None else None)
        )
    if job.held_because is not None:
        return Sentence(f"{who} is held, because a decision about it failed: {job.held_because}.", seqs_of(job.seq))
    if job.eviction is not None:
        why = f"for {job.eviction.for_job}" if job.eviction.for_job else f"({job.eviction.cause})"
        late = "; its room did not come free in time" if job.eviction.stuck else ""
        text = f"{who} is on its way out {why}, with {duration_text(job.eviction.grace)} of grace{late}."
        return Sentence(text, seqs_of(job.eviction.decided_seq, job.eviction.begun_seq))
    if job.phase == "paused":
        reason = f": {unstopped(job.pause_reason)}" if job.pause_reason else ""
        return Sentence(f"{who} is paused{_by(history, job.paused_seq)}{reason}. It goes on by: bailiff resume {job.id}.",
                        seqs_of(job.paused_seq))  # fmt: skip
    if job.phase == "pending":
        waits = [name for name in pool.queue if name not in pool.active]
        ahead = waits.index(job.id) if job.id in waits else 0
        before = f"{count_text(ahead, 'job')} before it in the queue" if ahead else "first in the queue"
        since = max(job.submitted_at, job.last_eviction or 0)
        so_far = f" ({duration_text(pool.now - since)})" if pool.now - since >= SECOND else ""
        return Sentence(f"{who} waits since {clock(since)}{so_far}, {before}.", seqs_of(job.seq))
    where = _nodes(pool, (task.node for task in job.tasks))
    if job.phase == "reserved":
        plan = pool.plans.get(job.plan) if job.plan is not None else None
        until = f" until {clock(job.reserved_until)}" if job.reserved_until else ""
        coming = f"; it starts when {few(plan.victims)} {have(plan.victims)} left" if plan is not None and plan.victims else ""
        return Sentence(
            f"{who} has room reserved on {where}{until}{coming}.",
            seqs_of(_placed_by(history, job.id)),
        )
    running = sum(task.state == "running" for task in job.tasks)
    of = f", {running} of {job.size} tasks (at least {job.minimum})" if job.minimum < job.size else ""
    return Sentence(
        f"{who} {_runs(job)} on {where} as attempt {job.attempt}{of}.",
        seqs_of(_placed_by(history, job.id)),
    )


def _by(history: Sequence[Record], seq: int | None) -> str:
    """Since when, and by whom, where the record says it."""
    for record in history:
        if record.seq == seq:
            return f" since {clock(record.time)}" + (f" by {record.actor}" if record.actor else "")
    return ""


def _runs(job: Job) -> str:
    return f"runs since {clock(job.last_start)}" if job.last_start is not None else "is starting"


def _why_it_waits(pool: Pool, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    lately = _since_it_waits(history)
    waits = newest(lately, decisions.JobWaits)
    if waits is not None:
        assert isinstance(waits.data, decisions.JobWaits)
        yield Sentence(f"When it joined the queue: {unstopped(waits.data.reason)}.", seqs_of(waits.seq))
    yield from _as_things_are(pool, job)
    if job.not_before > pool.now:
        yield Sentence(
            f"After its last attempt it is not started again before {clock(job.not_before)}.",
            seqs_of(_seq_of(history, decisions.JobRequeued)),
        )
    yield from _lateness(pool, job)
    late = newest(lately, decisions.ScheduleTimedOut)
    if late is not None:
        assert isinstance(late.data, decisions.ScheduleTimedOut)
        follows = {"report": "is only reported", "fail": "ends it", "pass": "lets smaller jobs pass it"}[late.data.then]
        text = (
            f"It waited longer than the rule schedule-timeout means it to ({duration_text(late.data.waited)}), which {follows}."
        )
        yield Sentence(text, seqs_of(late.seq))
    verbs = pool.rules.preemption.verbs
    if not job.may_preempt:
        yield Sentence(
            f"Jobs of the class {job.class_name} displace nobody: its preemption policy is Never.", seqs_of(pool.policy_revision)
        )
    off = [verb for verb in ("reclaim", "preempt") if verb not in verbs]
    if off:
        yield Sentence(f"The policy switches {listed(off)} off in this pool.", seqs_of(pool.policy_revision))
    if pool.selection is not None:
        for request in pool.selection.requests:
            if request.job == job.id:
                yield Sentence(
                    "Victim selection has been asked who could leave for it, and has not answered yet.", seqs_of(request.seq)
                )
    refusal = _newest_refusal(lately)
    if refusal is not None:
        yield from refused(refusal)


def _lateness(pool: Pool, job: Job) -> Iterable[Sentence]:
    """What its class promises, where the promise is not kept for this job."""
    entry, waited = pool.rules.find_class(job.class_name), start_within.waited(pool, job)
    for percent, within in start_within.promises(entry) if entry is not None else ():
        if waited is not None and waited > within:
            promise = f"{percent} of 100 jobs a start within {duration_text(within)}"
            text = f"Its class promises {promise}; it is late by {duration_text(waited - within)}."
            yield Sentence(text, seqs_of(pool.policy_revision))


def _as_things_are(pool: Pool, job: Job) -> Iterable[Sentence]:
    """What keeps it from its place in the state as it is now: the rules of allocate, and the gates of the other verbs."""
    unit = next_unit(job)
    if unit is None or pool.policy is None:
        return
    scene, rules = scene_of(pool), pool.rules
    reason = keeps_from_borrowing(scene, unit) or over_bounds(scene, unit)
    if reason is None:
        mark = scene.mark()
        found = place_unit(scene.rooms, unit, Budget(rules.preemption.search_steps))
        scene.rollback(mark)
        reason = found.why if isinstance(found, NoFit) else None
    if reason is None and rules.backfill == "reserve":
        yield Sentence("As things are, there is a place, which it does not take where it would delay the first in the queue.")
    elif reason is not None:
        yield Sentence(f"As things are: {unstopped(reason)}.")
    if reason is not None and rules.projects and "reclaim" in rules.preemption.verbs:
        forbidden = may_reclaim(scene, shares_now(scene), unit)
        if forbidden is not None:
            yield Sentence(f"It may not reclaim room from other projects: {unstopped(forbidden)}.", seqs_of(pool.policy_revision))
    drained = [pool.nodes[number] for number in pool.drained]
    if drained:
        names = few([node.name for node in drained])
        yield Sentence(
            f"Nothing new is placed on {names}, which {'is' if len(drained) == 1 else 'are'} being emptied.",
            seqs_of(*(node.drain.seq for node in drained if node.drain is not None)),
        )
    delayed = may_displace_at(pool, job)
    if delayed > pool.now and job.may_preempt:
        yield Sentence(f"Rule preemption-delay: it displaces nobody before {clock(delayed)}.", seqs_of(pool.policy_revision))


def _placed_by(history: Sequence[Record], job: str) -> int | None:
    """The newest record that gave it a place."""
    placing = (record for record in reversed(history) if isinstance(record.data, decisions.JobPlaced) or _asker_of(record) == job)
    return next((record.seq for record in placing), None)


def _asker_of(record: Record) -> str | None:
    return record.data.asker.job if isinstance(record.data, decisions.PreemptionDecided) else None


def _since_it_waits(history: Sequence[Record]) -> Sequence[Record]:
    """Records since the job last joined the queue."""
    for at in reversed(range(len(history))):
        if isinstance(history[at].data, facts.JobSubmitted | decisions.JobRequeued | decisions.ReservationDropped):
            return history[at:]
    return history


def _seq_of(history: Sequence[Record], *kinds: type[object]) -> int | None:
    last = newest(history, *kinds)
    return last.seq if last is not None else None


def _newest_refusal(history: Sequence[Record]) -> Record | None:
    """The newest one that says something about the pool, else the newest: an answer that came too late says nothing."""
    refusals = [record for record in history if isinstance(record.data, decisions.PreemptionRefused)]
    told = [record for record in refusals if getattr(record.data, "reason", "") in ("impossible", "gave-up")]
    return next(reversed(told or refusals), None)


def _nodes(pool: Pool, found: Iterable[int]) -> str:
    return few([pool.nodes[number].name for number in dict.fromkeys(found) if number in pool.nodes]) or "no node"
