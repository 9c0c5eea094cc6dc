"""State as plain data: the one place where the shape of `-o json` and `-o yaml` is made, and what the tables are made of.

The keys of these dicts are the contract with programs: they stay, and new ones may come. Times are RFC 3339 UTC texts or
null, durations are seconds, memory is bytes, CPU millicores, GPUs whole ones. `now` is µs UTC; pass the wall clock.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict

from bailiff_bus.log import Entry
from bailiff_core.lifecycle.by_hand import affected_by_drain, drain_grace
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.loss import held_gpu_milli, lost_gpu_ms
from bailiff_core.model.places import NodeShare, bits, numbers, ranges
from bailiff_core.model.policy import VERBS
from bailiff_core.model.pool import ENDED, Device, Drain, Job, Node, Pool, Task
from bailiff_core.model.sharing import units_of
from bailiff_core.queue.order import queue_key
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.wire import time_text
from bailiff_core.words import memory_text, thousandths_text

from .draining import would_move
from .eventline.lines import lines
from .eventline.words import demand_text, node_name
from .policyfile import policy_document
from .projects import below


class JobRow(TypedDict):
    """One job in `bailiff list`. ahead: jobs before it in the queue, null unless it waits. state: the phase,

    or `held` (a decision about it failed), `cancelling` or `pausing`. waiting_s counts since it was submitted or last evicted,
    running_s since all its tasks run. priority: as it counts now, base_priority: its class's. gpus: whole ones of the
    gang; gpus_text also says parts, and placed_gpus_text those of placed_tasks, which hold room. reserved_nodes is where
    the job is promised some.
    """

    job: str
    project: str
    priority_class: str
    priority: int
    base_priority: int
    preemptible: bool
    state: str
    ahead: int | None
    gpus: int
    gpus_text: str
    placed_gpus_text: str
    tasks: int
    min_tasks: int
    placed_tasks: int
    nodes: list[str]
    reserved_nodes: list[str]
    attempt: int
    evictions: int
    failures: int
    submitted_at: str | None
    started_at: str | None
    ended_at: str | None
    waiting_s: int | None
    running_s: int | None
    note: str


class TaskRow(TypedDict):
    """One task of a job's present attempt. stage: how far its eviction has come; step, checkpoint: what it last said of both."""

    task: int
    node: str
    devices: list[int]
    state: str
    exit_code: int | None
    started_at: str | None
    stage: str
    step: int | None
    checkpoint_step: int | None
    checkpoint_at: str | None


class JobDetails(TypedDict):
    """`bailiff describe`. events: lines for people; why: the newest reason on record why it waits."""

    summary: JobRow
    demand: str
    request: dict[str, Any]
    labels: dict[str, str]
    spec_digest: str
    submitted_seq: int
    eviction: dict[str, Any] | None
    reserved_until: str | None
    preempts: list[str]
    task_list: list[TaskRow]
    why: str
    moves: list["MoveRow"]
    events: list[str]


class MoveRow(TypedDict):
    """One move of a job to a place that was kept for it. told_at: the notice; stopped_at: its first task had ended;

    running_at: all of it ran again. pause_s: from the notice to then, down_s: from the end of its first task to then.
    """

    seq: int
    from_nodes: list[str]
    to_nodes: list[str]
    told_at: str | None
    stopped_at: str | None
    running_at: str | None
    pause_s: float | None
    down_s: float | None


class DeviceRow(TypedDict):
    """One GPU. state: free, shared, held, leaving (on its way out), reserved, unhealthy or quarantined.

    job, task: who holds it, of several the first; shared_by: all of them, as job/task; free_milli: thousandths of it
    that nobody holds or is promised. trouble: why it is unhealthy or quarantined, since when, and left so by which job.
    """

    number: int
    id: str
    model: str
    memory_bytes: int
    state: str
    job: str | None
    task: int | None
    reserved_for: str | None
    shared_by: list[str]
    free_milli: int
    trouble: str
    trouble_since: str | None
    left_by: str | None


class DrainRow(TypedDict):
    """How a node is being emptied. due: what runs there leaves now, or has left."""

    seq: int
    mode: str
    reason: str
    deadline: str | None
    due: bool


class AffectedRow(TypedDict):
    """What a drain of a node means for one job. what: `moves`, `leaves`, `shrinks` or `promise goes elsewhere`; to: where to."""

    job: str
    priority_class: str
    priority: int
    what: str
    to: list[str]
    tasks: str
    gpus: str
    grace_s: int
    lost_gpu_ms: int


class NodeRow(TypedDict):
    """One machine in `bailiff nodes`. state: ready, unreachable or lost; draining or drained: it takes nothing new."""

    node: str
    number: int
    state: str
    gpus: int
    gpus_free: int
    gpus_held: int
    gpus_leaving: int
    gpus_reserved: int
    gpus_shared: int
    gpus_unusable: int
    gpus_quarantined: int
    gpu_models: list[str]
    cpu_milli: int
    cpu_milli_free: int
    memory_bytes: int
    memory_bytes_free: int
    tasks: int
    labels: dict[str, str]
    machine_id: str
    incarnation: str
    drain: DrainRow | None
    devices: list[DeviceRow]


class PoolRow(TypedDict):
    """One pool in `bailiff pools` and `bailiff pool list`. verbs_off: what the policy switches off; scope: of preempt."""

    pool: str
    partition: int
    head_seq: int
    head_time: str | None
    head_age_s: int
    epoch: int
    engine: str
    policy_seq: int
    nodes: int
    nodes_ready: int
    nodes_drained: int
    gpus: int
    gpus_free: int
    gpus_held: int
    gpus_reserved: int
    gpus_quarantined: int
    gpus_unhealthy: int
    jobs_running: int
    jobs_waiting: int
    jobs_leaving: int
    jobs_paused: int
    preempting: bool
    orphans: int
    verbs_off: list[str]
    scope: str
    projects: int


class ClassRow(TypedDict):
    """One priority class in `bailiff class list`. users: who may use it; null: anybody."""

    priority_class: str
    value: int
    preemptible: bool
    displaces_others: bool
    is_default: bool
    immediate: bool
    grace_s: int
    users: list[str] | None
    jobs_running: int
    jobs_pending: int


def moment(micros: int | None) -> str | None:
    """A time for programs: RFC 3339 UTC, to the second where there is nothing finer."""
    if not micros:
        return None
    text = time_text(micros)
    return text.replace(".000000Z", "Z")


# --- jobs


def jobs(pool: Pool, now: int, *, ended: bool = False, project: str | None = None) -> list[JobRow]:
    """Jobs with room by queue order, the queue in its order, those that are paused, (with `ended`) ended ones, newest first.

    project: only jobs of it and of those below it.
    """
    mine = None if project is None else dict.fromkeys(below(pool.rules, project))
    active = sorted(pool.active_jobs(), key=queue_key)
    waits = [name for name in pool.queue if name not in pool.active]  # who runs with fewer tasks than it wants waits, too
    waiting = [pool.jobs[name] for name in waits]
    paused = sorted((job for job in pool.jobs.values() if job.phase == "paused"), key=queue_key)
    over = [pool.jobs[name] for name in reversed(pool.ended)] if ended else []
    ahead = {name: at for at, name in enumerate(waits)}
    found = [job for job in [*active, *waiting, *paused, *over] if mine is None or job.project in mine]
    return [job_row(pool, job, now, ahead.get(job.id)) for job in found]


def job_row(pool: Pool, job: Job, now: int, ahead: int | None = None) -> JobRow:
    """One job's row."""
    end = job.ended_at or now
    running = job.phase in ("running", "evicting") or (job.phase in ENDED and job.last_start is not None)
    waits = job.phase in ("pending", "reserved", "starting")
    since = max(job.submitted_at, job.last_eviction or 0)
    placed = [task for task in job.tasks if task.state in ("starting", "running", "exited")]
    return {
        "job": job.id,
        "project": job.project,
        "priority_class": job.class_name,
        "priority": job.priority,
        "base_priority": job.base_priority,
        "preemptible": job.preemptible,
        "state": state_of(job),
        "ahead": ahead,
        "gpus": job.gpus,
        "gpus_text": gpus_of_tasks(group for group in job.demand.tasks for _ in range(group.count)),
        "placed_gpus_text": gpus_of_tasks(job.group(task.index) for task in placed),
        "tasks": job.size,
        "min_tasks": job.minimum,
        "placed_tasks": len(placed),
        "nodes": _names(pool, job.tasks),
        "reserved_nodes": _names(pool, [*(task for task in job.tasks if task.state == "reserved"), *job.promise]),
        "attempt": job.attempt,
        "evictions": job.evictions,
        "failures": job.failures,
        "submitted_at": moment(job.submitted_at),
        "started_at": moment(job.last_start),
        "ended_at": moment(job.ended_at),
        "waiting_s": max(0, end - since) // 1_000_000 if waits else None,
        "running_s": max(0, end - job.last_start) // 1_000_000 if running and job.last_start is not None else None,
        "note": note_of(pool, job),
    }


def _names(pool: Pool, tasks: list[Task]) -> list[str]:
    return list(dict.fromkeys(node_name(pool, task.node) for task in tasks))


def gpus_of_tasks(groups: Iterable[TaskGroup]) -> str:
    """`4` for whole GPUs, `2.5` with parts of some, `2 × 4GiB` beside them for memory of some. groups: one per task."""
    milli, bytes_of = 0, dict[int, int]()
    for group in groups:
        devices = group.gpu_devices or 1
        milli += group.gpu_milli + devices * (group.gpu_share_milli or 0)
        if group.gpu_share_bytes is not None:
            bytes_of[group.gpu_share_bytes] = bytes_of.get(group.gpu_share_bytes, 0) + devices
    parts = [thousandths_text(milli)] if milli or not bytes_of else []
    parts += [f"{f'{count} × ' if count > 1 else ''}{memory_text(size)}" for size, count in bytes_of.items()]
    return " + ".join(parts)


def state_of(job: Job) -> str:
    """One word."""
    if job.phase in ENDED:
        return job.phase
    if job.held_because is not None:
        return "held"
    if job.cancelled:
        return "cancelling"
    return "pausing" if job.paused_seq is not None and job.phase != "paused" else job.phase


def note_of(pool: Pool, job: Job) -> str:
    """What a person would want to know beside the state, in a few words."""
    if job.held_because is not None and job.phase not in ENDED:
        return f"a decision about it failed: {job.held_because}"
    if job.phase == "paused":
        return f"since #{job.paused_seq}" + (f": {job.pause_reason}" if job.pause_reason else "")
    if job.eviction is not None:
        leaving = f"leaves for {job.eviction.for_job}" if job.eviction.for_job else f"leaves {job.eviction.cause}"
        if job.eviction.cause == "migration" and job.promise:
            leaving = f"moves to {', '.join(_names(pool, job.promise)[:3])}"
        return leaving + (", stuck" if job.eviction.stuck else "")
    if job.phase == "reserved":
        plan = pool.plans.get(job.plan) if job.plan is not None else None
        return f"waits for {', '.join(plan.victims[:3])} to leave" if plan and plan.victims else "waits for its room"
    if job.phase == "pending" and any(request.job == job.id for request in (pool.selection.requests if pool.selection else [])):
        return "victims are being selected"
    return ""


def job_details(pool: Pool, job: Job, now: int, history: list[Record], events: list[str]) -> JobDetails:
    """All about one job. history: the records that are about it."""
    waits = [name for name in pool.queue if name not in pool.active]
    ahead = waits.index(job.id) if job.id in waits else None
    plan = pool.plans.get(job.plan) if job.plan is not None else None
    eviction = job.eviction
    return {
        "summary": job_row(pool, job, now, ahead),
        "demand": demand_text(job.demand),
        "request": job.demand.to_data(),
        "labels": dict(job.demand.labels),
        "spec_digest": job.spec_digest,
        "submitted_seq": job.seq,
        "eviction": None
        if eviction is None
        else {
            "decided_seq": eviction.decided_seq,
            "cause": eviction.cause,
            "for_job": eviction.for_job,
            "grace_s": eviction.grace // 1_000_000,
            "begun_seq": eviction.begun_seq,
            "stuck": eviction.stuck,
        },
        "reserved_until": moment(job.reserved_until),
        "preempts": list(plan.victims) if plan is not None else [],
        "task_list": [task_row(pool, task) for task in job.tasks],
        "why": _why(history) if job.phase == "pending" else "",
        "moves": list(moves_of(pool, history)),
        "events": events,
    }


def task_row(pool: Pool, task: Task) -> TaskRow:
    """One task's row."""
    return {
        "task": task.index,
        "node": node_name(pool, task.node),
        "devices": bits(task.devices),
        "state": task.state,
        "exit_code": task.exit_code,
        "started_at": moment(task.started_at),
        "stage": next(reversed(task.reached), ""),
        "step": task.step,
        "checkpoint_step": task.checkpoint_step,
        "checkpoint_at": moment(task.checkpoint_at),
    }


WHY = ("JobWaits", "PreemptionRequested", "PreemptionRefused", "ReservationDropped")


def _why(history: list[Record]) -> str:
    for record in reversed(history):
        if record.data is not None and record.data.NAME in WHY:
            return f"{lines(record)[0].said.more} (#{record.seq})"
    return ""


def moves_of(pool: Pool, history: list[Record]) -> Iterator[MoveRow]:
    """The job's moves, by hand or by a decision that made room, each with what the job saw of it."""
    for at, record in enumerate(history):
        data = record.data
        if isinstance(data, decisions.MigrationDecided) and data.cause == "migration":
            yield _move(pool, record.seq, data.attempt, data.placement, history[:at], history[at:])


def _move(
    pool: Pool, seq: int, attempt: int, placement: tuple[NodeShare, ...], before: list[Record], after: list[Record]
) -> MoveRow:
    def first(kind: type[facts.TaskFact], which: int) -> int | None:
        return next((each.time for each in after if isinstance(each.data, kind) and each.data.attempt == which), None)

    told, stopped = first(facts.EvictionStaged, attempt), first(facts.TaskExited, attempt)
    begun = [each for each in after if isinstance(each.data, facts.TaskStarted) and each.data.attempt == attempt + 1]
    started = {each.data.task: each.time for each in begun if isinstance(each.data, facts.TaskStarted)}
    wanted = [index for share in placement for index in numbers(share.tasks)]
    running = max(started.values()) if wanted and all(index in started for index in wanted) else None
    stood = [each.data for each in before if isinstance(each.data, facts.TaskStarted) and each.data.attempt == attempt]
    return {
        "seq": seq,
        "from_nodes": list(dict.fromkeys(task.node for task in stood)),
        "to_nodes": list(dict.fromkeys(node_name(pool, share.node) for share in placement)),
        "told_at": moment(told),
        "stopped_at": moment(stopped),
        "running_at": moment(running),
        "pause_s": None if running is None or told is None else (running - told) / 1_000_000,
        "down_s": None if running is None or stopped is None else (running - stopped) / 1_000_000,
    }


# --- nodes


def nodes(pool: Pool) -> list[NodeRow]:
    """Every node, by name (numbers within names in their order)."""
    holders = _holders(pool)
    return [node_row(node, holders) for node in sorted(pool.nodes.values(), key=lambda node: _natural(node.name))]


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


Holder = tuple[Job, Task]


def _holders(pool: Pool) -> dict[tuple[int, int], list[Holder]]:
    """Who stands on, or is promised, each device, by (node, device)."""
    found: dict[tuple[int, int], list[Holder]] = {}
    for job, task in _standing(pool):
        for device in bits(task.devices):
            found.setdefault((task.node, device), []).append((job, task))
    return found


def _standing(pool: Pool) -> Iterator[Holder]:
    for job in pool.active_jobs():
        for task in job.tasks:
            if task.state != "released":
                yield job, task


def node_row(node: Node, holders: dict[tuple[int, int], list[Holder]]) -> NodeRow:
    """One node's row."""
    devices = [device_row(node, device, holders.get((node.number, device.number), [])) for device in node.devices]
    states = [device["state"] for device in devices]
    return {
        "node": node.name,
        "number": node.number,
        "state": node_state(node),
        "gpus": len(devices),
        "gpus_free": states.count("free") if node.takes_work else 0,
        "gpus_held": states.count("held"),
        "gpus_leaving": states.count("leaving"),
        "gpus_reserved": states.count("reserved"),
        "gpus_shared": states.count("shared"),
        "gpus_unusable": states.count("unhealthy") + states.count("quarantined"),
        "gpus_quarantined": states.count("quarantined"),
        "gpu_models": sorted({device["model"] for device in devices}),
        "cpu_milli": node.capacity.cpu_milli,
        "cpu_milli_free": node.capacity.cpu_milli - node.held.cpu_milli,
        "memory_bytes": node.capacity.memory_bytes,
        "memory_bytes_free": node.capacity.memory_bytes - node.held.memory_bytes,
        "tasks": node.held.slots,
        "labels": dict(node.labels),
        "machine_id": node.machine_id,
        "incarnation": node.incarnation,
        "drain": drain_row(node),
        "devices": devices,
    }


def node_state(node: Node) -> str:
    """One word. A drained node on which something still stands is draining."""
    if node.state != "ready" or node.drain is None:
        return node.state
    return "draining" if node.held.slots else "drained"


def drain_row(node: Node) -> DrainRow | None:
    """How it is being emptied, if it is."""
    drain = node.drain
    if drain is None:
        return None
    return {
        "seq": drain.seq,
        "mode": drain.mode,
        "reason": drain.reason,
        "deadline": moment(drain.deadline),
        "due": drain.due,
    }


def affected(pool: Pool, node: Node, drain: Drain) -> list[AffectedRow]:
    """What such a drain of the node means for whom."""
    rows: list[AffectedRow] = []
    moves = would_move(pool, node, drain)
    for each in affected_by_drain(pool, node):
        job = each.job
        tasks = [task for task in job.tasks if each.whole or task.index in each.tasks]
        what = "promise goes elsewhere" if each.promised else "leaves" if each.whole else "shrinks"
        what = "moves" if job.id in moves else what
        rows.append(
            {
                "job": job.id,
                "priority_class": job.class_name,
                "priority": job.priority,
                "what": "is leaving already" if job.eviction is not None and not each.promised else what,
                "to": moves.get(job.id, []),
                "tasks": ranges(each.tasks),
                "gpus": gpus_of_tasks(job.group(index) for index in each.tasks),
                "grace_s": drain_grace(pool, job, drain) // 1_000_000,
                "lost_gpu_ms": 0 if each.promised else lost_gpu_ms(pool, job, held_gpu_milli(pool, job, tasks)),
            }
        )
    return rows


def device_row(node: Node, device: Device, standing: list[Holder]) -> DeviceRow:
    """One device's row."""
    bit = 1 << device.number
    holders = [each for each in standing if each[1].state != "reserved"]
    holder = holders[0] if holders else None
    promised = next((each for each in standing if each[1].state == "reserved"), None)
    shares = node.held.shares.get(device.number, 0) + node.reserved.shares.get(device.number, 0)
    if not device.healthy:
        state = "unhealthy"
    elif node.quarantined & bit:
        state = "quarantined"
    elif node.releasing.devices & bit:
        state = "leaving"
    elif node.held.devices & bit:
        state = "held"
    elif node.reserved.devices & bit:
        state = "reserved"
    elif shares:
        state = "shared"
    else:
        state = "free"
    return {
        "number": device.number,
        "id": device.id,
        "model": device.model,
        "memory_bytes": device.memory_bytes,
        "state": state,
        "job": holder[0].id if holder else None,
        "task": holder[1].index if holder else None,
        "reserved_for": promised[0].id if promised else None,
        "shared_by": [f"{job.id}/{task.index}" for job, task in standing] if state == "shared" else [],
        "free_milli": {"free": 1000, "shared": 1000 - -(-1000 * shares // units_of(device))}.get(state, 0),
        "trouble": device.trouble,
        "trouble_since": moment(device.trouble_since),
        "left_by": device.left_by,
    }


# --- pools


def pool_row(pool: Pool, now: int, orphans: int = 0, rows: Sequence[NodeRow] | None = None) -> PoolRow:
    """One pool's row. rows: of its nodes, where they are known."""
    rows = nodes(pool) if rows is None else rows
    phases = [job.phase for job in pool.active_jobs()]
    return {
        "pool": pool.domain,
        "partition": pool.partition,
        "head_seq": pool.seq,
        "head_time": moment(pool.now),
        "head_age_s": max(0, now - pool.now) // 1_000_000,
        "epoch": pool.epoch,
        "engine": pool.engine,
        "policy_seq": pool.policy_revision,
        "nodes": len(rows),
        "nodes_ready": sum(row["state"] == "ready" for row in rows),
        "nodes_drained": sum(row["drain"] is not None for row in rows),
        "gpus": sum(row["gpus"] for row in rows),
        "gpus_free": sum(row["gpus_free"] for row in rows),
        "gpus_held": sum(row["gpus_held"] + row["gpus_leaving"] + row["gpus_shared"] for row in rows),
        "gpus_reserved": sum(row["gpus_reserved"] for row in rows),
        "gpus_quarantined": sum(row["gpus_quarantined"] for row in rows),
        "gpus_unhealthy": sum(row["gpus_unusable"] - row["gpus_quarantined"] for row in rows),
        "jobs_running": sum(phase in ("starting", "running") for phase in phases),
        "jobs_waiting": sum(name not in pool.active for name in pool.queue) + phases.count("reserved"),
        "jobs_leaving": phases.count("evicting"),
        "jobs_paused": sum(job.phase == "paused" for job in pool.jobs.values()),
        "preempting": pool.selection is not None or bool(pool.plans),
        "orphans": orphans,
        "verbs_off": verbs_off(pool),
        "scope": pool.rules.scope,
        "projects": len(pool.rules.projects),
    }


def verbs_off(pool: Pool) -> list[str]:
    """The verbs that the policy switches off; consolidate also where it may move no job."""
    rules = pool.rules.preemption
    return [verb for verb in VERBS if verb not in rules.verbs or (verb == "consolidate" and rules.most_moved == 0)]


def classes(pool: Pool) -> list[ClassRow]:
    """Every priority class, the highest first."""
    jobs = [job for job in pool.jobs.values() if job.phase not in ENDED and job.phase != "paused"]
    rows: list[ClassRow] = []
    for entry in sorted(pool.rules.priority_classes, key=lambda entry: (-entry.value, entry.name)):
        waits = [job.phase in ("pending", "reserved") for job in jobs if job.class_name == entry.name]
        users = pool.rules.identity.class_users.get(entry.name)
        rows.append(
            {
                "priority_class": entry.name,
                "value": entry.value,
                "preemptible": entry.preemptible,
                "displaces_others": entry.preemption_policy == "PreemptLowerPriority",
                "is_default": entry.global_default,
                "immediate": entry.immediate,
                "grace_s": (pool.rules.eviction.grace if entry.grace is None else entry.grace) // 1_000_000,
                "users": list(users) if users is not None else None,
                "jobs_running": waits.count(False),
                "jobs_pending": waits.count(True),
            }
        )
    return rows


def policy(pool: Pool) -> dict[str, Any]:
    """The policy in force, whole, as a file would hold it (durations such as `30s`), and the record that brought it.

    scope: of preempt, also where the policy leaves it to whether there are projects.
    """
    document = policy_document(pool.rules)
    return {"pool": pool.domain, "seq": pool.policy_revision, "scope": pool.rules.scope, "policy": document}


# --- records


def record(entry: Entry, pool: Pool | None = None) -> dict[str, Any]:
    """One record of the log: attributes, data, its place in the chain, and what it says to people."""
    found = entry.record
    return {
        "domain": found.domain,
        "seq": found.seq,
        "type": found.type,
        "time": moment(found.time),
        "epoch": found.epoch,
        "turn": found.turn,
        "turn_end": found.turn_end,
        "cause": found.cause,
        "inputs": dict(found.inputs),
        "actor": found.actor,
        "auth": found.auth,
        "engine": found.engine,
        "policy": found.policy,
        "writer": found.writer,
        "prev": found.prev,
        "hash": entry.hash,
        "offset": entry.offset,
        "append_time": moment(entry.append_time),
        "says": [str(line) for line in lines(found, pool)],
        "data": found.data.to_data() if found.data is not None else None,
    }
