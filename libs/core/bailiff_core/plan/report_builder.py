"""Builds the plan report from the state and the decisions of a cycle."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from bailiff_core.explain.drained_nodes import DrainedNodes
from bailiff_core.explain.not_placed import held_back, what_it_lacks, with_field
from bailiff_core.explain.pending_records import CONCLUSIVE
from bailiff_core.explain.without_selection import WithoutSelection
from bailiff_core.fold.outcome import task_outcome
from bailiff_core.humanize import count_text
from bailiff_core.model.gpu_shares import units_of
from bailiff_core.model.mig import device_gpu_milli, mig_weights_of
from bailiff_core.model.placement_ranges import NodeShare, bits, numbers
from bailiff_core.model.proposal import AttemptedAction, VictimChoice
from bailiff_core.model.state import ENDED, Job, Node, PoolState, Task
from bailiff_core.model.units import next_unit
from bailiff_core.queue import share_turn
from bailiff_core.queue.head import head_of_queue
from bailiff_core.records import decisions
from bailiff_core.records.payload import Decision
from bailiff_core.records.wire import time_text
from bailiff_core.victims.batch import PREEMPTING_ACTIONS
from bailiff_core.victims.proposals import MAX_NEED_LENGTH
from bailiff_core.views import chosen_victim

from .report import Counts, DecisionLine, NodeLine, PendingLine, Round, State, TaskLine, TaskStatus

Names = Mapping[str, Sequence[str]]
Where = dict[str, list[TaskStatus]]
FINAL_STATE_OF: Mapping[str, State] = {"succeeded": "succeeded", "failed": "failed"}
FINAL_STATES: tuple[State, ...] = ("succeeded", "failed", "gone")


def task_statuses(state: PoolState, names: Names, since: int, known: Where) -> Where:
    """Status of every task, by job.

    Args:
        since: Evictions decided after this record are new, older ones are releasing.
        known: The statuses before, for jobs that ended since.
    """
    found: Where = {}
    for name, tasks in names.items():
        job = state.jobs.get(name)
        if job is None or job.phase in ENDED:
            found[name] = [_ended(job, before) for before in known[name]]
        else:
            found[name] = [_state(state, job, index, since) for index in range(len(tasks))]
    return found


def _ended(job: Job | None, before: TaskStatus) -> TaskStatus:
    """Status of a task of an ended job: as before, or the job's outcome; evicted tasks are `gone`."""
    if before.state in FINAL_STATES:
        return before
    evicted = job is None or before.state in ("evicted", "moved")
    return TaskStatus(state="gone" if evicted or job is None else FINAL_STATE_OF.get(job.phase, "gone"))


def _state(state: PoolState, job: Job, index: int, since: int) -> TaskStatus:
    task = job.task(index)
    if task is None:
        place = next((each for each in job.reservation if each.index == index), None)
        if place is not None:
            return at_place(state, place, "reserved")
        return TaskStatus(state="paused" if job.phase == "paused" else "pending")
    if task.state == "released" and task_outcome(job, task).startswith("preempted"):  # requeued once all its gang is released
        returns = job.demand.on_eviction == "requeue" and not job.cancelled
        return TaskStatus(state=("paused" if job.paused_seq is not None else "pending") if returns else "gone")
    if task.state == "released":
        return TaskStatus(state="succeeded" if task.finished else "failed")
    if task.state == "reserved":
        return at_place(state, task, "reserved")
    eviction = task.eviction or job.eviction
    if eviction is not None and eviction.cancel_seq is None:
        if eviction.stuck:
            return at_place(state, task, "stuck_releasing")
        if eviction.decided_seq <= since:
            return at_place(state, task, "releasing")
        new_place = next((each for each in job.reservation if each.index == index), None)
        return at_place(state, task, "evicted") if new_place is None else at_place(state, new_place, "moved")
    return at_place(state, task, "placed" if task.state == "starting" else "running")


def at_place(state: PoolState, task: Task, shown: State) -> TaskStatus:
    """The given state, with the names of the task's node and devices."""
    node = state.nodes[task.node]
    return TaskStatus(state=shown, node=node.name, devices=tuple(node.devices[number].id for number in bits(task.devices)))


def node_names(state: PoolState, tasks: Iterable[Task]) -> tuple[str, ...]:
    """Node names of the tasks, in task order."""
    return tuple(state.nodes[task.node].name for task in tasks)


def node_lines(state: PoolState) -> tuple[NodeLine, ...]:
    """GPUs of every node, in snapshot order."""
    weights = mig_weights_of(state.policy)
    return tuple(_node_line(node, weights) for node in state.nodes.values())


def _node_line(node: Node, weights: Mapping[str, int]) -> NodeLine:
    def gpus(mask: int, shares: Mapping[int, int] | None = None) -> Fraction:
        whole = sum(device_gpu_milli(node.devices[number], weights) for number in bits(mask))
        parts = sum(Fraction(1000 * units, units_of(node.devices[number])) for number, units in (shares or {}).items())
        return Fraction(whole + parts)

    capacity, allocated = gpus(node.capacity.devices), gpus(node.allocated.devices, node.allocated.shares)
    return NodeLine(
        node=node.name,
        gpus=int(capacity) / 1000,
        gpus_free=int(capacity - allocated) / 1000,
        gpus_releasing=int(gpus(node.releasing.devices, node.releasing.shares)) / 1000,
        gpus_reserved=int(gpus(node.reserved.devices, node.reserved.shares)) / 1000,
    )


# --- a round


def round_report(
    state: PoolState, names: Names, which: int, before: Where, since: int, made: Sequence[tuple[int, Decision]]
) -> Round:
    """The report of the cycle that started after the record `since`."""
    after = task_statuses(state, names, since, before)
    tasks = tuple(
        TaskLine(job=job, task=name, before=then, after=now)
        for job, members in names.items()
        for name, then, now in zip(members, before[job], after[job], strict=True)
    )
    restarted = {decision.job for _, decision in made if isinstance(decision, decisions.MigrationDecided)}
    shown = (each for _, each in made if not (isinstance(each, decisions.JobGrown) and each.job in restarted))
    lines = tuple(line for each in shown if (line := decision_line(state, names, each)) is not None)
    return Round(
        round=which,
        now=time_text(state.now),
        changed=bool(lines) or any(line.before.state != line.after.state for line in tasks),
        counts=_counts(tasks),
        tasks=tasks,
        nodes=node_lines(state),
        decisions=lines,
        notes=tuple(note for _, decision in made if (note := _note(decision)) is not None),
        pending=pending_lines(state, names, [decision for _, decision in made]),
    )


def _counts(tasks: Iterable[TaskLine]) -> Counts:
    changed = [line.after.state for line in tasks if line.after.state != line.before.state or _reservation_moved(line)]
    moved = changed.count("moved")
    return Counts(
        placements=changed.count("placed"),
        evictions=changed.count("evicted") + moved,
        reservations=changed.count("reserved") + moved,
    )


def _reservation_moved(line: TaskLine) -> bool:
    return line.before.state == line.after.state == "reserved" and line.before != line.after


def _note(decision: Decision) -> str | None:
    match decision:
        case decisions.JobPriorityBoosted():
            change = f"{decision.effective_priority} instead of {decision.priority}"
            return f"ageing: priority of {decision.job} is {change}: {decision.reason}"
        case decisions.ShareTurnBegan():
            return share_turn.text(decision)
        case decisions.ScheduleTimedOut():
            return f"schedule-timeout: {decision.job} is pending for {decision.waited // 1_000_000} s; {decision.reason}"
        case decisions.JobEnded():
            return f"{decision.job} has {decision.outcome}: {decision.reason}"
        case _:
            return None


def decision_line(state: PoolState, names: Names, decision: Decision) -> DecisionLine | None:
    """The line of a decision that changes placements, or `None`."""
    match decision:
        case decisions.JobPlaced() | decisions.JobGrown():
            where = _where(state, decision.placement)
            if decision.action != "allocate":  # its reservation was dropped in this cycle
                condition = "instead of its dropped reservation"
            elif isinstance(decision, decisions.JobGrown) and state.jobs[decision.job].demand.elastic == "restart":
                condition = "once all its tasks restart"
            else:
                condition = "once the releasing tasks there have exited"
            return DecisionLine(
                action=decision.action,
                job=decision.job,
                tasks=_members(names, decision.job, decision.placement),
                outcome="reserved" if decision.reserved else "placed",
                reason=f"on {where}, {condition if decision.reserved else 'where it fits now'}",
            )
        case decisions.PreemptionDecided():
            return _preemption(state, names, decision)
        case decisions.MigrationDecided():
            return DecisionLine(
                action="allocate",
                job=decision.job,
                tasks=_members(names, decision.job, decision.placement),
                outcome="reserved",
                reason=f"on {_where(state, decision.placement)}: {decision.reason}",
            )
        case decisions.EvictionDecided():
            placed = [task.index for task in state.jobs[decision.job].tasks if task.state != "released"]
            indices = numbers(decision.tasks) if decision.tasks else placed
            return DecisionLine(
                action="stale-gang",
                job=decision.job,
                tasks=tuple(names[decision.job][index] for index in indices) if decision.job in names else (),
                outcome="evicted",
                reason=decision.reason,
            )
        case _:
            return None


def _preemption(state: PoolState, names: Names, decision: decisions.PreemptionDecided) -> DecisionLine:
    return DecisionLine(
        action=decision.action,
        job=decision.preemptor.job,
        tasks=_members(names, decision.preemptor.job, decision.placement),
        outcome="reserved",
        reason="; ".join(filter(None, [f"on {_where(state, decision.placement)}, {_condition_text(decision)}", decision.reason])),
        victims=tuple(chosen_victim(state, choice) for choice in decision.victims),
        explanation=decision.explanation,
    )


def _attempted_with_last(refusal: decisions.PreemptionRefused) -> tuple[AttemptedAction, ...]:
    """All actions that found no victims, in order, with that of the record."""
    explanation = refusal.explanation
    if refusal.action == "allocate":
        return explanation.attempted_actions
    last = AttemptedAction(
        action=refusal.action,
        refused="gave-up" if refusal.reason == "gave-up" else "impossible",
        would_need=refusal.would_need[:MAX_NEED_LENGTH],
        candidates=explanation.candidates,
        excluded=explanation.excluded,
    )
    return tuple(sorted((*explanation.attempted_actions, last), key=lambda each: PREEMPTING_ACTIONS.index(each.action)))


def _condition_text(decision: decisions.PreemptionDecided) -> str:
    """`once night and 2 more have exited (lower priority)`."""
    moved = [_victim_text(choice, len(choice.relocated_tasks)) for choice in decision.victims if choice.moved_to]
    evicted_tasks = [
        (choice, len(numbers(choice.not_relocated)) or len(numbers(choice.tasks)) - len(choice.relocated_tasks))
        for choice in decision.victims
        if not choice.relocated
    ]
    evicted = [_victim_text(choice, count) for choice, count in evicted_tasks]
    backfilled = any(choice.backfilled and choice.priority >= decision.preemptor.priority for choice, _ in evicted_tasks)
    reason = "backfilled" if backfilled else _REASONS[decision.action]
    parts = [f"{_names_with_predicate(evicted)} exited ({reason})"] if evicted else []
    parts += [f"{_names_with_predicate(moved)} moved"] if moved else []
    return f"once {' and '.join(parts)}"


def _victim_text(choice: VictimChoice, count: int) -> str:
    if choice.tasks or choice.not_relocated:
        return f"{count_text(count, 'task')} of {choice.job}"
    return f"{choice.job} (parked)" if choice.parked else choice.job


def _names_with_predicate(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more + (" has" if len(names) == 1 and " tasks of " not in names[0] else " have")


_REASONS = {
    "allocate": "not needed",
    "consolidate": "not needed",
    "reclaim": "its project is entitled to it",
    "preempt": "lower priority",
}


FITS = "nothing: it fits and is placed in the next cycle"


def pending_lines(state: PoolState, names: Names, made: Sequence[Decision]) -> tuple[PendingLine, ...]:
    """Jobs with unplaced tasks, in snapshot order, each with the last reason recorded for it."""
    reasons: dict[str, str] = {}
    refused: dict[str, decisions.PreemptionRefused] = {}
    for decision in made:
        if isinstance(decision, decisions.JobPending):
            reasons[decision.job] = with_field(state, decision.reason)
        if isinstance(decision, decisions.PreemptionRefused) and decision.reason in CONCLUSIVE:
            refused[decision.preemptor.job] = decision
    lines = []
    without_selection = WithoutSelection(state)
    drained = DrainedNodes(state)
    for name, members in names.items():
        job = state.jobs.get(name)
        if job is None or job.phase in (*ENDED, "paused", "waiting") or job.eviction is not None:
            continue
        unplaced = tuple(member for index, member in enumerate(members) if job.task(index) is None)
        if not unplaced:
            continue
        refusal = refused.get(name)
        if refusal is not None:
            attempts = _attempted_with_last(refusal)
        else:  # a job that only the head of the queue holds back lacks no victims
            attempts = () if name in state.indices.backfill_blocked else without_selection.attempts(job)
        reason = job.suspended_reason or reasons.get(name) or _why(state, job)
        helping = drained.that_would_help(job)
        until, not_before = _times(without_selection, job, attempts)
        lines.append(
            PendingLine(
                job=name,
                tasks=unplaced,
                reason=reason if helping is None else f"{reason}; {helping}",
                gave_up=refusal is not None and refusal.reason == "gave-up",
                attempted_actions=attempts,
                protected_until=until,
                not_before=not_before,
            )
        )
    return tuple(lines)


def _times(
    now: WithoutSelection, job: Job, attempts: Iterable[AttemptedAction]
) -> tuple[dict[str, dict[str, str]], dict[str, str | None]]:
    """`protected_until` and `not_before` of its line."""
    until: dict[str, dict[str, str]] = {}
    not_before: dict[str, str | None] = {}
    for action in [each.action for each in attempts if each.excluded]:
        ends = now.protected_until(job, action)
        moment = now.not_before(job, action) if ends else "unknown"
        if moment == "never":
            not_before[action] = None
        elif moment != "unknown":
            until[action] = {rule: time_text(end) for rule, (end, _) in ends.items()}
            not_before[action] = time_text(moment)
    return until, not_before


def _why(state: PoolState, job: Job) -> str:
    """Why the job's next unit is not placed, if no decision states it."""
    if next_unit(job) is None:
        return "none of its tasks can be placed until its failed or evicting tasks have released their resources"
    if job.phase == "reserved":
        return "its other tasks wait for their reserved resources; it grows once they run"
    lacks = what_it_lacks(state, job)
    if lacks is None and head_of_queue(state) is not job:
        lacks = held_back(state)
    return lacks or FITS


def _members(names: Names, job: str, placement: Iterable[NodeShare]) -> tuple[str, ...]:
    indices = sorted(index for share in placement for index in numbers(share.tasks))
    members = names.get(job, ())
    return tuple(members[index] for index in indices if index < len(members))


def _where(state: PoolState, placement: Iterable[NodeShare]) -> str:
    nodes = list(dict.fromkeys(state.nodes[share.node].name for share in placement))
    return ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
