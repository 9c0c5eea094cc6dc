"""One line per record, for people: when, where in the log, what happened, to whom, and what it means.

    12:04:31 pool-a#118 preemption decided  train-7 → evict  for serve-2 (inference 125 > train 50), loses 3.1 GPU-min

`lines(record, pool)` is the plain form; `styled` the same for a terminal. There is one function per record type,
registered with `tells`; the pool, folded to about that record, gives names to numbers and may be empty. Times are UTC.
Text that came from outside is printed without control characters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.text import Text

from bailiff_core.explain import needs_text
from bailiff_core.model.answer import VictimChoice
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.places import NodeShare, numbers, ranges
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.records.wire import time_text
from bailiff_core.words import cost_text, count_text, duration_text, gpus_text, memory_text, thousandths_text

WHAT_WIDTH = 20
WHERE_WIDTH = 10
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """What a line says: what happened, to whom, and more. tone: how it is coloured."""

    what: str
    who: str = ""
    more: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `str()` is its plain form."""

    time: int
    domain: str
    seq: int
    said: Said

    @property
    def clock(self) -> str:
        """Time of day, UTC."""
        return time_text(self.time)[11:19]

    @property
    def day(self) -> str:
        """The date, UTC."""
        return time_text(self.time)[:10]

    def __str__(self) -> str:
        where = f"{self.domain}#{self.seq}"
        rest = "  ".join(part for part in (self.said.who, self.said.more) if part)
        return f"{self.clock} {where:<{WHERE_WIDTH}} {self.said.what:<{WHAT_WIDTH}} {rest}".rstrip()


P = TypeVar("P", bound=Payload)
Tells = Callable[[Any, Pool], Sequence[Said]]
TELLERS: dict[type[Payload], Tells] = {}


def tells(kind: type[P]) -> Callable[[Callable[[P, Pool], Said | Sequence[Said]]], Callable[[P, Pool], Said | Sequence[Said]]]:
    """Marks the function that tells of records of this type."""

    def register(function: Callable[[P, Pool], Said | Sequence[Said]]) -> Callable[[P, Pool], Said | Sequence[Said]]:
        def several(data: P, pool: Pool) -> Sequence[Said]:
            told = function(data, pool)
            return [told] if isinstance(told, Said) else told

        TELLERS[kind] = several
        return function

    return register


def lines(record: Record, pool: Pool | None = None) -> list[Line]:
    """The record's lines: one, or one per victim. A type of a later release is told by its name."""
    if record.data is None:
        told: Sequence[Said] = [Said(record.type.removeprefix("bailiff.audit."), "", "of a later release", "quiet")]
    else:
        told = TELLERS[type(record.data)](record.data, pool if pool is not None else Pool())
    by = f"by {record.actor} ({record.auth or 'none'})" if record.actor else ""
    return [
        Line(record.time, record.domain, record.seq, Said(said.what, plain(said.who), plain(_joined(said.more, by)), said.tone))
        for said in told
    ]


def plain(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else "�" for char in text)


# --- colours

TONES = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "preempt": "magenta",
    "evict": "yellow",
    "quiet": "dim",
    "": "",
}


def styled(line: Line) -> Text:
    """The line for a terminal: the same characters, with colours."""
    tone = TONES[line.said.tone]
    text = Text()
    text.append(line.clock, "dim")
    where = f"{line.domain}#{line.seq}"
    text.append(f" {where:<{WHERE_WIDTH}} ", "cyan")
    text.append(f"{line.said.what:<{WHAT_WIDTH}} ", tone)
    text.append(line.said.who, "bold")
    if line.said.more:
        text.append(("  " if line.said.who else "") + line.said.more, "dim" if line.said.tone == "quiet" else "")
    text.rstrip()
    return text


# --- words


def demand_text(demand: JobDemand) -> str:
    """`2 × 4 GPUs, 2 CPU, 8GiB` for a gang."""
    groups = []
    for group in demand.tasks:
        parts = [part] if (part := gpus_of(group)) else []
        parts += [f"{thousandths_text(group.cpu_milli)} CPU"] if group.cpu_milli else []
        parts += [memory_text(group.memory_bytes)] if group.memory_bytes else []
        text = ", ".join(parts) or "no GPU"
        shown = f"({text})" if len(parts) > 1 else text
        groups.append(f"{group.count} × {shown}" if group.count > 1 else text)
    least = f" (at least {demand.min_tasks} tasks)" if demand.min_tasks is not None else ""
    return " + ".join(groups) + least


def gpus_of(group: TaskGroup) -> str:
    """`4 GPUs`, `0.5 GPU`, `2 × 4GiB of a GPU`; nothing where none is asked for."""
    devices = f"{group.gpu_devices} × " if group.gpu_devices is not None and group.gpu_devices > 1 else ""
    if group.gpu_share_bytes is not None:
        return f"{devices}{memory_text(group.gpu_share_bytes)} of a GPU"
    if group.gpu_share_milli is not None:
        return f"{devices}{thousandths_text(group.gpu_share_milli)} GPU"
    return gpus_text(group.gpu_milli) if group.gpu_milli else ""


def places_text(pool: Pool, placement: Sequence[NodeShare]) -> str:
    """`gpu-01 [0-3], gpu-02 [0-3]` for a placement."""
    devices: dict[int, list[int]] = {}
    for share in placement:
        devices.setdefault(share.node, []).extend(numbers(share.devices))
    shown = [f"{node_name(pool, node)}{f' [{ranges(held)}]' if held else ''}" for node, held in list(devices.items())[:4]]
    if len(devices) > len(shown):
        shown.append(f"and {len(devices) - len(shown)} more nodes")
    return ", ".join(shown)


def node_name(pool: Pool, number: int) -> str:
    """The node's name, or its number where the pool does not know it."""
    node = pool.nodes.get(number)
    return node.name if node is not None else f"node {number}"


def class_text(pool: Pool, job: str, priority: int) -> str:
    """`train 50`."""
    known = pool.jobs.get(job)
    return f"{known.class_name} {priority}" if known is not None else f"priority {priority}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _until(_pool: Pool, moment: int | None, before: str) -> str:
    return "" if moment is None else f"{before} {time_text(moment)[11:19]}"


# --- the log itself


@tells(facts.DomainCreated)
def _domain_created(fact: facts.DomainCreated, _pool: Pool) -> Said:
    return Said("pool created", fact.domain, f"partition {fact.partition}, format {fact.format}", "good")


@tells(facts.PolicyApplied)
def _policy_applied(fact: facts.PolicyApplied, _pool: Pool) -> Said:
    classes = sorted(fact.policy.priority_classes, key=lambda entry: -entry.value)
    shown = " > ".join(f"{entry.name} {entry.value}" for entry in classes[:6]) + (" …" if len(classes) > 6 else "")
    enforced = "what it would not have admitted leaves" if fact.enforce else ""
    return Said("policy in force", shown, _joined(f"verbs {', '.join(fact.policy.preemption.verbs)}", enforced))


@tells(facts.WriterStarted)
def _writer_started(fact: facts.WriterStarted, _pool: Pool) -> Said:
    engine = f"release {fact.release}, logic {fact.logic}, engine {fact.digest[:12]}"
    return Said("writer started", fact.writer[:8], engine, "quiet")


@tells(facts.ClockAdvanced)
def _clock_advanced(_fact: facts.ClockAdvanced, _pool: Pool) -> Said:
    return Said("clock", "", "a moment came that a rule was waiting for", "quiet")


@tells(facts.ClockStepped)
def _clock_stepped(fact: facts.ClockStepped, _pool: Pool) -> Said:
    way = "forward" if fact.by >= 0 else "back"
    return Said("clock stepped", "", f"the writer's clock jumped {way} by {duration_text(abs(fact.by))}; not counted", "warn")


@tells(facts.InputsAdvanced)
def _inputs_advanced(_fact: facts.InputsAdvanced, _pool: Pool) -> Said:
    return Said("inputs read", "", "nothing in them for this pool", "quiet")


@tells(facts.InputsLost)
def _inputs_lost(fact: facts.InputsLost, _pool: Pool) -> Said:
    where = f"{fact.topic}/{fact.partition}"
    gone = count_text(fact.to_offset - fact.from_offset, "message")
    more = f"{gone} were gone before they were read (offsets {fact.from_offset} to {fact.to_offset - 1})"
    return Said("inputs lost", where, more, "bad")


@tells(facts.InputRejected)
def _input_rejected(fact: facts.InputRejected, _pool: Pool) -> Said:
    times = f"{fact.count} inputs, the newest: " if fact.count > 1 else ""
    where = f"{fact.topic}/{fact.partition}/{fact.offset}"
    return Said("rejected", fact.job or where, f"{times}{fact.code}: {fact.reason}", "bad")


@tells(facts.StateDigest)
def _state_digest(fact: facts.StateDigest, _pool: Pool) -> Said:
    return Said("state digest", fact.digest[:12], f"schema {fact.schema_version}", "quiet")


@tells(facts.DecisionFailed)
def _decision_failed(fact: facts.DecisionFailed, _pool: Pool) -> Said:
    return Said("decision failed", fact.job, f"held until it is cancelled: {fact.error}", "bad")


@tells(facts.LogTruncated)
def _log_truncated(fact: facts.LogTruncated, _pool: Pool) -> Said:
    more = _joined(f"agents had obeyed up to epoch {fact.epoch} seq {fact.seq}; an operator goes on", fact.reason)
    return Said("truncation accepted", "", more, "bad")


@tells(facts.LogSettled)
def _log_settled(_fact: facts.LogSettled, _pool: Pool) -> Said:
    return Said("log settled", "", "every agent has said what it runs; tasks are started again", "good")


# --- requests


@tells(facts.JobSubmitted)
def _job_submitted(fact: facts.JobSubmitted, pool: Pool) -> Said:
    known = pool.jobs.get(fact.demand.job)
    rank = class_text(pool, known.id, known.priority) if known is not None else fact.demand.priority_class or "default class"
    return Said("job submitted", fact.demand.job, f"{demand_text(fact.demand)}, {rank}")


@tells(facts.JobCancelled)
def _job_cancelled(fact: facts.JobCancelled, _pool: Pool) -> Said:
    return Said("cancel asked", fact.job, fact.reason, "warn")


@tells(facts.JobScaled)
def _job_scaled(fact: facts.JobScaled, _pool: Pool) -> Said:
    least = f"at least {fact.min_tasks} together" if fact.min_tasks is not None else ""
    group = f"of group {fact.group}" if fact.group else ""
    return Said("scale asked", fact.job, _joined(count_text(fact.tasks, "task") + (f" {group}" if group else ""), least))


@tells(facts.JobReclassified)
def _job_reclassified(fact: facts.JobReclassified, _pool: Pool) -> Said:
    return Said("class changed", fact.job, f"to {fact.priority_class}")


@tells(facts.JobEvictionAsked)
def _job_eviction_asked(fact: facts.JobEvictionAsked, _pool: Pool) -> Said:
    return Said("eviction asked", fact.job, fact.reason, "warn")


@tells(facts.JobPaused)
def _job_paused(fact: facts.JobPaused, _pool: Pool) -> Said:
    return Said("job paused", fact.job, fact.reason, "warn")


@tells(facts.JobUnpaused)
def _job_unpaused(fact: facts.JobUnpaused, _pool: Pool) -> Said:
    return Said("job goes on", fact.job, _joined("through the queue", fact.reason), "good")


@tells(facts.JobMigrationAsked)
def _job_migration_asked(fact: facts.JobMigrationAsked, _pool: Pool) -> Said:
    return Said("move asked", fact.job, _joined(f"to {fact.node}" if fact.node else "to other nodes", fact.reason))


@tells(facts.NodeDrained)
def _node_drained(fact: facts.NodeDrained, _pool: Pool) -> Said:
    within = f"within {duration_text(fact.deadline)}" if fact.deadline is not None else ""
    more = _joined(f"nothing new is placed there, {DRAINS[fact.mode]}", within, fact.reason)
    return Said("node drained", fact.node, more, "warn")


DRAINS = {
    "graceful": "its jobs may finish",
    "quick": "its jobs leave now",
    "fast": "its jobs leave now, with the short grace",
}


@tells(facts.NodeUndrained)
def _node_undrained(fact: facts.NodeUndrained, _pool: Pool) -> Said:
    return Said("node undrained", fact.node, _joined("it takes work again", fact.reason), "good")


@tells(facts.NodeReplaced)
def _node_replaced(fact: facts.NodeReplaced, _pool: Pool) -> Said:
    return Said("node replaced", fact.node, f"machine {fact.machine_id} may take the name", "warn")


@tells(facts.NodeReturned)
def _node_returned(fact: facts.NodeReturned, _pool: Pool) -> Said:
    return Said("trusted again", fact.node or "all nodes", "silence is judged again", "good")


# --- nodes


@tells(facts.NodeJoined)
def _node_joined(fact: facts.NodeJoined, _pool: Pool) -> Said:
    models: dict[str, int] = {}
    for device in fact.devices:
        models[device.model] = models.get(device.model, 0) + 1
    gpus = ", ".join(f"{count} × {model}" for model, count in models.items()) or "no GPU"
    sick = sum(not device.healthy for device in fact.devices)
    room = f"{thousandths_text(fact.cpu_milli)} CPU, {memory_text(fact.memory_bytes)}"
    return Said("node joined", fact.node, _joined(gpus, room, f"{count_text(sick, 'device')} unhealthy" if sick else ""), "good")


@tells(facts.NodeRefused)
def _node_refused(fact: facts.NodeRefused, _pool: Pool) -> Said:
    advice = f"bailiff node replace {fact.node} {fact.machine_id}"
    return Said("node refused", fact.node, f"machine {fact.machine_id}: {fact.reason} (to allow it: {advice})", "bad")


@tells(facts.NodeUnreachable)
def _node_unreachable(fact: facts.NodeUnreachable, _pool: Pool) -> Said:
    heard = time_text(fact.last_heard)[11:19]
    return Said("node unreachable", fact.node, f"last heard {heard}; nothing new is placed there", "warn")


@tells(facts.NodeReachable)
def _node_reachable(fact: facts.NodeReachable, _pool: Pool) -> Said:
    return Said("node reachable", fact.node, "it speaks again", "good")


@tells(facts.NodeLost)
def _node_lost(fact: facts.NodeLost, _pool: Pool) -> Said:
    heard = time_text(fact.last_heard)[11:19]
    return Said("node lost", fact.node, f"last heard {heard}; its lease is over, its jobs have ended", "bad")


@tells(facts.ReportsStale)
def _reports_stale(fact: facts.ReportsStale, _pool: Pool) -> Said:
    shown = ", ".join(fact.nodes[:5]) + (" …" if len(fact.nodes) > 5 else "")
    more = f"{shown}; none counts as lost until an operator says: bailiff node return"
    return Said("reports stale", count_text(len(fact.nodes), "node"), more, "bad")


# --- devices


@tells(facts.DeviceQuarantined)
def _device_quarantined(fact: facts.DeviceQuarantined, _pool: Pool) -> Said:
    seen = f"{memory_text(fact.reading.memory_used)} and {count_text(fact.reading.processes, 'process')} on it"
    left = f"left so by {fact.job}/{fact.task}" if fact.job is not None else ""
    return Said("device quarantined", f"{fact.node} {fact.device}", _joined(fact.detail or fact.reason, seen, left), "bad")


@tells(facts.DeviceClearRequested)
def _device_clear_requested(fact: facts.DeviceClearRequested, _pool: Pool) -> Said:
    return Said("clear asked", f"{fact.node} {fact.device}", fact.reason, "warn")


@tells(facts.DeviceCleared)
def _device_cleared(fact: facts.DeviceCleared, _pool: Pool) -> Said:
    how = f"as asked in #{fact.asked}" if fact.asked is not None else "it was seen free"
    return Said("device cleared", f"{fact.node} {fact.device}", f"{how}; it is given out again", "good")


@tells(facts.DeviceUnhealthy)
def _device_unhealthy(fact: facts.DeviceUnhealthy, _pool: Pool) -> Said:
    what = f"Xid {fact.code}" if fact.code is not None else fact.reason
    return Said("device unhealthy", f"{fact.node} {fact.device}", _joined(what, fact.detail, "it is out of use"), "bad")


@tells(facts.DeviceHealthy)
def _device_healthy(fact: facts.DeviceHealthy, _pool: Pool) -> Said:
    return Said("device healthy", f"{fact.node} {fact.device}", _joined(fact.detail, "it is given out again"), "good")


# --- tasks


def _task(fact: facts.TaskFact) -> str:
    return f"{fact.job}/{fact.task}"


def _on(fact: facts.TaskFact, *more: str) -> str:
    return _joined(f"on {fact.node}", f"attempt {fact.attempt}" if fact.attempt > 1 else "", *more)


@tells(facts.TaskStarted)
def _task_started(fact: facts.TaskStarted, _pool: Pool) -> Said:
    return Said("task started", _task(fact), _on(fact), "good")


@tells(facts.TaskStartRefused)
def _task_start_refused(fact: facts.TaskStartRefused, _pool: Pool) -> Said:
    return Said("start refused", _task(fact), _on(fact, fact.reason), "bad")


@tells(facts.TaskExited)
def _task_exited(fact: facts.TaskExited, _pool: Pool) -> Said:
    how = "unseen" if fact.unseen else f"exit code {fact.exit_code}" if fact.exit_code >= 0 else f"by signal {-fact.exit_code}"
    last = f"its last step {fact.step}" if fact.step is not None else ""
    return Said("task exited", _task(fact), _on(fact, how, fact.reason, last), "" if fact.exit_code == 0 else "warn")


@tells(facts.TaskProgressed)
def _task_progressed(fact: facts.TaskProgressed, _pool: Pool) -> Said:
    of = f" of {fact.total}" if fact.total is not None else ""
    step = f"step {fact.step}{of}" if fact.step is not None else ""
    ago = f"{duration_text(fact.ago)} ago" if fact.ago >= SECOND else ""
    saved = f"checkpoint of {checkpoint_text(fact.checkpoint)}" if fact.checkpoint is not None else ""
    return Said("progress", _task(fact), _on(fact, step, saved, ago), "quiet")


@tells(facts.TaskResumed)
def _task_resumed(fact: facts.TaskResumed, _pool: Pool) -> Said:
    source = f"saved by attempt {fact.from_attempt}" if fact.from_attempt is not None else "from the beginning"
    damaged = f"{count_text(fact.passed_over, 'damaged checkpoint')} passed over" if fact.passed_over else ""
    more = _on(fact, f"at step {fact.step}", source, f"{count_text(fact.steps_lost, 'step')} lost", damaged)
    return Said("task resumed", _task(fact), more, "warn" if fact.passed_over else "good")


def checkpoint_text(checkpoint: facts.Checkpoint) -> str:
    """`step 120, 256MiB in 0.8s`."""
    alone = "" if checkpoint.agreed else ", without its gang's agreement"
    size = memory_text(checkpoint.bytes)
    return f"step {checkpoint.step}, {size} in {duration_text(checkpoint.microseconds)}{alone}"


@tells(facts.TaskReleased)
def _task_released(fact: facts.TaskReleased, pool: Pool) -> Said:
    dirty = sum(_is_quarantined(pool, fact.node, reading.device) for reading in fact.after)
    free = len(fact.after) - dirty
    seen = f"{count_text(free, 'device')} seen free" if free else "" if dirty else "its room is free"
    return Said("task released", _task(fact), _on(fact, seen, f"{dirty} quarantined" if dirty else ""))


def _is_quarantined(pool: Pool, name: str, device: str) -> bool:
    node = pool.nodes.get(pool.node_numbers.get(name, -1))
    return node is not None and any(node.quarantined >> each.number & 1 for each in node.devices if each.id == device)


@tells(facts.ShareExceeded)
def _share_exceeded(fact: facts.ShareExceeded, _pool: Pool) -> Said:
    more = f"{memory_text(fact.used_bytes)} of {fact.device}, its share is {memory_text(fact.share_bytes)}"
    return Said("over its share", _task(fact), _on(fact, more), "warn")


@tells(facts.TaskIdle)
def _task_idle(fact: facts.TaskIdle, _pool: Pool) -> Said:
    if not fact.idle:
        return Said("task works again", _task(fact), _on(fact, "its GPUs are busy"), "good")
    return Said("task idle", _task(fact), _on(fact, f"its GPUs have done nothing for {duration_text(fact.lasted)}"), "warn")


@tells(facts.TaskVanished)
def _task_vanished(fact: facts.TaskVanished, _pool: Pool) -> Said:
    return Said("task vanished", _task(fact), _on(fact, "the node does not hold it any more; its exit is unknown"), "bad")


STAGES: dict[facts.EvictionStage, str] = {
    "noticed": "was told",
    "acknowledged": "acknowledged",
    "step_confirmed": "will save together",
    "step_agreed": "is to save together",
    "checkpoint_started": "saves",
    "saving_in_flight": "has a save in flight",
    "checkpoint_committed": "has saved",
    "yielding": "leaves by itself",
    "term_sent": "was sent TERM",
    "kill_sent": "was sent KILL",
}
STUCK: dict[facts.EvictionStage, str] = {
    "noticed": "never acknowledged",
    "acknowledged": "acknowledged and did not save",
    "step_confirmed": "its gang did not come to agree on a step",
    "step_agreed": "did not come to the step agreed on",
    "checkpoint_started": "its checkpoint was not committed",
    "saving_in_flight": "its save in flight was not committed",
    "checkpoint_committed": "saved and did not leave",
    "yielding": "said that it leaves and did not",
    "term_sent": "did not leave on TERM",
    "kill_sent": "did not leave on KILL",
}


@tells(facts.EvictionStaged)
def _eviction_staged(fact: facts.EvictionStaged, _pool: Pool) -> Said:
    after = f"{duration_text(fact.after)} after the notice" if fact.after else ""
    return Said("eviction", _task(fact), _joined(STAGES[fact.stage], _on(fact, *stage_facts(fact), after)), "evict")


def stage_facts(stage: facts.Stage) -> list[str]:
    """What is to be said about a stage beside its name and time."""
    told = [f"step {stage.step}"] if stage.step is not None and stage.checkpoint is None else []
    told += [checkpoint_text(stage.checkpoint)] if stage.checkpoint is not None else []
    told += [STUCK[stage.stuck_in]] if stage.stuck_in is not None else []
    if stage.hard is not None:
        term = f"TERM after {duration_text(stage.soft or 0)}" if stage.attached else "knows of no notices: TERM at once"
        told.append(f"{term}, KILL after {duration_text(stage.hard)}")
    return told


@tells(facts.TaskSpared)
def _task_spared(fact: facts.TaskSpared, _pool: Pool) -> Said:
    return Said("spared", _task(fact), _on(fact, "runs on"), "good")


@tells(facts.SpareRefused)
def _spare_refused(fact: facts.SpareRefused, _pool: Pool) -> Said:
    return Said("spare came too late", _task(fact), _on(fact, "the eviction stands"), "warn")


# --- proposals and progress


@tells(facts.ProposalReceived)
def _proposal_received(fact: facts.ProposalReceived, _pool: Pool) -> Said:
    found = [
        f"#{answer.request} {answer.job}: {answer.refused or f'{len(answer.victims)} to leave'}" for answer in fact.answers[:4]
    ]
    if len(fact.answers) > len(found):
        found.append(f"and {len(fact.answers) - len(found)} more")
    return Said("proposal", f"selection {fact.number}", f"computed at #{fact.computed_at}; {', '.join(found)}")


@tells(facts.EvictionBegun)
def _eviction_begun(fact: facts.EvictionBegun, _pool: Pool) -> Said:
    return Said("eviction begins", fact.job, f"decided at #{fact.decided}; its nodes are told", "evict")


@tells(facts.PlanGivenUp)
def _plan_given_up(fact: facts.PlanGivenUp, _pool: Pool) -> Said:
    return Said("plan given up", f"plan #{fact.plan}", f"nobody needs to leave: {fact.reason}", "good")


# --- decisions


@tells(decisions.JobPlaced)
def _job_placed(decision: decisions.JobPlaced, pool: Pool) -> Said:
    places = places_text(pool, decision.placement)
    again = f"attempt {decision.attempt}" if decision.attempt > 1 else ""
    if decision.reserved:
        until = _until(pool, decision.expires, "held until")
        return Said("job reserved", decision.job, _joined(f"→ {places}", again, "room is on its way out", until))
    return Said("job placed", decision.job, _joined(f"→ {places}", again), "good")


@tells(decisions.JobGrown)
def _job_grown(decision: decisions.JobGrown, pool: Pool) -> Said:
    more = count_text(sum(len(numbers(share.tasks)) for share in decision.placement), "task")
    places = places_text(pool, decision.placement)
    if decision.reserved:
        return Said("job grows", decision.job, _joined(f"{more} more → {places}", "room is on its way out"))
    return Said("job grows", decision.job, f"{more} more → {places}", "good")


@tells(decisions.JobShrunk)
def _job_shrunk(decision: decisions.JobShrunk, _pool: Pool) -> Said:
    lost = f"lost {cost_text(decision.lost_gpu_ms)}" if decision.lost_gpu_ms else ""
    return Said(
        "job shrank", _members(decision.job, decision.tasks), _joined(f"it goes on without: {decision.cause}", lost), "warn"
    )


@tells(decisions.JobStartOrdered)
def _job_start_ordered(decision: decisions.JobStartOrdered, _pool: Pool) -> Said:
    return Said("job starts", _members(decision.job, decision.tasks), "all of its reserved room is free", "good")


REASONS = {
    "expired": "it waited too long for the room",
    "cancelled": "the job was cancelled",
    "room-gone": "the room is not there any more",
    "given-up": "the plan behind it was given up",
    "preempted": "a job of higher priority takes the room",
    "scaled": "the job does not ask for it any more",
    "policy": "the policy in force does not allow it",
    "paused": "the job was paused",
    "asked": "somebody asked for it",
    "drain": "the node is being emptied",
}


@tells(decisions.ReservationDropped)
def _reservation_dropped(decision: decisions.ReservationDropped, _pool: Pool) -> Said:
    plan = f"plan #{decision.plan}" if decision.plan is not None else ""
    who = _members(decision.job, decision.tasks)
    return Said("reservation dropped", who, _joined(REASONS[decision.reason], plan), "warn")


@tells(decisions.JobWaits)
def _job_waits(decision: decisions.JobWaits, _pool: Pool) -> Said:
    return Said("job waits", decision.job, decision.reason)


@tells(decisions.JobAged)
def _job_aged(decision: decisions.JobAged, _pool: Pool) -> Said:
    now = f"counts with {decision.effective} instead of {decision.priority}"
    if decision.effective == decision.priority:
        now = f"counts with {decision.priority} again"
    return Said("job aged", decision.job, _joined(now, decision.reason))


TIMED_OUT = {"report": "it waits on", "fail": "it ends", "pass": "smaller jobs may pass it"}


@tells(decisions.ScheduleTimedOut)
def _schedule_timed_out(decision: decisions.ScheduleTimedOut, _pool: Pool) -> Said:
    waited = f"no place for {duration_text(decision.waited)}: {TIMED_OUT[decision.then]}"
    return Said("waits too long", decision.job, _joined(waited, decision.reason), "warn")


@tells(decisions.PreemptionRequested)
def _preemption_requested(decision: decisions.PreemptionRequested, _pool: Pool) -> Said:
    rank = f"{decision.class_name} {decision.priority}"
    return Said("preemption asked", _members(decision.job, decision.tasks), f"({rank}) {decision.reason}", "preempt")


@tells(decisions.PreemptionDecided)
def _preemption_decided(decision: decisions.PreemptionDecided, pool: Pool) -> Sequence[Said]:
    asker = decision.asker
    places = places_text(pool, decision.placement)
    if not decision.victims:
        more = _joined(f"for {asker.job}: room appeared, it takes {places}", _left_alone(decision))
        return [Said("preemption decided", "nobody leaves", more, "preempt")]
    told = []
    for choice in decision.victims:
        sides = _sides(decision, choice, pool)
        action = f"move to {places_text(pool, choice.moved)}" if choice.moved else "un-reserve" if choice.reserved else "evict"
        if choice.moved and not choice.goes_on:
            action = f"evict, of these {action}"
        loses = "" if choice.reserved else f"loses {cost_text(choice.lost_gpu_ms)}"
        who = f"{_members(choice.job, choice.tasks)} → {action}"
        told.append(Said("preemption decided", who, _joined(f"for {asker.job} {sides}", loses), "preempt"))
    if len(told) > 1 or decision.dropped or decision.spared:
        told.append(Said("", "", _joined(_sum(decision.victims), f"{asker.job} gets {places}", _left_alone(decision)), "preempt"))
    return told


def _sides(decision: decisions.PreemptionDecided, choice: VictimChoice, pool: Pool) -> str:
    """Why this side yields to that one: by priority, or by what their projects are due."""
    asker = decision.asker
    if decision.verb == "reclaim":
        return f"(reclaim: {asker.project or 'no project'} is due it, {choice.project or 'no project'} is over its share)"
    if decision.verb == "consolidate":
        return "(consolidate: nobody stops for good)"
    rank = f"{choice.class_name} {choice.priority}" if choice.class_name else class_text(pool, choice.job, choice.priority)
    return f"({asker.class_name} {asker.priority} > {rank})"


def _members(job: str, tasks: str) -> str:
    """`train-7`, or `train-7/4-7` where only some of its tasks are meant."""
    return f"{job}/{tasks}" if tasks else job


def _sum(victims: Sequence[VictimChoice]) -> str:
    lost = sum(choice.lost_gpu_ms for choice in victims if not choice.reserved)
    jobs = dict.fromkeys(choice.job for choice in victims)
    return f"{count_text(len(jobs), 'job')} in all, {cost_text(lost)} lost"


def _left_alone(decision: decisions.PreemptionDecided) -> str:
    dropped = f"not needed any more: {', '.join(decision.dropped)}" if decision.dropped else ""
    return _joined(dropped, f"spared: {', '.join(decision.spared)}" if decision.spared else "")


REFUSALS = {
    "impossible": "no set of jobs that may be evicted makes room",
    "gave-up": "the search used up its steps",
    "stale": "the answer was out of date",
    "not-needed": "nobody needs to leave for it",
}


@tells(decisions.PreemptionRefused)
def _preemption_refused(decision: decisions.PreemptionRefused, pool: Pool) -> Said:
    need = f"it would need: {needs}" if (needs := needs_text(decision)) else ""
    why = decision.explanation
    groups = [(f"{tried.verb}: ", tried.excluded) for tried in why.tried]
    groups.append((f"{decision.verb}: " if groups else "", why.excluded))
    excluded = "; ".join(under + ", ".join(f"{each.jobs} {each.rule}" for each in group) for under, group in groups if group)
    more = _joined(REFUSALS[decision.reason], need, f"left out: {excluded}" if excluded else "")
    return Said("preemption refused", decision.asker.job, _joined(more, _until(pool, decision.retry_at, "asks again")), "warn")


@tells(decisions.SelectionTimedOut)
def _selection_timed_out(decision: decisions.SelectionTimedOut, pool: Pool) -> Said:
    again = _until(pool, decision.retry_at, "asked again")
    more = _joined("victim selection did not answer in time", f"failure {decision.failures}", again)
    return Said("selection timed out", f"selection {decision.number}", more, "warn")


CAUSES = {
    "cancelled": "cancelled",
    "gang-failure": "another task of the gang failed",
    "stale-gang": "the gang lacks a member that it needs",
    "scaled": "the job asks for fewer tasks",
    "policy": "the policy in force would not have admitted it",
    "time-limit": "it has run for as long as it may",
    "paused": "it is paused",
    "asked": "by hand",
    "drain": "its node is being emptied",
    "device": "a GPU broke under it",
    "over-share": "it uses more of a GPU than its share",
}


@tells(decisions.EvictionDecided)
def _eviction_decided(decision: decisions.EvictionDecided, _pool: Pool) -> Said:
    grace = f"grace {duration_text(decision.grace)}"
    who = _members(decision.job, decision.tasks)
    return Said("eviction decided", who, _joined(CAUSES[decision.cause], decision.reason, grace), "evict")


@tells(decisions.JobIdle)
def _job_idle(decision: decisions.JobIdle, _pool: Pool) -> Said:
    follows = {"warn": "it goes on", "pause": "it is paused"}[decision.then]
    return Said("job idle", decision.job, f"its GPUs have done nothing for {duration_text(decision.lasted)}: {follows}", "warn")


@tells(decisions.DrainDue)
def _drain_due(decision: decisions.DrainDue, _pool: Pool) -> Said:
    return Said("drain due", decision.node, "its deadline is over: what is still there leaves", "warn")


@tells(decisions.MigrationDecided)
def _migration_decided(decision: decisions.MigrationDecided, pool: Pool) -> Said:
    more = _joined(decision.reason, f"grace {duration_text(decision.grace)}", _until(pool, decision.expires, "kept until"))
    what = "job moves" if decision.cause == "migration" else "job starts again"
    return Said(what, f"{decision.job} → {places_text(pool, decision.placement)}", more, "evict")


@tells(decisions.MigrationRefused)
def _migration_refused(decision: decisions.MigrationRefused, _pool: Pool) -> Said:
    return Said("move refused", decision.job, f"it stays: {decision.reason}", "warn")


@tells(decisions.EvictionStuck)
def _eviction_stuck(decision: decisions.EvictionStuck, _pool: Pool) -> Said:
    who = _members(decision.job, decision.tasks)
    return Said("eviction stuck", who, "its GPUs did not come free in time and count as taken until they do", "bad")


@tells(decisions.EvictionWithdrawn)
def _eviction_withdrawn(decision: decisions.EvictionWithdrawn, _pool: Pool) -> Said:
    told = "its nodes are asked to confirm" if decision.told else "nobody had been told"
    return Said("eviction withdrawn", _members(decision.job, decision.tasks), _joined(decision.reason, told), "good")


@tells(decisions.JobRequeued)
def _job_requeued(decision: decisions.JobRequeued, pool: Pool) -> Said:
    lost = f"lost {cost_text(decision.lost_gpu_ms)}" if decision.lost_gpu_ms else ""
    later = _until(pool, decision.not_before or None, "not before")
    how = f"attempt {decision.attempt} {decision.outcome}"
    return Said("job requeued", decision.job, _joined(f"{how}: {decision.cause}", lost, later), "warn")


def how_it_ended(decision: decisions.JobEnded) -> str:
    """What there is to say of a job's end beside its outcome."""
    codes = ", ".join(f"task {task}: {code}" for task, code in list(decision.exit_codes.items())[:4] if code)
    return _joined(decision.reason, f"exit codes {codes}" if codes else "")


@tells(decisions.JobEnded)
def _job_ended(decision: decisions.JobEnded, _pool: Pool) -> Said:
    more = _joined(decision.outcome, how_it_ended(decision))
    return Said("job ended", decision.job, more, "good" if decision.outcome == "succeeded" else "bad")
