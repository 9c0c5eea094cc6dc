"""What would unblock a pending job, and when: evictions in progress, reservations, run-time limits, time-based rules."""

from collections.abc import Iterable, Iterator

from bailiff_core.humanize import MAX_NAMED, count_text, duration_text, first_names
from bailiff_core.model.state import Device, Job, Node, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.placement.gang import GangPlacement, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill
from bailiff_core.records import Record
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import PreemptingAction

from .sentences import Sentence, clock, has_or_have, listed, seqs_of
from .share_turns import share_turn_sentences
from .victims import missing_sentences
from .without_selection import Moment, WithoutSelection


def unblocking_sentences(
    state: PoolState, job: Job, refusal: Record | None, without_selection: WithoutSelection
) -> Iterable[Sentence]:
    """Sentences about what would unblock the job.

    Args:
        refusal: The newest one with a reason in the pool.
        without_selection: On this state.
    """
    if job.not_before > state.now:
        when = f"At {clock(job.not_before)}, in {duration_text(job.not_before - state.now)}"
        yield Sentence(f"{when}, its back-off ends: then it is started by itself, as soon as it fits.")
    if refusal is not None:
        yield from missing_sentences(refusal)
    if job.next_request_at > state.now:
        since = f"from {clock(job.next_request_at)} on"
        text = f"Its next preemption request is possible {since} (policy field preemption.selection_backoff)."
        yield Sentence(text, seqs_of(refusal.seq if refusal else None))
    by_end: dict[tuple[str, int, str], list[PreemptingAction]] = {}
    found: dict[PreemptingAction, Moment] = {}
    for action in without_selection.actions() if state.policy is not None else ():
        ends = without_selection.protected_until(job, action)
        if ends:
            found[action] = without_selection.not_before(job, action)
        for rule, (moment, other) in ends.items() if isinstance(found.get(action), int) else ():
            by_end.setdefault((rule, moment, other), []).append(action)
    for (rule, moment, other), actions in by_end.items():
        until = f"until {clock(moment)}, for another {duration_text(moment - state.now)}"
        yield Sentence(f"Rule {rule} protects {other} from {listed(actions)} {until}.", seqs_of(state.policy_revision))
    for action, enough in found.items():
        if enough == "never":
            text = f"Under {action}, waiting for protections to end does not help."
            yield Sentence(text, seqs_of(state.policy_revision))
        elif enough != "unknown" and enough > min(moment for (_, moment, _), actions in by_end.items() if action in actions):
            text = f"Under {action} it finds no victims before {clock(enough)}, for another {duration_text(enough - state.now)}."
            yield Sentence(text, seqs_of(state.policy_revision))
    yield from share_turn_sentences(state, [job])
    yield from _evicting(state)
    yield from _reserved(state, job)
    yield from _limits(state)
    yield from _unusable_devices(state)
    yield from latest_start_by_limits(state, job)


def expected_return(state: PoolState, job: Job) -> Iterable[Sentence]:
    """When an evicted job resumes, if known; otherwise what that depends on."""
    if job.reservation and job.reservation_until is not None:
        nodes = _names(state, (task.node for task in job.reservation))
        yield Sentence(f"Resources are reserved for it on {nodes} until {clock(job.reservation_until)}.", _decided(job))
    elif job.phase == "reserved":
        plan = state.preemptions.get(job.preemption) if job.preemption is not None else None
        if plan is not None and plan.victims:
            ends = [end for name in plan.victims if (end := _grace_end(state.jobs[name])) is not None]
            late = f", at the latest about {clock(max(ends))}" if len(ends) == len(plan.victims) else ""
            yield Sentence(
                f"It starts when {first_names(plan.victims)} {has_or_have(plan.victims)} exited{late}.", seqs_of(plan.seq)
            )
    elif job.phase == "pending":
        ahead = (
            [name for name in state.queue[: state.queue.index(job.id)] if name not in state.active]
            if job.id in state.queue
            else []
        )
        if ahead:
            yield Sentence(
                f"Ahead of it in the queue: {first_names(ahead)}.", tuple(state.jobs[name].seq for name in ahead[:MAX_NAMED])
            )
        yield from latest_start_by_limits(state, job)


def latest_start_by_limits(state: PoolState, job: Job) -> Iterator[Sentence]:
    """When the job fits if each running job uses its full run-time limit and no other job is placed first."""
    unit = next_unit(job)
    if unit is None or state.policy is None:
        return
    snapshot, steps = current_snapshot(state), state.rules.preemption.search_steps
    mark = snapshot.mark()
    fits = isinstance(place_unit(snapshot.cluster, unit, StepBudget(steps)), GangPlacement)
    snapshot.rollback(mark)
    if fits:
        return
    backfill = Backfill(snapshot, unit, StepBudget(steps))
    if not backfill.reserved:
        yield Sentence("Even without any of the jobs that run now, no placement was found for it.")
        yield from _drained(state)
    elif backfill.starts_by_evictions:
        yield Sentence("It fits once backfilled jobs are evicted, which is done for the first job in the queue.")
    elif backfill.starts is not None:
        text = f"By run-time limits alone it fits at {clock(backfill.starts)} at the latest"
        yield Sentence(
            f"{text}, in {duration_text(max(0, backfill.starts - state.now))}, unless jobs ahead of it are placed there."
        )
    else:
        unlimited = [each.id for each in state.active_jobs() if each.demand.run_time_limit is None and each.id != job.id]
        names = f": {first_names(unlimited)}" if unlimited else ""
        yield Sentence(f"Run-time limits do not bound when it fits: that depends on jobs without a run-time limit{names}.")


def _drained(state: PoolState) -> Iterator[Sentence]:
    nodes = [state.nodes[number] for number in state.draining]
    if nodes:
        seqs = seqs_of(*(node.drain.seq for node in nodes[:MAX_NAMED] if node.drain is not None))
        yield Sentence(f"Drained, so without new tasks: {first_names([node.name for node in nodes])}.", seqs)


def _evicting(state: PoolState) -> Iterator[Sentence]:
    evicting = [state.jobs[name] for name in state.evicting if state.jobs[name].eviction is not None]
    for job in evicting[:MAX_NAMED]:
        assert job.eviction is not None
        for_preemptor = f", for {job.eviction.for_job}" if job.eviction.for_job else ""
        end = _grace_end(job)
        late = " It is overdue." if job.eviction.stuck else ""
        when = f"ends at {clock(end)}" if end is not None else "starts when its nodes are notified"
        gpus = count_text(_gpus_allocated(job), "GPU")
        yield Sentence(f"Being evicted now: {job.id}, with {gpus}{for_preemptor}; its grace {when}.{late}", _decided(job))
    if len(evicting) > MAX_NAMED:
        yield Sentence(f"Not listed: {count_text(len(evicting) - MAX_NAMED, 'more job')} being evicted.")


def _grace_end(job: Job) -> int | None:
    eviction = job.eviction
    return None if eviction is None or eviction.started_at is None else eviction.started_at + eviction.grace


def _decided(job: Job) -> tuple[int, ...]:
    return seqs_of(job.eviction.decided_seq, job.eviction.started_seq) if job.eviction is not None else ()


def _reserved(state: PoolState, preemptor: Job) -> Iterator[Sentence]:
    jobs = [state.jobs[name] for name in state.reserved if name != preemptor.id]
    for job in jobs[:MAX_NAMED]:
        until = f", until {clock(job.reserved_until)} at the latest" if job.reserved_until is not None else ""
        yield Sentence(f"Reserved for {job.id}: {count_text(job.gpus, 'GPU')}{until}.", seqs_of(job.preemption, job.seq))
    if len(jobs) > MAX_NAMED:
        yield Sentence(f"Not listed: reservations for {count_text(len(jobs) - MAX_NAMED, 'more job')}.")


def _limits(state: PoolState) -> Iterator[Sentence]:
    ending = sorted(
        (job.last_start + job.demand.run_time_limit, job.id)
        for job in state.active_jobs()
        if job.demand.run_time_limit is not None and job.last_start is not None
    )
    for at, (until, name) in enumerate(ending[:MAX_NAMED]):
        which = "The first job with a run-time limit to reach it is" if not at else "Then"
        gpus = count_text(_gpus_allocated(state.jobs[name]), "GPU")
        yield Sentence(f"{which} {name}, at {clock(until)}, with {gpus}.", seqs_of(state.jobs[name].seq))


def _unusable_devices(state: PoolState) -> Iterator[Sentence]:
    text = unusable_text(state)
    if text:
        yield Sentence(f"{text}. Each of them: bailiff node list.")


def unusable_text(state: PoolState) -> str:
    """How many GPUs are quarantined or unhealthy, where and why, as for a pod of others that has them; empty: none."""
    found = [(node, device) for node in state.nodes.values() for device in node.devices if _is_unusable(node, device)]
    if not found:
        return ""
    nodes = first_names([*dict.fromkeys(node.name for node, _ in found)])
    faults = [*dict.fromkeys(device.fault for _, device in found if device.fault)]
    why = "; ".join([*faults[:MAX_NAMED], *(["and others"] if len(faults) > MAX_NAMED else [])])
    return f"{count_text(len(found), 'GPU')} on {nodes} cannot be allocated{f' ({why})' if why else ''}"


def _is_unusable(node: Node, device: Device) -> bool:
    return not device.healthy or bool(node.quarantined >> device.number & 1)


def _gpus_allocated(job: Job) -> int:
    return sum(task.devices.bit_count() for task in job.tasks if task.state != "released")


def _names(state: PoolState, found: Iterable[int]) -> str:
    return first_names([state.nodes[number].name for number in dict.fromkeys(found) if number in state.nodes])
