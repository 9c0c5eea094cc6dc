"""What must never happen (docs/architecture.md §8), each as a small function with the name of the rule.

Three kinds: over one state (`pool -> complaints`), over the log (`History`, fed record by record, and functions over
whole logs), over what machines really run. A complaint is a sentence; no complaint, no harm. `check` raises them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bailiff_bus.port import Message
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.lifecycle.outcome import verdict
from bailiff_core.model.places import bits
from bailiff_core.model.pool import ENDED, Pool, Room
from bailiff_core.model.room import add
from bailiff_core.model.sharing import amount_of
from bailiff_core.model.units import next_unit
from bailiff_core.placement.budget import Budget
from bailiff_core.placement.gang import NoFit, place_unit
from bailiff_core.placement.rooms import Rooms
from bailiff_core.queue.order import queue_key
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, decode
from bailiff_core.records.decisions import (
    EvictionDecided,
    JobEnded,
    JobPlaced,
    JobRequeued,
    PreemptionDecided,
    PreemptionRequested,
)
from bailiff_core.records.facts import EvictionBegun, JobSubmitted, WriterStarted
from bailiff_core.replay import Replay

Complaints = Iterator[str]
HOLDING = ("starting", "running", "exited")


class Violated(AssertionError):
    """Something happened that must never happen."""


def check(rules: Iterable[Callable[[Pool], Complaints]], pool: Pool) -> None:
    """Raise `Violated` with the first complaint of any of these rules about the state."""
    for rule in rules:
        for complaint in rule(pool):
            raise Violated(f"after #{pool.seq}: {rule.__name__}: {complaint}")


# --- over one state, after any record


def no_device_is_held_twice(pool: Pool) -> Complaints:
    """§8.1: a whole GPU has at most one task that started and is not proved gone."""
    holders: dict[tuple[int, int], str] = {}
    for job in pool.active_jobs():
        for task in job.tasks:
            for device in bits(task.devices) if task.state in HOLDING else ():
                other = holders.setdefault((task.node, device), job.id)
                if other != job.id:
                    yield f"device {device} of node {task.node} is held by {other} and by {job.id}"


def nothing_is_over_filled(pool: Pool) -> Complaints:
    """§8.1: no more CPU, memory, slots or devices are held than the node has."""
    for node in pool.nodes.values():
        held, capacity = _recomputed(pool, node.number)[0], node.capacity
        for name in ("cpu_milli", "memory_bytes", "slots"):
            if getattr(held, name) > getattr(capacity, name):
                yield f"{node.name} has {name} {getattr(capacity, name)} and holds {getattr(held, name)}"
        if held.devices & ~((1 << len(node.devices)) - 1):
            yield f"{node.name} holds devices that it does not have"


def sums_are_true(pool: Pool) -> Complaints:
    """held, releasing and reserved of each node are what its tasks add up to."""
    for node in pool.nodes.values():
        for name, expected in zip(("held", "releasing", "reserved"), _recomputed(pool, node.number), strict=True):
            if getattr(node, name) != expected:
                yield f"{node.name}.{name} is {getattr(node, name)}, its tasks add up to {expected}"


def _recomputed(pool: Pool, number: int) -> tuple[Room, Room, Room]:
    held, releasing, reserved = Room(), Room(), Room()
    node = pool.nodes[number]
    for job in pool.jobs.values():
        eviction, groups = job.eviction, job.groups() if job.tasks else []
        stuck = eviction is not None and eviction.stuck
        leaving = eviction is not None and not stuck and eviction.spare_seq is None
        for task in job.tasks:
            if task.node != number or task.state == "released":
                continue
            group = groups[task.index]
            amount = amount_of(node, group, task.devices)
            if task.state == "reserved":
                add(reserved, *amount)
                continue
            add(held, *amount)
            if leaving or (task.state == "exited" and not stuck):
                add(releasing, *amount)
    return held, releasing, reserved


def indices_are_true(pool: Pool) -> Complaints:
    """queue, active, reserved, starting, leaving, ended are what the phases of the jobs say."""
    jobs = pool.jobs.values()
    pending = sorted((job for job in jobs if job.phase == "pending"), key=queue_key)
    if pool.queue != [job.id for job in pending]:
        yield f"the queue is {pool.queue}, waiting are {[job.id for job in pending]}"
    expected = {
        "active": {job.id for job in jobs if job.phase not in ENDED and job.phase != "pending"},
        "reserved": {job.id for job in jobs if job.phase == "reserved"},
        "starting": {job.id for job in jobs if job.phase == "starting"},
        "leaving": {job.id for job in jobs if job.phase == "evicting"},
        "ended": {job.id for job in jobs if job.phase in ENDED},
    }
    for name, members in expected.items():
        if set(getattr(pool, name)) != members:
            yield f"{name} is {sorted(getattr(pool, name))}, by phase it is {sorted(members)}"


def phases_fit_tasks(pool: Pool) -> Complaints:
    """§8.4: a gang stands whole or not at all, and its phase says how."""
    for job in pool.jobs.values():
        states = {task.state for task in job.tasks}
        if job.phase in ENDED or job.phase == "pending":
            if job.tasks or job.eviction is not None:
                yield f"{job.id} is {job.phase} and has tasks or an eviction"
            continue
        if [task.index for task in job.tasks] != list(range(job.size)):
            yield f"{job.id} is {job.phase} with {len(job.tasks)} of {job.size} tasks"
        if (job.phase == "reserved") != ("reserved" in states) or ("reserved" in states and len(states) > 1):
            yield f"{job.id} is {job.phase}, its tasks are {sorted(states)}"
        if (job.phase == "evicting") != (job.eviction is not None):
            yield f"{job.id} is {job.phase} and its eviction is {job.eviction}"


STATE_RULES = (no_device_is_held_twice, nothing_is_over_filled, sums_are_true, indices_are_true, phases_fit_tasks)


# --- over one state, between turns


def promises_can_come_true(pool: Pool) -> Complaints:
    """A device is promised once, and only where it is free or on its way to be."""
    promised: dict[tuple[int, int], str] = {}
    for name in pool.reserved:
        for task in pool.jobs[name].tasks:
            node = pool.nodes[task.node]
            for device in bits(task.devices):
                other = promised.setdefault((task.node, device), name)
                if other != name:
                    yield f"device {device} of {node.name} is promised to {other} and to {name}"
            if task.devices & node.held.devices & ~node.releasing.devices:
                yield f"{name} is promised devices of {node.name} that somebody holds for good"


def no_half_gang_stays(pool: Pool) -> Complaints:
    """§8.4: when a member of a gang is gone (and did not finish), the others are on their way out."""
    for job in pool.active_jobs():
        gone = [task for task in job.tasks if task.state in ("exited", "released") and verdict(task) != "finished"]
        alive = [task for task in job.tasks if task.state in ("starting", "running")]
        if gone and alive and job.eviction is None:
            yield f"{job.id}: task {gone[0].index} is gone, task {alive[0].index} stays"
        if job.tasks and all(task.state == "released" for task in job.tasks):
            yield f"{job.id} is {job.phase} and all its tasks are released"


def whoever_waits_was_told_why(pool: Pool) -> Complaints:
    """§8.5: a job that waits has a reason on record, is in back-off, or is held."""
    for name in pool.queue:
        job = pool.jobs[name]
        if not (job.told_waiting or job.held_because or job.not_before > pool.now):
            yield f"{name} waits and nobody said why"


def plans_have_their_asker(pool: Pool) -> Complaints:
    """§8.3: a plan stands as long as its asker waits for the room, and no victim leaves for a plan that is gone."""
    for plan in pool.plans.values():
        job = pool.jobs.get(plan.job)
        if job is None or job.phase != "reserved" or job.plan != plan.seq:
            yield f"plan {plan.seq} is for {plan.job}, which does not wait for it"


TURN_RULES = (promises_can_come_true, no_half_gang_stays, whoever_waits_was_told_why, plans_have_their_asker)


# --- over one state, after everything has come to rest


def nothing_is_owed(pool: Pool) -> Complaints:
    """§8.5: nobody starts, leaves or waits for a promise; every job has ended, or waits because it does not fit."""
    for job in pool.jobs.values():
        if job.phase == "pending":
            unit = next_unit(job)
            fits = unit is not None and not isinstance(place_unit(Rooms.of(pool), unit, Budget(100_000)), NoFit)
            if fits and job.held_because is None:
                yield f"{job.id} waits, although there is room"
        elif job.phase not in ENDED:
            yield f"{job.id} is still {job.phase}: {[task.state for task in job.tasks]}, eviction {job.eviction}"
    if pool.plans:
        yield f"plans {sorted(pool.plans)} are open"


def every_node_is_back(pool: Pool) -> Complaints:
    """Machines that speak take work again, however long they were silent."""
    for node in pool.nodes.values():
        if node.state != "ready":
            yield f"{node.name} speaks and is {node.state}"


# --- over the log, record by record


@dataclass
class History:
    """What earlier records said, to judge later ones by. Call `before` and `after` around the fold of each record."""

    named: set[tuple[int, str, int]] = field(default_factory=set)  # (seq of the decision, job, attempt) of evictions
    displaced: dict[tuple[str, int], int] = field(default_factory=dict)  # (job, attempt) on its way out, by which record
    asked: dict[int, str] = field(default_factory=dict)  # who asked for room, by the request's seq
    causes: dict[str, int] = field(default_factory=dict)  # the turn in which a message had its effect

    def before(self, pool: Pool, record: Record) -> Complaints:
        """Complaints about the record, on the state that it is about to be folded into."""
        yield from self._inputs(pool, record)
        match record.data:
            case PreemptionRequested() as asked:
                self.asked[record.seq] = asked.job
            case PreemptionDecided() as decision:
                yield from self._preemption(pool, record, decision)
            case EvictionDecided() as decision:
                self.named.add((record.seq, decision.job, decision.attempt))
            case EvictionBegun() as begun:
                if (begun.decided, begun.job, begun.attempt) not in self.named:
                    yield f"the eviction of {begun.job}, attempt {begun.attempt}, begins and no decision names it"
            case JobPlaced() as placed:
                if placed.attempt != pool.jobs[placed.job].attempt + 1:
                    yield f"{placed.job} goes from attempt {pool.jobs[placed.job].attempt} to {placed.attempt}"
            case JobRequeued(job=job, attempt=attempt) | JobEnded(job=job, attempt=attempt):
                self.displaced.pop((job, attempt), None)
            case JobSubmitted() as submitted:
                if submitted.demand.job in pool.jobs:
                    yield f"{submitted.demand.job} is submitted twice"

    def after(self, pool: Pool) -> Complaints:
        """Complaints about the state after the record: every eviction in it is named by its decision (§8.3)."""
        for name in pool.leaving:
            job = pool.jobs[name]
            if job.eviction is not None and (job.eviction.decided_seq, name, job.attempt) not in self.named:
                yield f"{name}, attempt {job.attempt}, is being evicted and #{job.eviction.decided_seq} does not name it"

    def end(self) -> Complaints:
        """Complaints when everything has come to rest: a victim is back in the queue, or has ended (§8.5)."""
        for (name, attempt), seq in self.displaced.items():
            yield f"{name}, attempt {attempt}, was displaced by #{seq} and did not come back to the queue"

    def _preemption(self, pool: Pool, record: Record, decision: PreemptionDecided) -> Complaints:
        """§8.2: victims are strictly lower, preemptible, and one proposal is for one open request."""
        asker = pool.jobs[decision.asker.job]
        if self.asked.get(decision.request) != asker.id:
            yield f"{asker.id} gets room that #{decision.request} did not ask for"
        if not asker.may_preempt:
            yield f"{asker.id} displaces others and may not"
        for choice in decision.victims:
            victim = pool.jobs[choice.job]
            if victim.priority >= asker.priority or not victim.preemptible or victim.id == asker.id:
                yield f"{victim.id} ({victim.priority}, {victim.preemptible}) leaves for {asker.id} ({asker.priority})"
            if choice.attempt != victim.attempt or victim.phase not in ("reserved", "starting", "running"):
                yield f"{victim.id}, attempt {victim.attempt}, is {victim.phase} and is chosen as attempt {choice.attempt}"
            if not choice.reserved:
                self.named.add((record.seq, victim.id, victim.attempt))
                self.displaced[(victim.id, victim.attempt)] = record.seq

    def _inputs(self, pool: Pool, record: Record) -> Complaints:
        """Positions never go back, and no message has an effect in two turns."""
        for position, offset in record.inputs:
            if offset < pool.inputs.get(position, 0):
                yield f"the position of {position} goes back from {pool.inputs[position]} to {offset}"
        if isinstance(record.data, WriterStarted) and record.data.inputs != pool.inputs:
            yield f"the writer goes on from {record.data.inputs}, the log stands at {pool.inputs}"
        if "/" in record.cause and self.causes.setdefault(record.cause, record.turn) != record.turn:
            yield f"{record.cause} has an effect in turn {self.causes[record.cause]} and again in turn {record.turn}"


# --- over whole logs


def chain_of(messages: Sequence[Message], domain: str) -> tuple[list[tuple[Record, Wire]], int]:
    """The records of a raw partition that continue the chain, and how many messages do not."""
    head, records = ChainHead(domain), []
    for message in messages:
        wire = Wire(message.headers, message.value)
        after = continues(head, wire)
        if not isinstance(after, Break):
            head = after
            records.append((decode(wire), wire))
    return records, len(messages) - len(records)


def replay_is_identical(records: Sequence[tuple[Record, Wire]]) -> Complaints:
    """§8.6: deciding again gives the same bytes."""
    replay = Replay()
    for record, wire in records:
        replay.feed(record, wire)
    if replay.difference is not None:
        yield f"replay differs: {replay.difference}"


def folds_agree(records: Sequence[tuple[Record, Wire]]) -> Complaints:
    """§8.6: the state of a log is the log's alone, also where a snapshot was taken half way."""
    one, other = Pool(), Pool()
    restored = False
    for at, (record, _) in enumerate(records):
        apply(one, record)
        apply(other, record)
        if not restored and not other.turn_open and at > len(records) // 2:
            other, restored = from_snapshot(to_snapshot(other)), True
    if not one.turn_open and state_digest(one) != state_digest(other):
        yield f"two folds give {state_digest(one)} and {state_digest(other)}"


# --- over machines


@dataclass(frozen=True)
class Living:
    """One living task process on one machine, as the machine itself knows it."""

    machine: str
    job: str
    attempt: int
    task: int
    devices: tuple[str, ...]


def no_device_runs_two(living: Sequence[Living]) -> Complaints:
    """§8.7: no GPU has the processes of two tasks on it."""
    users: dict[str, Living] = {}
    for task in living:
        for device in task.devices:
            other = users.setdefault(device, task)
            if other is not task:
                yield f"{device} runs {other} and {task}"


def no_job_runs_twice(living: Sequence[Living]) -> Complaints:
    """§8.10: two attempts of a job, or one task of an attempt twice, never live at the same time."""
    attempts: dict[str, Living] = {}
    seen: dict[tuple[str, int], Living] = {}
    for task in living:
        other = attempts.setdefault(task.job, task)
        if other.attempt != task.attempt:
            yield f"{task.job} runs as {other} and as {task}"
        if (task.job, task.task) in seen:
            yield f"{task} runs beside {seen[(task.job, task.task)]}"
        seen[(task.job, task.task)] = task


def free_devices_are_free(pool: Pool, living: Sequence[Living]) -> Complaints:
    """§8.1, §8.7: what lives on a GPU is what the log holds it for; nothing lives on what the log calls free."""
    for task in living:
        job, number = pool.jobs.get(task.job), pool.node_numbers.get(task.machine)
        held = None
        if job is not None and job.attempt == task.attempt and task.task < len(job.tasks):
            held = job.tasks[task.task]
        if held is None or held.node != number or held.state not in ("starting", "running"):
            yield f"{task} lives, and for the log its room is free: {held}"
