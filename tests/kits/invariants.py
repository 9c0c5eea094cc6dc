"""Invariants (docs/concepts/architecture.md §8), each as a small function named after its rule.

Three kinds: over one state (`pool -> violations`), over the log (`History`, fed record by record, and functions over
whole logs), over the processes of machines. A violation is a sentence. `check` raises it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.kits.core_invariants import is_releasing, lacks_surplus, parts_of, sums_by_node, tasks_with_resources
from tests.kits.log_faults import named_by_verify

from bailiff_bus.port import Message
from bailiff_core.actions.allocate import is_behind_selection
from bailiff_core.fold import apply
from bailiff_core.fold.outcome import task_outcome
from bailiff_core.fold.pending_queue import queue_key
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.placement_ranges import bits, numbers
from bailiff_core.model.state import ENDED, PoolState, Task
from bailiff_core.model.units import core_complete, has_resources, next_unit
from bailiff_core.placement.cluster_resources import ClusterResources
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.quota.quota_checks import over_bounds
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, decisions, decode
from bailiff_core.records.facts import EvictionStageReached, EvictionStarted, JobSubmitted, WriterStarted
from bailiff_core.records.log_keys import SignatureCheck
from bailiff_core.replay import Replay
from bailiff_core.scheduling_snapshot import current_snapshot

Violations = Iterator[str]
ALLOCATED = ("starting", "running", "exited")


class Violated(AssertionError):
    """An invariant is violated."""


def check(rules: Iterable[Callable[[PoolState], Violations]], state: PoolState) -> None:
    """Raise `Violated` with the first violation of any of these rules."""
    for rule in rules:
        for violation in rule(state):
            raise Violated(f"after #{state.seq}: {rule.__name__}: {violation}")


# --- over one state, after any record


def no_device_is_over_allocated(state: PoolState) -> Violations:
    """§8.1: a GPU has at most one task that started and is not released, or several that share it, at most the whole GPU."""
    taken: dict[tuple[int, int], Fraction] = {}
    for job in state.active_jobs():
        for task in job.tasks:
            for device, part in parts_of(state, job, task).items() if task.state in ALLOCATED else ():
                taken[task.node, device] = taken.get((task.node, device), Fraction(0)) + part
                if taken[task.node, device] > 1:
                    yield f"device {device} of node {task.node} is allocated {taken[task.node, device]} times, by {job.id} too"


def no_node_is_over_allocated(state: PoolState) -> Violations:
    """§8.1: no node has more CPU, memory, slots or devices allocated than its capacity."""
    sums = sums_by_node(state)
    for node in state.nodes.values():
        held, capacity = sums[node.number][0], node.capacity
        for name in ("cpu_milli", "memory_bytes", "slots"):
            if getattr(held, name) > getattr(capacity, name):
                yield f"{node.name} has {name} {getattr(capacity, name)} and {getattr(held, name)} allocated"
        if held.devices & ~((1 << len(node.devices)) - 1):
            yield f"{node.name} has devices allocated that do not exist"


def node_sums_match_tasks(state: PoolState) -> Violations:
    """`allocated`, `releasing` and `reserved` of each node are the sums over its tasks."""
    sums = sums_by_node(state)
    for node in state.nodes.values():
        for name, expected in zip(("allocated", "releasing", "reserved"), sums[node.number], strict=True):
            if getattr(node, name) != expected:
                yield f"{node.name}.{name} is {getattr(node, name)}, the sum over its tasks is {expected}"


def indices_match_phases(state: PoolState) -> Violations:
    """The indices queue, active, reserved, starting, evicting and ended match the phases of the jobs."""
    jobs = state.jobs.values()
    waiting = sorted((job for job in jobs if job.phase == "pending" or lacks_surplus(job)), key=queue_key)
    if state.queue != [job.id for job in waiting]:
        yield f"the queue is {state.queue}, pending are {[job.id for job in waiting]}"
    expected = {
        "active": {job.id for job in jobs if job.phase not in (*ENDED, "pending", "paused")},
        "reserved": {job.id for job in jobs if any(task.state == "reserved" for task in job.tasks)},
        "starting": {job.id for job in jobs if job.phase in ("starting", "running") and any(map(_to_start, job.tasks))},
        "evicting": {job.id for job in jobs if job.eviction is not None or any(task.eviction for task in job.tasks)},
        "ended": {job.id for job in jobs if job.phase in ENDED},
    }
    for name, members in expected.items():
        if set(getattr(state, name)) != members:
            yield f"{name} is {sorted(getattr(state, name))}, by phase it is {sorted(members)}"


def _to_start(task: Task) -> bool:
    return task.state == "starting" and task.eviction is None


def phases_fit_tasks(state: PoolState) -> Violations:
    """§8.4: a gang has all of its tasks or none, and their states match its phase."""
    for job in state.jobs.values():
        states = {task.state for task in job.tasks}
        if job.phase in (*ENDED, "pending", "paused"):
            if job.tasks or job.eviction is not None:
                yield f"{job.id} is {job.phase} and has tasks or an eviction"
            continue
        if not job.tasks or [task.index for task in job.tasks] != sorted({task.index for task in job.tasks}):
            yield f"{job.id} is {job.phase} with the tasks {[task.index for task in job.tasks]}"
        if (job.phase == "reserved" and states != {"reserved"}) or (job.phase == "evicting" and "reserved" in states):
            yield f"{job.id} is {job.phase}, its tasks are {sorted(states)}"
        for place in job.reservation if job.phase != "evicting" else ():
            member = job.task(place.index)
            is_next = member is None and state.cycle_open  # the old task was just released; its new place is decided next
            if not is_next and (member is None or member.eviction is None):
                yield f"{job.id} is {job.phase}, and its task {place.index} has a reservation elsewhere"
        if (job.phase == "evicting") != (job.eviction is not None):
            yield f"{job.id} is {job.phase} and its eviction is {job.eviction}"


STATE_RULES = (
    no_device_is_over_allocated,
    no_node_is_over_allocated,
    node_sums_match_tasks,
    indices_match_phases,
    phases_fit_tasks,
)


# --- over one state, between cycles


def reservations_fit(state: PoolState) -> Violations:
    """The reserved parts of a device, and those of tasks that are not evicted, are at most the whole device."""
    taken: dict[tuple[int, int], Fraction] = {}
    reserved: dict[tuple[int, int], str] = {}
    for job, task in tasks_with_resources(state):
        if task.state != "reserved" and is_releasing(job, task):
            continue
        for device, part in parts_of(state, job, task).items():
            taken[task.node, device] = taken.get((task.node, device), Fraction(0)) + part
            if task.state == "reserved":
                reserved[task.node, device] = job.id
    for at, name in reserved.items():
        if taken[at] > 1:
            yield f"device {at[1]} of {state.nodes[at[0]].name} is reserved for {name} and used {taken[at]} times"


def released_tasks_use_their_reservation(state: PoolState) -> Violations:
    """Only tasks that are still being evicted have a reservation elsewhere."""
    for job in state.jobs.values():
        for place in job.reservation if job.phase != "evicting" else ():
            if job.task(place.index) is None:
                yield f"task {place.index} of {job.id} is released, and its reservation is not used"


def incomplete_gangs_are_evicted(state: PoolState) -> Violations:
    """§8.4: when a required task has failed, the other tasks of the gang are evicted."""
    for job in state.active_jobs():
        alive = [task for task in job.tasks if task.state in ("starting", "running")]
        failed = [task for task in job.tasks if task.state in ("exited", "released") and task_outcome(job, task) == "failed"]
        if failed and alive and job.eviction is None:
            yield f"{job.id}: task {failed[0].index} failed, task {alive[0].index} stays"
        staying = [task for task in alive if task.eviction is None]
        if (
            staying
            and job.eviction is None
            and not core_complete(job, [t for t in job.tasks if t.eviction is None and has_resources(t)])
        ):
            yield f"{job.id} runs with {len(staying)} tasks and needs {job.minimum}"
        if job.tasks and all(task.state == "released" for task in job.tasks):
            yield f"{job.id} is {job.phase} and all its tasks are released"


def pending_jobs_have_a_reason(state: PoolState) -> Violations:
    """§8.5: a pending job has a recorded reason, is in back-off, is suspended, or is behind an open selection."""
    for name in state.queue:
        job = state.jobs[name]
        excused = job.pending_recorded or job.suspended_reason or job.not_before > state.now or is_behind_selection(state, job)
        if job.phase == "pending" and not excused and not state.truncation_unreconciled:
            yield f"{name} is pending without a recorded reason"


def preemptions_have_their_preemptor(state: PoolState) -> Violations:
    """§8.3: a preemption lasts as long as its preemptor is reserved."""
    for plan in state.preemptions.values():
        job = state.jobs.get(plan.job)
        if job is None or job.preemption != plan.seq or not any(task.state == "reserved" for task in job.tasks):
            yield f"preemption {plan.seq} is for {plan.job}, which is not reserved by it"


CYCLE_RULES = (
    reservations_fit,
    released_tasks_use_their_reservation,
    incomplete_gangs_are_evicted,
    pending_jobs_have_a_reason,
    preemptions_have_their_preemptor,
)


# --- over one state at rest


def nothing_is_due(state: PoolState) -> Violations:
    """§8.5: no job is starting, being evicted or reserved; every job has ended, or is pending because it does not fit."""
    for job in state.jobs.values():
        if job.phase == "pending":
            unit = next_unit(job)
            budget = StepBudget(state.rules.preemption.search_steps)  # with fewer steps a hard packing may not be found
            fits = unit is not None and not isinstance(place_unit(ClusterResources.of(state), unit, budget), NoFit)
            snapshot = current_snapshot(state)
            forbidden = unit is not None and over_bounds(snapshot, unit)
            if fits and not forbidden and job.suspended_reason is None:
                yield f"{job.id} is pending, although it fits"
        elif job.phase not in ENDED:
            yield f"{job.id} is still {job.phase}: {[task.state for task in job.tasks]}, eviction {job.eviction}"
    if state.preemptions:
        yield f"preemptions {sorted(state.preemptions)} are open"


def every_node_is_back(state: PoolState) -> Violations:
    """Nodes that report and are not drained are schedulable, however long they were silent."""
    for node in state.nodes.values():
        if not node.schedulable:
            yield f"{node.name} reports and is {node.state}, {node.drain}"


# --- over the log, record by record


@dataclass
class History:
    """Earlier records, against which later ones are checked. Call `before` and `after` around the fold of each record."""

    named: set[tuple[int, str, int]] = field(default_factory=set)  # (seq of the decision, job, attempt) of evictions
    displaced: dict[tuple[str, int], int] = field(default_factory=dict)  # (job, attempt) being evicted, by which record
    requested: dict[int, str] = field(default_factory=dict)  # the preemptor, by the request's seq
    causes: dict[str, int] = field(default_factory=dict)  # the cycle in which a message had its effect
    together: dict[tuple[str, int, int], int] = field(default_factory=dict)  # (job, attempt, eviction): the agreed step

    def before(self, state: PoolState, record: Record) -> Violations:
        """Violations by the record, on the state before it is folded."""
        yield from self._inputs(state, record)
        yield from _only_good_devices(state, record)
        match record.data:
            case decisions.PreemptionRequested() as requested:
                self.requested[record.seq] = requested.job
            case decisions.PreemptionDecided() as decision:
                yield from self._preemption(state, record, decision)
            case decisions.EvictionDecided() | decisions.MigrationDecided() as decision:
                self.named.add((record.seq, decision.job, decision.attempt))
            case EvictionStarted() as begun:
                if (begun.decided_by, begun.job, begun.attempt) not in self.named:
                    yield f"the eviction of {begun.job}, attempt {begun.attempt}, starts without a decision"
            case EvictionStageReached() as staged:
                yield from self._stage(state, staged)
            case decisions.JobPlaced() as placed:
                if placed.attempt != state.jobs[placed.job].attempt + 1:
                    yield f"{placed.job} goes from attempt {state.jobs[placed.job].attempt} to {placed.attempt}"
            case decisions.JobRequeued(job=job, attempt=attempt) | decisions.JobEnded(job=job, attempt=attempt):
                self.displaced.pop((job, attempt), None)
                ended = [task for task in state.jobs[job].tasks if task.state == "released"]
                if record.data.outcome == "failed" and ended and all(task.acknowledged for task in ended):
                    limit = isinstance(record.data, decisions.JobEnded) and record.data.reason.startswith("it ran longer")
                    if not limit:
                        yield f"{job} acknowledged its notice, and its attempt {attempt} counts as a failure"
            case JobSubmitted() as submitted:
                if submitted.demand.job in state.jobs:
                    yield f"{submitted.demand.job} is submitted twice"

    def after(self, state: PoolState) -> Violations:
        """Violations of the state after the record: every eviction is in its decision (§8.3)."""
        for name in state.evicting:
            job = state.jobs[name]
            for eviction in (job.eviction, *(task.eviction for task in job.tasks)):
                if eviction is not None and (eviction.decided_seq, name, job.attempt) not in self.named:
                    yield f"{name}, attempt {job.attempt}, is being evicted and is not in #{eviction.decided_seq}"

    def end(self) -> Violations:
        """Violations at rest: every victim was requeued or has ended (§8.5)."""
        for (name, attempt), seq in self.displaced.items():
            yield f"{name}, attempt {attempt}, was preempted by #{seq} and was not requeued"

    def _preemption(self, state: PoolState, record: Record, decision: decisions.PreemptionDecided) -> Violations:
        """§8.2: victims are preemptible, under preempt strictly lower or backfilled, under reclaim of others; one request."""
        preemptor = state.jobs[decision.preemptor.job]
        if self.requested.get(decision.request) != preemptor.id:
            yield f"{preemptor.id} gets resources that #{decision.request} did not request"
        for choice in decision.victims:
            victim = state.jobs[choice.job]
            behind = (victim.priority, -victim.seq) < (preemptor.priority, -preemptor.seq)
            backfilled = choice.backfilled and victim.backfilled and behind and preemptor.phase == "pending"
            if decision.action == "preempt" and not preemptor.may_preempt and not backfilled:
                yield f"{preemptor.id} preempts others and its class does not allow it"
            lower = decision.action != "preempt" or victim.priority < preemptor.priority or backfilled
            mine = decision.action == "reclaim" and victim.project == preemptor.project and not choice.relocated
            if not lower or mine or not victim.preemptible or victim.id == preemptor.id:
                yield f"{victim.id} ({victim.priority}, {victim.preemptible}) is victim of {preemptor.id} ({preemptor.priority})"
            present = victim.phase in ("reserved", "starting", "running") or (choice.extends and victim.phase == "evicting")
            if choice.attempt != victim.attempt or not present:
                yield f"{victim.id}, attempt {victim.attempt}, is {victim.phase} and is chosen as attempt {choice.attempt}"
            if not choice.reserved:
                self.named.add((record.seq, victim.id, victim.attempt))
                self.displaced[(victim.id, victim.attempt)] = record.seq

    def _stage(self, state: PoolState, staged: EvictionStageReached) -> Violations:
        """A stage is on record once, after the notice; a gang has one common step.

        A later step may be confirmed again, and a notice says again when the task is killed if its grace was shortened.
        """
        job = state.jobs[staged.job]
        task = job.task(staged.task)
        assert task is not None
        known = staged.stage in task.stage_times
        later = staged.stage == "step_confirmed" and (staged.step or 0) > (task.confirmed_step or 0)
        sooner = staged.stage == "noticed" and (staged.kill_after or 0) < (task.kill_after or 0)
        if known and not later and not sooner:
            yield f"{staged.job}/{staged.task} reaches {staged.stage} twice"
        if staged.stage not in ("noticed", "term_sent", "kill_sent") and not task.noticed:
            yield f"{staged.job}/{staged.task} reaches {staged.stage} and has no notice"
        if staged.stage == "step_agreed" and job.eviction is not None and staged.step is not None:
            step = self.together.setdefault((job.id, job.attempt, job.eviction.decided_seq), staged.step)
            if step != staged.step:
                yield f"ranks of {job.id} save at {step} and at {staged.step}"

    def _inputs(self, state: PoolState, record: Record) -> Violations:
        """Positions never decrease, and no message has an effect in two cycles. A range of inputs done ahead may be removed."""
        for position, offset in record.inputs:
            is_range = position.count("/") > 1
            if offset < state.inputs.get(position, 0) and not (is_range and offset == 0):
                yield f"the position of {position} decreases from {state.inputs[position]} to {offset}"
        if isinstance(record.data, WriterStarted) and record.data.inputs != state.inputs:
            yield f"the writer continues from {record.data.inputs}, the log is at {state.inputs}"
        if "/" in record.cause and self.causes.setdefault(record.cause, record.cycle) != record.cycle:
            yield f"{record.cause} has an effect in cycle {self.causes[record.cause]} and again in cycle {record.cycle}"


def _only_good_devices(state: PoolState, record: Record) -> Violations:
    """§8.7: no device is allocated that was not seen free, or that is unhealthy."""
    given: list[tuple[int, int]] = []
    match record.data:
        case (
            decisions.PreemptionDecided(placement=placement)
            | decisions.JobPlaced(placement=placement)
            | decisions.JobGrown(placement=placement)
        ):
            given = [(share.node, sum(1 << number for number in numbers(share.devices))) for share in placement]
        case decisions.JobStarting(job=job, tasks=tasks):
            chosen = numbers(tasks)
            given = [(task.node, task.devices) for task in state.jobs[job].tasks if not tasks or task.index in chosen]
    for number, devices in given:
        node = state.nodes[number]
        bad = devices & (node.quarantined | sum(1 << each.number for each in node.devices if not each.healthy))
        if bad:
            yield f"{record.type} allocates {bits(bad)} of {node.name}, which are quarantined or unhealthy"


# --- over whole logs


def chain_of(
    messages: Sequence[Message], pool: str, check: SignatureCheck | None = None
) -> tuple[list[tuple[Record, Wire]], int]:
    """The records of a raw partition that continue the chain, and how many messages do not. check: of a signed log."""
    head, records = ChainHead(pool), []
    for message in messages:
        wire = Wire(message.headers, message.value)
        after = continues(head, wire, check)
        if not isinstance(after, Break):
            head = after
            records.append((decode(wire), wire))
    return records, len(messages) - len(records)


def replay_is_identical(records: Sequence[tuple[Record, Wire]]) -> Violations:
    """§8.6: a replay gives the same bytes."""
    replay = Replay()
    for record, wire in records:
        replay.feed(record, wire)
    if replay.difference is not None:
        yield f"replay differs: {replay.difference}"


def no_request_is_named(records: Sequence[tuple[Record, Wire]]) -> Violations:
    """§8.6: by the records before it, admission answers each request as the log says."""
    for fault in named_by_verify(record for record, _ in records):
        yield f"an honest log is refuted: {fault}"


def folds_agree(records: Sequence[tuple[Record, Wire]]) -> Violations:
    """§8.6: the state depends on the log only, also if it was restored from a snapshot in between."""
    one, other = PoolState(), PoolState()
    restored = False
    for at, (record, _) in enumerate(records):
        apply(one, record)
        apply(other, record)
        if not restored and not other.cycle_open and at > len(records) // 2:
            other, restored = from_snapshot(to_snapshot(other)), True
    if not one.cycle_open and state_digest(one) != state_digest(other):
        yield f"two folds give {state_digest(one)} and {state_digest(other)}"


# --- over machines


@dataclass(frozen=True)
class LiveTask:
    """A running task process on a machine, as found on the machine."""

    machine: str
    job: str
    attempt: int
    task: int
    devices: tuple[str, ...]
    part: Fraction = Fraction(1)


def no_device_runs_too_much(living: Sequence[LiveTask]) -> Violations:
    """§8.7: a GPU has the processes of one task, or of tasks that share it, at most the whole GPU."""
    taken: dict[str, Fraction] = {}
    for task in living:
        for device in task.devices:
            taken[device] = taken.get(device, Fraction(0)) + task.part
            if taken[device] > 1:
                yield f"{device} is used {taken[device]} times, by {task} too"


def no_job_runs_twice(living: Sequence[LiveTask]) -> Violations:
    """§8.10: two attempts of a job, or two processes of one task, never run at the same time."""
    attempts: dict[str, LiveTask] = {}
    seen: dict[tuple[str, int], LiveTask] = {}
    for task in living:
        other = attempts.setdefault(task.job, task)
        if other.attempt != task.attempt:
            yield f"{task.job} runs as {other} and as {task}"
        if (task.job, task.task) in seen:
            yield f"{task} runs beside {seen[(task.job, task.task)]}"
        seen[(task.job, task.task)] = task


def free_devices_are_free(state: PoolState, living: Sequence[LiveTask]) -> Violations:
    """§8.1, §8.7: the process on a GPU is the one that the log allocated it to; no process runs on a free GPU."""
    for task in living:
        job, number = state.jobs.get(task.job), state.node_numbers.get(task.machine)
        held = None
        if job is not None and job.attempt == task.attempt:
            held = job.task(task.task)
        if held is None or held.node != number or held.state not in ("starting", "running"):
            yield f"{task} runs, and its resources are free in the log: {held}"
