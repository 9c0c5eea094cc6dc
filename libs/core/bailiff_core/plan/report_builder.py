"""Builds the plan report from the state and the decisions of a cycle."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from bailiff_core.explain import missing_text
from bailiff_core.humanize import count_text
from bailiff_core.lifecycle.outcome import verdict_of
from bailiff_core.model.gpu_shares import devices_of, units_of
from bailiff_core.model.mig import mig_gpu_milli, mig_weights_of
from bailiff_core.model.placement_ranges import NodeShare, bits, numbers
from bailiff_core.model.proposal import Excluded, Explanation, VictimChoice
from bailiff_core.model.state import ENDED, Job, Node, PoolState, Task
from bailiff_core.model.units import next_unit
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.preemption_delay import may_preempt_from
from bailiff_core.quota.project_cooldown import cooldown_violation
from bailiff_core.quota.quota_checks import over_bounds
from bailiff_core.records import decisions
from bailiff_core.records.payload import Decision
from bailiff_core.records.wire import time_text
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import PREEMPTING_ACTIONS
from bailiff_core.victims.constraints import action_not_permitted
from bailiff_core.victims.solve import SelectionBatch

from .report import (
    AttemptedActionLine,
    Counts,
    DecisionLine,
    NodeLine,
    Number,
    PendingLine,
    Round,
    State,
    TaskLine,
    TaskStatus,
    VictimLine,
)

Names = Mapping[str, Sequence[str]]
Where = dict[str, list[TaskStatus]]
FINAL_STATE_OF: Mapping[str, State] = {"succeeded": "succeeded", "failed": "failed"}
FINAL_STATES: tuple[State, ...] = ("succeeded", "failed", "gone")


def task_statuses(state: PoolState, names: Names, since: int, known: Where) -> Where:
    """Status of every task, by job. since: evictions decided after this record are new, older ones are releasing.

    known: the statuses before, for jobs that ended since.
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
        return TaskStatus(state="paused" if job.phase == "paused" else "pending")
    if task.state == "released" and verdict_of(job, task).startswith(
        "preempted"
    ):  # it is requeued once all of its gang is released
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
    return tuple(_node_line(node) for node in state.nodes.values())


def _node_line(node: Node) -> NodeLine:
    allocated = _used(node, node.allocated.devices, node.allocated.shares)
    return NodeLine(
        node=node.name,
        gpus=number(Fraction(node.capacity.devices.bit_count())),
        free_gpus=number(node.capacity.devices.bit_count() - allocated),
        releasing_gpus=number(_used(node, node.releasing.devices, node.releasing.shares)),
        reserved_gpus=number(_used(node, node.reserved.devices, node.reserved.shares)),
    )


def _used(node: Node, mask: int, shares: Mapping[int, int]) -> Fraction:
    parts = (Fraction(units, units_of(node.devices[device])) for device, units in shares.items())
    return mask.bit_count() + sum(parts, Fraction(0))


def number(value: Fraction | int) -> Number:
    """An integer if exact, else rounded to thousandths."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else round(float(exact), 3)


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
    lines = tuple(line for _, decision in made if (line := decision_line(state, names, decision)) is not None)
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
            replaces_reservation = decision.action != "allocate"  # its reservation was dropped in this cycle
            condition = (
                "instead of its dropped reservation" if replaces_reservation else "once the releasing tasks there have exited"
            )
            return DecisionLine(
                action=decision.action,
                job=decision.job,
                tasks=_members(names, decision.job, decision.placement),
                outcome="reserved" if decision.reserved else "placed",
                reason=f"on {where}, {condition if decision.reserved else 'where it fits now'}",
            )
        case decisions.PreemptionDecided():
            return _preemption(state, names, decision)
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
    explanation: Explanation = decision.explanation
    preemptor = decision.preemptor
    return DecisionLine(
        action=decision.action,
        job=preemptor.job,
        tasks=_members(names, preemptor.job, decision.placement),
        outcome="reserved",
        reason=f"on {_where(state, decision.placement)}, {_condition_text(decision)}",
        victims=tuple(victim_line(state, names, choice) for choice in decision.victims),
        cost=explanation.cost,
        proven=explanation.proven,
        at_least=explanation.lower_bound,
        runner_up=explanation.runner_up,
        runner_up_cost=explanation.runner_up_cost,
        candidates=explanation.candidates,
        excluded=_jobs_by_rule(explanation.excluded),
        attempted_actions=_attempted(explanation),
    )


def _jobs_by_rule(excluded: Iterable[Excluded]) -> dict[str, int]:
    return {group.rule: group.jobs for group in excluded}


def _attempted(explanation: Explanation) -> tuple[AttemptedActionLine, ...]:
    return tuple(
        AttemptedActionLine(
            action=each.action,
            would_need=each.would_need,
            gave_up=each.refused == "gave-up",
            candidates=each.candidates,
            excluded=_jobs_by_rule(each.excluded),
        )
        for each in explanation.attempted_actions
    )


def _attempted_with_last(refusal: decisions.PreemptionRefused) -> tuple[AttemptedActionLine, ...]:
    """All actions that found no victims, that of the record last."""
    explanation = refusal.explanation
    if refusal.action == "allocate":
        return _attempted(explanation)
    last = AttemptedActionLine(
        action=refusal.action,
        would_need=refusal.would_need,
        gave_up=refusal.reason == "gave-up" and not explanation.proven,
        candidates=explanation.candidates,
        excluded=_jobs_by_rule(explanation.excluded),
    )
    return (*_attempted(explanation), last)


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
    return f"{count_text(count, 'task')} of {choice.job}" if choice.tasks or choice.not_relocated else choice.job


def _names_with_predicate(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more + (" has" if len(names) == 1 and " tasks of " not in names[0] else " have")


_REASONS = {
    "allocate": "not needed",
    "consolidate": "not needed",
    "reclaim": "its project is entitled to it",
    "preempt": "lower priority",
}


def victim_line(state: PoolState, names: Names, choice: VictimChoice) -> VictimLine:
    """The victim's line."""
    members = names.get(choice.job, ())
    job = state.jobs.get(choice.job)
    placed = [task.index for task in job.tasks] if job is not None else []
    indices = numbers(choice.tasks) if choice.tasks else placed or range(len(members))
    gpus = sum((_gpus_of(state, job, index) for index in indices), Fraction(0)) if job is not None else Fraction(choice.gpus)
    moved = sorted((index, share.node) for share in choice.moved_to for index in numbers(share.tasks))
    return VictimLine(
        job=choice.job,
        project=choice.project or (job.project if job is not None else "") or None,
        priority=choice.priority,
        tasks=tuple(members[index] for index in indices if index < len(members)),
        gpus=number(gpus),
        lost_gpu_seconds=number(Fraction(choice.lost_gpu_ms, 1000)),
        stopped=not choice.tasks and not choice.reserved,
        was_reserved=choice.reserved,
        moved_to=tuple(state.nodes[node].name for _, node in moved),
    )


def _gpus_of(state: PoolState, job: Job, index: int) -> Fraction:
    group = job.groups()[index]
    if group.mig_profile is not None:
        return Fraction(mig_gpu_milli(group.mig_profile, mig_weights_of(state.policy)) * devices_of(group)) / 1000
    share = Fraction((group.gpu_share_milli or 0) * (group.gpu_devices or 1), 1000)
    return Fraction(group.gpu_milli, 1000) + share


def pending_lines(state: PoolState, names: Names, made: Sequence[Decision]) -> tuple[PendingLine, ...]:
    """Jobs with unplaced tasks, in snapshot order, each with the last reason recorded for it."""
    reasons: dict[str, str] = {}
    refused: dict[str, decisions.PreemptionRefused] = {}
    for decision in made:
        if isinstance(decision, decisions.JobPending):
            reasons[decision.job] = decision.reason
        if isinstance(decision, decisions.PreemptionRefused):
            refused[decision.preemptor.job] = decision
    lines = []
    without_selection = ReasonsWithoutSelection(state)
    for name, members in names.items():
        job = state.jobs.get(name)
        if job is None or job.phase in (*ENDED, "paused", "waiting") or job.eviction is not None:
            continue
        unplaced = tuple(member for index, member in enumerate(members) if job.task(index) is None)
        if not unplaced:
            continue
        refusal = refused.get(name)
        if refusal is not None:
            would_need, excluded = missing_text(refusal), _jobs_by_rule(refusal.explanation.excluded)
        else:
            would_need, excluded = without_selection.why(job)
        lines.append(
            PendingLine(
                job=name,
                tasks=unplaced,
                reason=job.suspended_reason or reasons.get(name) or _why(state, job),
                would_need=would_need,
                gave_up=refusal is not None and refusal.reason == "gave-up",
                excluded=excluded,
                attempted_actions=_attempted_with_last(refusal) if refusal is not None else (),
            )
        )
    return tuple(lines)


class ReasonsWithoutSelection:
    """Reasons for jobs without a request for victim selection: no action could place them."""

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self._batch: SelectionBatch | None = None

    def why(self, job: Job) -> tuple[str, dict[str, int]]:
        """What each action lacks, and how many jobs each rule protects from the last action that is permitted."""
        actions = [action for action in PREEMPTING_ACTIONS if action in self.state.rules.preemption.actions]
        unit = next_unit(job)
        if not actions or unit is None or job.suspended_reason is not None:
            return "", {}
        if self._batch is None:
            self._batch = SelectionBatch.on(current_snapshot(self.state))
        batch = self._batch
        preempts_from = may_preempt_from(self.state, job)
        if preempts_from > self.state.now:
            return f"it may preempt from {time_text(preempts_from)} on (rule preemption-delay)", {}
        obstacles = {action: action_not_permitted(batch.snapshot, batch.shares, unit, action) for action in actions}
        permitted = [action for action, why in obstacles.items() if why is None]
        if not permitted:
            return "; ".join(f"{action}: {why}" for action, why in obstacles.items()), {}
        excluded = batch.index.candidates(permitted[-1], job).excluded
        return "", {rule: len({unit.job.id: None for unit in units}) for rule, units in excluded.items()}


def _why(state: PoolState, job: Job) -> str:
    """Why the job's next unit is not placed, if no decision states it."""
    unit = next_unit(job)
    if unit is None:
        return "none of its tasks can be placed until its failed or evicting tasks have released their resources"
    if job.phase == "reserved":
        return "its other tasks wait for their reserved resources; it grows once they run"
    snapshot = current_snapshot(state)
    violation = over_bounds(snapshot, unit) or cooldown_violation(snapshot, unit)
    if "allocate" not in state.rules.preemption.actions and violation is None:
        return "action allocate is disabled"
    if violation is not None:
        return violation
    mark = snapshot.mark()
    place = place_unit(snapshot.cluster, unit, StepBudget(state.rules.preemption.search_steps))
    snapshot.rollback(mark)
    return place.why if isinstance(place, NoFit) else "nothing: it fits and is placed in the next cycle"


def _members(names: Names, job: str, placement: Iterable[NodeShare]) -> tuple[str, ...]:
    indices = sorted(index for share in placement for index in numbers(share.tasks))
    members = names.get(job, ())
    return tuple(members[index] for index in indices if index < len(members))


def _where(state: PoolState, placement: Iterable[NodeShare]) -> str:
    nodes = list(dict.fromkeys(state.nodes[share.node].name for share in placement))
    return ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
