"""Evictions of a job: for each its cause or preemptor, rule, cost and course, and when the job resumes."""

from collections.abc import Iterable, Sequence

from bailiff_core.humanize import count_text, cpus_counted_text, duration_text, exit_text
from bailiff_core.model.job_rules import COOLDOWN, EVICTION_CAP, GRACE, MIN_RUNTIME
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.policy import Action
from bailiff_core.model.state import ENDED, Job, PoolState, Task
from bailiff_core.model.work_lost import loss_text, past_loss
from bailiff_core.placement.placement_codec import decode_placement
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload

from .eviction_stages import course
from .sentences import Section, Sentence, actor_text, clock, newest_of, seqs_of, shrunk_together, tasks_text, without_stop
from .unblockers import expected_return
from .victims import EVICTED, choice_sentences, eviction_cause_text, further_loss_text, preemptor_text, rule_text, stop_word

REQUESTS: dict[str, tuple[type[Payload], ...]] = {
    "requested": (facts.JobEvictionRequested,),
    "migration": (facts.JobMigrationRequested,),
    "cancelled": (facts.JobCancelled,),
    "paused": (facts.JobPaused, facts.JobResumed, decisions.JobIdle),
}
"""Which records may have led to an eviction, by its cause. Only those of people have an actor."""
ATTEMPT_ENDS = {
    "preempted": "stopped in time",
    "preempted-unclean": "stopped without reporting a save",
    "yielded": "ended by itself to be requeued",
    "failed": "failed",
    "lost": "was lost",
}
"""What became of an attempt, by the outcome on record."""
FAILURES = ("failed", "lost")


def end_text(outcome: str) -> str:
    """What became of an attempt, for people: `stopped in time`; of `shrunk, preempted` each part."""
    return ", ".join(ATTEMPT_ENDS.get(part) or part.replace("-", " ") for part in outcome.split(", "))


def earlier_evictions(state: PoolState, job: Job, evicted: Sequence[Record], history: Sequence[Record]) -> Iterable[Section]:
    """Sections for each eviction before the last, newest first, with what followed until the next one."""
    for at in reversed(range(len(evicted) - 1)):
        record, later = evicted[at], evicted[at + 1]
        records = [each for each in history if each.seq < later.seq]
        sentences = [
            *eviction_reasons(state, job, record, records),
            *eviction_course(job, record, records),
            *_following_events(state, job, record, records),
        ]
        which = f"was {word_of(record)} before that ({at + 1} of {len(evicted)})"
        yield Section(f"What happened when it {which}, at {clock(record.time)}?", tuple(sentences))


def eviction_reasons(state: PoolState, job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    """Preemptor or cause, rule, cost and runner-up."""
    if isinstance(record.data, decisions.EvictionDecided):
        request, cause = _cause(record, record.data, history)
        if request is not None:
            yield Sentence(f"At {clock(record.time)} {cause}.", seqs_of(request.seq, record.seq))
        else:
            why = ": " if record.data.cause == "drain" else ", because "  # what was recorded then: the drain may be over
            text = cause if word_of(record) != EVICTED else f"{_subject(record.data.tasks)} evicted{why}{cause}"
            yield Sentence(f"At {clock(record.time)} {text}.", seqs_of(record.seq))
    elif isinstance(record.data, decisions.MigrationDecided):
        nodes = count_text(len({share.node for share in record.data.placement}), "node")
        reason = f": {without_stop(record.data.reason)}" if record.data.reason else ""
        request = _request_before(record, REQUESTS.get(record.data.cause, ()), history)
        if request is not None:
            what, seqs = f"{actor_text(request)} migrated it", seqs_of(request.seq, record.seq)
        else:
            why = "because that was requested" if record.data.cause == "migration" else "because it restarts"
            what, seqs = f"it was migrated, {why}", seqs_of(record.seq)
        yield Sentence(f"At {clock(record.time)} {what}{reason}; resources on {nodes} are reserved for it.", seqs)
    else:
        assert isinstance(record.data, decisions.PreemptionDecided)
        yield from _as_victim(state, job, record, record.data, history)


def _cause(record: Record, data: decisions.EvictionDecided, history: Sequence[Record]) -> tuple[Record | None, str]:
    """The request for this eviction, if there was one, and the cause as recorded."""
    request = _request_before(record, REQUESTS.get(data.cause, ()), history)
    return request, without_stop(eviction_cause_text(data, actor_text(request) if request is not None else ""))


def _request_before(record: Record, kinds: tuple[type[Payload], ...], history: Sequence[Record]) -> Record | None:
    """The newest record of these kinds before the eviction, if it is a request with an actor."""
    for each in reversed(history):
        if each.seq < record.seq and isinstance(each.data, kinds):
            return each if each.actor else None
    return None


def _subject(tasks: str) -> str:
    """`it was`, `its task 3 was`, `its tasks 4-7 were`."""
    return f"its {tasks_text(tasks)} {'was' if tasks.isdigit() else 'were'}" if tasks else "it was"


def _as_victim(
    state: PoolState, job: Job, record: Record, data: decisions.PreemptionDecided, history: Sequence[Record]
) -> Iterable[Sentence]:
    choice = next(choice for choice in data.victims if choice.job == job.id)
    for requested in history:
        if requested.seq == data.request and isinstance(requested.data, decisions.PreemptionRequested) and requested.data.reason:
            text = f"{requested.data.job} was unschedulable: {without_stop(requested.data.reason)}."
            yield Sentence(text, seqs_of(requested.seq))
    preemptor = data.preemptor
    text = f"At {clock(record.time)} {_subject(choice.tasks)} preempted by {preemptor_text(preemptor)}, action {data.action}"
    yield Sentence(f"{text}: {rule_text(data, choice)}.", seqs_of(record.seq, data.request))
    if choice.reserved:
        yield Sentence("It had not started: only its reservation is lost.", seqs_of(record.seq))
    else:
        counted = f", with {cpus_counted_text(choice.cpu_milli)}" if choice.cpu_milli else ""
        stopped = _started(job, choice.attempt, [each for each in history if each.seq < record.seq])
        if choice.tasks:
            part = dict.fromkeys((*numbers(choice.tasks), *numbers(choice.restarts)))
            stopped = [task for task in stopped if task.index in part]
        loss = past_loss(state, job, choice.lost_gpu_ms, stopped, for_good=choice.ends, measured=choice.measured)
        text = f"Its loss when it was selected: {loss_text(loss, choice.lost_gpu_ms)}{counted}, without another checkpoint."
        yield Sentence(text, seqs_of(record.seq))
    if choice.parked:
        yield Sentence("It was to be parked: kept in the memory of its node, where it goes on.", seqs_of(record.seq))
    if more := further_loss_text(choice):
        yield Sentence(f"{more.capitalize()}.", seqs_of(record.seq))
    nodes = count_text(len({share.node for share in choice.moved_to}), "node")
    if choice.not_relocated:
        kept, lost = count_text(len(choice.relocated_tasks), "task"), tasks_text(choice.not_relocated)
        text = f"It restarts with {kept}: resources on {nodes} are reserved for them, and there is no other place for {lost}."
        yield Sentence(text, seqs_of(record.seq))
    elif choice.moved_to and not choice.tasks:
        yield Sentence(f"It is relocated, not stopped: resources on {nodes} are reserved for it.", seqs_of(record.seq))
    elif choice.moved_to:
        moved_tasks = tasks_text(ranges(choice.relocated_tasks)).capitalize()
        yield Sentence(
            f"{moved_tasks}: relocated while the job continues; resources on {nodes} are reserved.", seqs_of(record.seq)
        )
    yield from choice_sentences(record, data)
    yield from _extensions(job, choice.attempt, [each for each in history if each.seq > record.seq])


def _extensions(job: Job, attempt: int, after: Sequence[Record]) -> Iterable[Sentence]:
    """What later decisions of the selection take of a job that restarts to shrink anyway."""
    for record in after:
        if not isinstance(record.data, decisions.PreemptionDecided):
            continue
        for choice in record.data.victims:
            if choice.extends and (choice.job, choice.attempt) == (job.id, attempt):
                who = preemptor_text(record.data.preemptor)
                text = f"By the same eviction {_subject(choice.tasks)} preempted by {who}, too, at no further loss."
                yield Sentence(text, seqs_of(record.seq, record.data.request))


def eviction_course(job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    """Course of the eviction, task by task."""
    data = record.data
    attempt = job.attempt
    if isinstance(data, decisions.EvictionDecided):
        attempt = data.attempt
    elif isinstance(data, decisions.PreemptionDecided):
        attempt = next((choice.attempt for choice in data.victims if choice.job == job.id), attempt)
    return course([each for each in history if each.seq > record.seq], attempt)


def return_sentences(state: PoolState, job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    """What followed, when the job resumes, and what protects it then."""
    after = [each for each in history if each.seq > record.seq]
    yield from _following_events(state, job, record, history)
    times = [each for each in history if isinstance(each.data, decisions.JobRequeued) and each.data.outcome != "failed"]
    if len(times) > 1 and job.phase != "paused":
        yield Sentence(f"It was requeued {len(times)} times in total.", tuple(each.seq for each in times))
    if _cancelled(after) is not None or job.phase in ENDED:
        return
    if job.demand.on_eviction == "end" and job.eviction is not None:
        yield Sentence("It is not requeued: its on_eviction is `end`.", seqs_of(job.seq))
        return
    if job.eviction is not None:
        yield Sentence(f"It is requeued at its old position within {duration_text(job.eviction.grace)} of its eviction notice.")
    yield from expected_return(state, job)
    yield from protections_of(state, job)


def _following_events(state: PoolState, job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    after = [each for each in history if each.seq > record.seq]
    cancelled = _cancelled(after)
    if cancelled is not None:
        yield Sentence(f"Its eviction was cancelled: {getattr(cancelled.data, 'reason', '')}.", seqs_of(cancelled.seq))
        return
    refused = newest_of(after, facts.TaskCancelEvictionRefused)
    if refused is not None:
        yield Sentence(
            "Its eviction was to be cancelled, but it was too late: it was already told to stop.", seqs_of(refused.seq)
        )
    since, requeued, cycle = record, False, -1
    told = (decisions.JobRequeued, decisions.JobShrunk, decisions.JobPlaced, decisions.JobGrown, decisions.JobEnded)
    for each, seqs in shrunk_together(each for each in after if isinstance(each.data, told)):
        if isinstance(each.data, decisions.JobRequeued):
            stopped = _started(job, each.data.attempt, [earlier for earlier in history if earlier.seq < each.seq])
            loss = past_loss(state, job, each.data.lost_gpu_ms, stopped, measured=each.data.measured)
            lost = f"; it lost {loss_text(loss, each.data.lost_gpu_ms)}" if each.data.lost_gpu_ms else ""
            again = f" again, as its attempt {each.data.attempt} {ATTEMPT_ENDS[each.data.outcome]}," if requeued else ""
            since, requeued = each if requeued else record, True
            at = f"at {clock(each.time)}"
            stops = word_of(record) == "paused" and not again
            text = f"It stopped {at}" if stops else f"It was requeued{again} {at}, at its old position"
            yield Sentence(f"{text}{lost}.", seqs_of(each.seq))
        elif isinstance(each.data, decisions.JobShrunk):
            yield Sentence(f"It has been running without {tasks_text(each.data.tasks)} since {clock(each.time)}.", seqs)
        elif isinstance(each.data, decisions.JobPlaced | decisions.JobGrown):
            placed_before, cycle = cycle, each.cycle
            if placed_before == cycle:
                continue  # each task above the minimum is placed by a decision of its own
            change = "got more tasks" if isinstance(each.data, decisions.JobGrown) else "was placed again"
            took = f"{duration_text(each.time - since.time)} {'after its eviction' if since is record else 'later'}"
            yield Sentence(f"It {change} at {clock(each.time)}, {took}.", seqs_of(each.seq))
        elif isinstance(each.data, decisions.JobEnded):
            yield Sentence(f"It ended ({each.data.outcome}) at {clock(each.time)}.", seqs_of(each.seq))


def _started(job: Job, attempt: int, history: Iterable[Record]) -> list[Task]:
    """The tasks of that attempt that have started and not left it, where these records placed them."""
    placed: dict[int, Task] = {}
    started: dict[int, None] = {}
    for record in history:
        data = record.data
        if getattr(data, "attempt", None) != attempt:
            continue
        if isinstance(data, decisions.JobPlaced | decisions.JobGrown | decisions.PreemptionDecided):
            if isinstance(data, decisions.PreemptionDecided) and data.preemptor.job != job.id:
                continue
            indices = [index for share in data.placement for index in numbers(share.tasks)]
            try:
                places = decode_placement(job, data.placement, indices)
            except ValueError:
                return []  # it was scaled down since
            placed.update((place.index, Task(place.index, place.node, place.devices, "running")) for place in places)
        elif isinstance(data, facts.TaskStarted):
            started[data.task] = None
        elif isinstance(data, decisions.JobShrunk):
            for index in numbers(data.tasks):
                started.pop(index, None)
    return [placed[index] for index in sorted(started) if index in placed]


def _cancelled(after: Sequence[Record]) -> Record | None:
    """The decision to cancel the eviction, unless a node refused."""
    if newest_of(after, facts.TaskCancelEvictionRefused) is not None:
        return None
    return newest_of(after, decisions.EvictionCancelled)


def protections_of(state: PoolState, job: Job) -> Iterable[Sentence]:
    """Rules of the policy in force that protect the job from the next eviction."""
    rules, seqs = state.rules.protections, seqs_of(state.policy_revision)
    if job.demand.grace is None:
        grace = GRACE.of(state, job)
        yield Sentence(f"Its grace is {duration_text(grace.value)} ({grace.field}).", seqs)
    cooldown = COOLDOWN.of(state, job)
    if cooldown.value:
        protected_for = f"it is protected for {duration_text(cooldown.value)} once it runs again"
        yield Sentence(f"Rule cooldown: {protected_for} ({cooldown.field}).", seqs)
    moves: tuple[Action, ...] = ("consolidate",) if state.rules.preemption.max_migrations != 0 else ()
    for action in ("preempt", "reclaim", *moves):
        least = MIN_RUNTIME[action].of(state, job)
        if least.value:
            protected_for = f"it is protected from {action} for {duration_text(least.value)} after each start"
            yield Sentence(f"Rule min-runtime: {protected_for} ({least.field}).", seqs)
    cap, field = EVICTION_CAP.of(state, job)
    if cap is not None:
        recent = sum(moment > state.now - cap.window for moment in job.eviction_times)
        text = f"Rule eviction-cap: {recent} of at most {cap.evictions} evictions within {duration_text(cap.window)} are used"
        yield Sentence(f"{text} ({field}).", seqs)
    if rules.ageing is not None:
        triggers = [count_text(rules.ageing.evictions, "eviction")] if rules.ageing.evictions is not None else []
        triggers += [f"{duration_text(rules.ageing.waiting)} pending"] if rules.ageing.waiting is not None else []
        yield Sentence(f"Rule ageing: after {' or '.join(triggers)} its priority is boosted by {rules.ageing.boost}.", seqs)
    if not job.preemptible:
        yield Sentence("It is not preemptible: no action can preempt it again.", seqs)


def attempt_failed(history: Sequence[Record]) -> Sentence | None:
    """How its newest attempt that was followed by another failed or was lost; None if it did neither."""
    requeued = newest_of(history, decisions.JobRequeued)
    if requeued is None or not isinstance(requeued.data, decisions.JobRequeued) or requeued.data.outcome not in FAILURES:
        return None
    text, seqs = f"Its attempt {requeued.data.attempt} {ATTEMPT_ENDS[requeued.data.outcome]}", seqs_of(requeued.seq)
    for record in history:
        exited = record.data
        if isinstance(exited, facts.TaskExited) and exited.attempt == requeued.data.attempt and exited.exit_code:
            reason = f", {without_stop(exited.reason)}" if exited.reason else ""
            text += f": task {exited.task} ended with {exit_text(exited.exit_code)}{reason}"
            seqs = seqs_of(record.seq, requeued.seq)
            break
    return Sentence(f"{text}.", seqs)


def attempt_end(job: Job, history: Sequence[Record]) -> Sentence | None:
    """Why its newest attempt that was followed by another ended; None if there is none."""
    requeued, failed = newest_of(history, decisions.JobRequeued), attempt_failed(history)
    if failed is not None or requeued is None or not isinstance(requeued.data, decisions.JobRequeued):
        return failed
    end, before = requeued.data, [record for record in history if record.seq < requeued.seq]
    record = next((each for each in reversed(before) if evicts(each, job.id)), None)
    text = f"it {ATTEMPT_ENDS[end.outcome]}" if record is None else _stopped_by(record, before)
    return Sentence(
        f"Its attempt {end.attempt} ended: {text}.", seqs_of(record.seq if record is not None else None, requeued.seq)
    )


def _stopped_by(record: Record, history: Sequence[Record]) -> str:
    """`preempted by high (inference 125)`, `evicted: node-1 is drained (quick)`, `ada evicted it: wrong data`."""
    if isinstance(record.data, decisions.PreemptionDecided):
        return f"preempted by {preemptor_text(record.data.preemptor)}"
    if isinstance(record.data, decisions.EvictionDecided):
        _, cause = _cause(record, record.data, history)
        return f"evicted: {cause}" if record.data.cause == "drain" else cause
    return "it was migrated"


def word_of(record: Record) -> str:
    """What the record does to the job: `evicted`, also for a preemption, or what nobody calls so, such as `cancelled`."""
    return stop_word(record.data.cause) if isinstance(record.data, decisions.EvictionDecided) else EVICTED


def evicts(record: Record, job: str) -> bool:
    """Whether the record evicts the job, or some of its tasks."""
    data = record.data
    if isinstance(data, decisions.EvictionDecided | decisions.MigrationDecided):
        return data.job == job
    return isinstance(data, decisions.PreemptionDecided) and any(choice.job == job for choice in data.new_victims)


def evicts_surplus_only(record: Record, job: str) -> bool:
    """Whether the record evicts only surplus tasks of the job."""
    data = record.data
    if isinstance(data, decisions.PreemptionDecided):
        return all(choice.tasks for choice in data.victims if choice.job == job)
    return isinstance(data, decisions.EvictionDecided) and bool(data.tasks)
