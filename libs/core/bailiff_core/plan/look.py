"""Reads the report off the pool: who stands where, what is free, what the decisions say."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from bailiff_core.explain import needs_text
from bailiff_core.model.answer import Excluded, Explanation, VictimChoice
from bailiff_core.model.places import NodeShare, bits, numbers
from bailiff_core.model.pool import ENDED, Job, Node, Pool, Task
from bailiff_core.model.sharing import units_of
from bailiff_core.model.units import next_unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.protections.delay import may_displace_at
from bailiff_core.protections.no_borrowing import keeps_from_borrowing
from bailiff_core.queue.gates import over_bounds
from bailiff_core.records import decisions
from bailiff_core.records.payload import Decision
from bailiff_core.records.wire import time_text
from bailiff_core.scene import scene_of
from bailiff_core.victims.batch import DISPLACING
from bailiff_core.victims.select import Batch
from bailiff_core.victims.terms import why_not_ask
from bailiff_core.words import count_text

from .report import Counts, DecisionLine, NodeLine, Number, Round, State, TaskAt, TaskLine, TriedLine, VictimLine, WaitLine

Names = Mapping[str, Sequence[str]]
Where = dict[str, list[TaskAt]]
ENDED_JOBS: Mapping[str, State] = {"succeeded": "succeeded", "failed": "failed"}
FOR_GOOD: tuple[State, ...] = ("succeeded", "failed", "gone")


def everybody(pool: Pool, names: Names, since: int, known: Where) -> Where:
    """Every task's state, by job. `since`: evictions decided after this record are new, older ones are under way.

    known: how it was before, for jobs that have ended since.
    """
    found: Where = {}
    for name, tasks in names.items():
        job = pool.jobs.get(name)
        if job is None or job.phase in ENDED:
            found[name] = [_ended(job, before) for before in known[name]]
        else:
            found[name] = [_state(pool, job, index, since) for index in range(len(tasks))]
    return found


def _ended(job: Job | None, before: TaskAt) -> TaskAt:
    """A task of a job that is over: as it was, or as the job ended; who was evicted before is gone."""
    if before.state in FOR_GOOD:
        return before
    evicted = job is None or before.state in ("evicted", "moved")
    return TaskAt(state="gone" if evicted or job is None else ENDED_JOBS.get(job.phase, "gone"))


def _state(pool: Pool, job: Job, index: int, since: int) -> TaskAt:
    task = job.task(index)
    if task is None:
        return TaskAt(state="paused" if job.phase == "paused" else "pending")
    if task.state == "released":
        return TaskAt(state="succeeded" if task.exit_code == 0 else "failed")
    if task.state == "reserved":
        return at_place(pool, task, "reserved")
    eviction = task.eviction or job.eviction
    if eviction is not None and eviction.spare_seq is None:
        if eviction.stuck:
            return at_place(pool, task, "stuck_releasing")
        if eviction.decided_seq <= since:
            return at_place(pool, task, "releasing")
        promised = next((each for each in job.promise if each.index == index), None)
        return at_place(pool, task, "evicted") if promised is None else at_place(pool, promised, "moved")
    return at_place(pool, task, "placed" if task.state == "starting" else "running")


def at_place(pool: Pool, task: Task, state: State) -> TaskAt:
    """The state with the place's names."""
    node = pool.nodes[task.node]
    return TaskAt(state=state, node=node.name, devices=tuple(node.devices[number].id for number in bits(task.devices)))


def node_names(pool: Pool, tasks: Iterable[Task]) -> tuple[str, ...]:
    """The nodes on which the tasks stand, in their order."""
    return tuple(pool.nodes[task.node].name for task in tasks)


def node_lines(pool: Pool) -> tuple[NodeLine, ...]:
    """GPUs of every node, in the order of the document."""
    return tuple(_node_line(node) for node in pool.nodes.values())


def _node_line(node: Node) -> NodeLine:
    held = _used(node, node.held.devices, node.held.shares)
    return NodeLine(
        node=node.name,
        gpus=number(Fraction(node.capacity.devices.bit_count())),
        idle_gpus=number(node.capacity.devices.bit_count() - held),
        releasing_gpus=number(_used(node, node.releasing.devices, node.releasing.shares)),
        reserved_gpus=number(_used(node, node.reserved.devices, node.reserved.shares)),
    )


def _used(node: Node, mask: int, shares: Mapping[int, int]) -> Fraction:
    parts = (Fraction(units, units_of(node.devices[device])) for device, units in shares.items())
    return mask.bit_count() + sum(parts, Fraction(0))


def number(value: Fraction | int) -> Number:
    """A whole number where it is one, else rounded to thousandths."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else round(float(exact), 3)


# --- a round


def round_report(pool: Pool, names: Names, which: int, before: Where, since: int, made: Sequence[tuple[int, Decision]]) -> Round:
    """What the pass that began after the record `since` has done."""
    after = everybody(pool, names, since, before)
    tasks = tuple(
        TaskLine(job=job, task=name, before=then, after=now)
        for job, members in names.items()
        for name, then, now in zip(members, before[job], after[job], strict=True)
    )
    lines = tuple(line for _, decision in made if (line := decision_line(pool, names, decision)) is not None)
    return Round(
        round=which,
        now=time_text(pool.now),
        changed=bool(lines) or any(line.before.state != line.after.state for line in tasks),
        counts=_counts(tasks),
        tasks=tasks,
        nodes=node_lines(pool),
        decisions=lines,
        notes=tuple(note for _, decision in made if (note := _note(decision)) is not None),
        waiting=waiting_lines(pool, names, [decision for _, decision in made]),
    )


def _counts(tasks: Iterable[TaskLine]) -> Counts:
    changed = [line.after.state for line in tasks if line.after.state != line.before.state or _promised_anew(line)]
    moved = changed.count("moved")
    return Counts(
        placements=changed.count("placed"),
        evictions=changed.count("evicted") + moved,
        reservations=changed.count("reserved") + moved,
    )


def _promised_anew(line: TaskLine) -> bool:
    return line.before.state == line.after.state == "reserved" and line.before != line.after


def _note(decision: Decision) -> str | None:
    match decision:
        case decisions.JobAged():
            return f"ageing: {decision.job} counts with {decision.effective} instead of {decision.priority}: {decision.reason}"
        case decisions.ScheduleTimedOut():
            return f"schedule-timeout: {decision.job} has waited {decision.waited // 1_000_000} s; {decision.reason}"
        case decisions.JobEnded():
            return f"{decision.job} has {decision.outcome}: {decision.reason}"
        case _:
            return None


def decision_line(pool: Pool, names: Names, decision: Decision) -> DecisionLine | None:
    """The line of a decision that changes who stands where, or `None`."""
    match decision:
        case decisions.JobPlaced() | decisions.JobGrown():
            where = _where(pool, decision.placement)
            anew = decision.verb != "allocate"  # who lost a promise in this pass
            kept = "instead of the room it was promised" if anew else "once those who are leaving it are gone"
            return DecisionLine(
                verb=decision.verb,
                job=decision.job,
                tasks=_members(names, decision.job, decision.placement),
                outcome="reserved" if decision.reserved else "placed",
                reason=f"on {where}, {kept if decision.reserved else 'where there is room'}",
            )
        case decisions.PreemptionDecided():
            return _preemption(pool, names, decision)
        case decisions.EvictionDecided():
            standing = [task.index for task in pool.jobs[decision.job].tasks if task.state != "released"]
            indices = numbers(decision.tasks) if decision.tasks else standing
            return DecisionLine(
                verb="stale-gang",
                job=decision.job,
                tasks=tuple(names[decision.job][index] for index in indices) if decision.job in names else (),
                outcome="evicted",
                reason=decision.reason,
            )
        case _:
            return None


def _preemption(pool: Pool, names: Names, decision: decisions.PreemptionDecided) -> DecisionLine:
    told: Explanation = decision.explanation
    asker = decision.asker
    return DecisionLine(
        verb=decision.verb,
        job=asker.job,
        tasks=_members(names, asker.job, decision.placement),
        outcome="reserved",
        reason=f"on {_where(pool, decision.placement)}, {_once(decision)}",
        victims=tuple(victim_line(pool, names, choice) for choice in decision.victims),
        cost=told.cost,
        proven=told.proven,
        at_least=told.at_least,
        runner_up=told.runner_up,
        runner_up_cost=told.runner_up_cost,
        candidates=told.candidates,
        excluded=_counted(told.excluded),
        tried=_tried(told),
    )


def _counted(excluded: Iterable[Excluded]) -> dict[str, int]:
    return {group.rule: group.jobs for group in excluded}


def _tried(told: Explanation) -> tuple[TriedLine, ...]:
    return tuple(
        TriedLine(
            verb=each.verb,
            would_need=each.would_need,
            gave_up=each.refused == "gave-up",
            candidates=each.candidates,
            excluded=_counted(each.excluded),
        )
        for each in told.tried
    )


def _refused(refusal: decisions.PreemptionRefused) -> tuple[TriedLine, ...]:
    """Every verb that was tried in vain, that of the record last."""
    told = refusal.explanation
    if refusal.verb == "allocate":
        return _tried(told)
    last = TriedLine(
        verb=refusal.verb,
        would_need=refusal.would_need,
        gave_up=refusal.reason == "gave-up" and not told.proven,
        candidates=told.candidates,
        excluded=_counted(told.excluded),
    )
    return (*_tried(told), last)


def _once(decision: decisions.PreemptionDecided) -> str:
    """`once night and 2 more have left: they have lower priority`."""
    moved = [_who(choice, len(choice.movers)) for choice in decision.victims if choice.moved]
    left = [(choice, len(numbers(choice.tasks)) - len(choice.movers)) for choice in decision.victims if not choice.goes_on]
    gone = [_who(choice, count) for choice, count in left]
    parts = [f"{_some(gone)} left ({_BECAUSE[decision.verb]})"] if gone else []
    parts += [f"{_some(moved)} moved"] if moved else []
    return f"once {' and '.join(parts)}"


def _who(choice: VictimChoice, count: int) -> str:
    return f"{count_text(count, 'task')} of {choice.job}" if choice.tasks else choice.job


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more + (" has" if len(names) == 1 and " tasks of " not in names[0] else " have")


_BECAUSE = {
    "allocate": "not needed",
    "consolidate": "not needed",
    "reclaim": "its project is entitled to it",
    "preempt": "lower priority",
}


def victim_line(pool: Pool, names: Names, choice: VictimChoice) -> VictimLine:
    """The victim, for people."""
    members = names.get(choice.job, ())
    job = pool.jobs.get(choice.job)
    placed = [task.index for task in job.tasks] if job is not None else []
    indices = numbers(choice.tasks) if choice.tasks else placed or range(len(members))
    gpus = sum((_gpus_of(job, index) for index in indices), Fraction(0)) if job is not None else Fraction(choice.gpus)
    moved = sorted((index, share.node) for share in choice.moved for index in numbers(share.tasks))
    return VictimLine(
        job=choice.job,
        project=choice.project or (job.project if job is not None else "") or None,
        priority=choice.priority,
        tasks=tuple(members[index] for index in indices if index < len(members)),
        gpus=number(gpus),
        lost_gpu_seconds=number(Fraction(choice.lost_gpu_ms, 1000)),
        stopped=not choice.tasks and not choice.reserved,
        was_reserved=choice.reserved,
        moved_to=tuple(pool.nodes[node].name for _, node in moved),
    )


def _gpus_of(job: Job, index: int) -> Fraction:
    group = job.groups()[index]
    share = Fraction((group.gpu_share_milli or 0) * (group.gpu_devices or 1), 1000)
    return Fraction(group.gpu_milli, 1000) + share


def waiting_lines(pool: Pool, names: Names, made: Sequence[Decision]) -> tuple[WaitLine, ...]:
    """Jobs that lack tasks, in the order of the document, each with the last thing that was said about it."""
    said: dict[str, str] = {}
    refused: dict[str, decisions.PreemptionRefused] = {}
    for decision in made:
        if isinstance(decision, decisions.JobWaits):
            said[decision.job] = decision.reason
        if isinstance(decision, decisions.PreemptionRefused):
            refused[decision.asker.job] = decision
    lines = []
    unasked = Unasked(pool)
    for name, members in names.items():
        job = pool.jobs.get(name)
        if job is None or job.phase in (*ENDED, "paused") or job.eviction is not None:
            continue
        lacking = tuple(member for index, member in enumerate(members) if job.task(index) is None)
        if not lacking:
            continue
        refusal = refused.get(name)
        if refusal is not None:
            would_need, excluded = needs_text(refusal), _counted(refusal.explanation.excluded)
        else:
            would_need, excluded = unasked.why(job)
        lines.append(
            WaitLine(
                job=name,
                tasks=lacking,
                reason=job.held_because or said.get(name) or _why(pool, job),
                would_need=would_need,
                gave_up=refusal is not None and refusal.reason == "gave-up",
                excluded=excluded,
                tried=_refused(refusal) if refusal is not None else (),
            )
        )
    return tuple(lines)


class Unasked:
    """Why no room could be made for jobs about which victim selection was never asked: nobody might leave for them."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._batch: Batch | None = None

    def why(self, job: Job) -> tuple[str, dict[str, int]]:
        """What each verb lacks, and how many jobs each rule shields from the last that might be tried."""
        verbs = [verb for verb in DISPLACING if verb in self.pool.rules.preemption.verbs]
        unit = next_unit(job)
        if not verbs or unit is None or job.held_because is not None:
            return "", {}
        if self._batch is None:
            self._batch = Batch.on(scene_of(self.pool))
        batch = self._batch
        wait = may_displace_at(self.pool, job)
        if wait > self.pool.now:
            return f"it may displace others from {time_text(wait)} on (rule preemption-delay)", {}
        told = {verb: why_not_ask(batch.scene, batch.shares, unit, verb) for verb in verbs}
        open_to_it = [verb for verb, why in told.items() if why is None]
        if not open_to_it:
            return "; ".join(f"{verb}: {why}" for verb, why in told.items()), {}
        shielded = batch.board.field(open_to_it[-1], job).excluded
        return "", {rule: len({unit.job.id: None for unit in units}) for rule, units in shielded.items()}


def _why(pool: Pool, job: Job) -> str:
    """Why the job does not get what it asks for next, where no decision says so."""
    unit = next_unit(job)
    if unit is None:
        return "none of its tasks can be placed: what has failed or is leaving is in the way"
    if job.phase == "reserved":
        return "its other tasks wait for the room that is reserved for them; it grows once they run"
    scene = scene_of(pool)
    forbidden = over_bounds(scene, unit) or keeps_from_borrowing(scene, unit)
    if "allocate" not in pool.rules.preemption.verbs and forbidden is None:
        return "allocate may not run"
    if forbidden is not None:
        return forbidden
    mark = scene.mark()
    place = place_unit(scene.rooms, unit, Budget(pool.rules.preemption.search_steps))
    scene.rollback(mark)
    return place.why if isinstance(place, NoFit) else "nothing now: there is room for it, which the next pass will look at"


def _members(names: Names, job: str, placement: Iterable[NodeShare]) -> tuple[str, ...]:
    indices = sorted(index for share in placement for index in numbers(share.tasks))
    members = names.get(job, ())
    return tuple(members[index] for index in indices if index < len(members))


def _where(pool: Pool, placement: Iterable[NodeShare]) -> str:
    nodes = list(dict.fromkeys(pool.nodes[share.node].name for share in placement))
    return ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
