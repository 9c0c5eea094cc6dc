"""`bailiff.node-reports`: what agents say, taken only from the incarnation that joined, each number once."""

from dataclasses import dataclass, field
from typing import Any

from bailiff_bus.messages import (
    DeviceReport,
    EvictionStageReached,
    NodeAnnounced,
    NodeHeartbeat,
    ReportBody,
    TaskEnded,
    TaskHasProgressed,
    TaskHasResumed,
    TaskHeld,
    TaskIsIdle,
    TaskIsReleased,
    TaskIsRunning,
    TaskNotSpared,
    TaskNotStarted,
    TaskOverShare,
    TaskWasSpared,
)
from bailiff_bus.messages.reports import TaskReport
from bailiff_core.model.pool import Job, Node, Pool, Task
from bailiff_core.records.facts import (
    EvictionStage,
    EvictionStaged,
    NodeJoined,
    NodeRefused,
    ShareExceeded,
    SpareRefused,
    Stage,
    TaskExited,
    TaskIdle,
    TaskProgressed,
    TaskReleased,
    TaskResumed,
    TaskSpared,
    TaskStarted,
    TaskStartRefused,
    TaskVanished,
)
from bailiff_core.records.payload import Fact

from .devices import facts_of_device, facts_of_dirty

_OLD_STAGES: tuple[EvictionStage, ...] = ("noticed", "term_sent", "kill_sent")  # all that an agent of an earlier release tells


@dataclass(slots=True)
class ReportNumbers:
    """The newest report number taken of each incarnation, to drop repeats and notice gaps. Rebuilt after a restart.

    A gap stays one until the missing report comes after all, or an announcement, which says everything.
    """

    newest: dict[str, int] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)

    def take(self, report: ReportBody, joined: Node | None) -> str:
        """`next`, `repeat`, or `gap`. joined: the node, where this incarnation is the one that joined.

        Of an incarnation that this writer has not heard of before, the count begins with the first report after the
        announcement that the log knows.
        """
        known = self.newest.get(report.incarnation)
        oldest_repeat = known if known is not None else joined.last_report if joined is not None else -1
        if isinstance(report, NodeHeartbeat):
            return "next" if known is None or report.number <= known else "gap"
        if report.number <= oldest_repeat:
            return "repeat"
        if isinstance(report, NodeAnnounced):
            self.announced.add(report.incarnation)
        elif known is not None and report.number > known + 1:
            return "gap"
        self.newest[report.incarnation] = report.number
        return "next"

    def complete(self, report: ReportBody) -> bool:
        """Whether the incarnation has announced itself to this writer: what an earlier one missed is not known."""
        return report.incarnation in self.announced


def facts_of_report(pool: Pool, report: ReportBody) -> list[Fact]:
    """Facts that the report adds to the state; none for heartbeats and for what is known or out of date."""
    if isinstance(report, NodeAnnounced):
        return _announced(pool, report)
    node = joined_node(pool, report)
    if node is not None and isinstance(report, DeviceReport):
        return facts_of_device(node, report)
    if node is None or not isinstance(report, TaskReport):
        return []
    found = _task(pool, node, report.job, report.attempt, report.task)
    if found is None or _about_an_earlier_start(found[1], report):
        return []
    return _task_facts(*found, node, report)


def joined_node(pool: Pool, report: ReportBody) -> Node | None:
    """The node whose present incarnation sent the report."""
    number = pool.node_numbers.get(report.node)
    node = pool.nodes[number] if number is not None else None
    return node if node is not None and node.incarnation == report.incarnation else None


def _task(pool: Pool, node: Node, name: str, attempt: int, index: int) -> tuple[Job, Task] | None:
    job = pool.jobs.get(name)
    task = job.task(index) if job is not None and job.attempt == attempt else None
    if job is None or task is None or task.node != node.number or task.state in ("reserved", "released"):
        return None
    return job, task


def _about_an_earlier_start(task: Task, report: TaskReport | TaskHeld) -> bool:
    """Whether a member of that number left since, and the report is still about that one."""
    return report.order is not None and task.start_seq is not None and report.order < task.start_seq


def _task_facts(job: Job, task: Task, node: Node, report: TaskReport) -> list[Fact]:
    at: dict[str, Any] = {"job": job.id, "attempt": job.attempt, "task": task.index, "node": node.name}
    sparing = any(eviction is not None and eviction.spare_seq is not None for eviction in (job.eviction, task.eviction))
    match report:
        case TaskIsRunning() if task.state == "starting":
            return [TaskStarted(**at)]
        case TaskNotStarted() if task.state == "starting":
            return [TaskStartRefused(**at, reason=report.reason)]
        case EvictionStageReached() if _is_new(task, report):
            return [_staged(at, report)]
        case TaskHasProgressed() if task.state in ("starting", "running") and _is_news(task, report):
            said = {name: getattr(report, name) for name in ("step", "total", "pace", "checkpoint", "ago")}
            return [TaskProgressed(**at, **said)]
        case TaskHasResumed() if task.state in ("starting", "running") and task.resumed is None:
            lost = 0 if job.step is None else max(0, job.step + 1 - report.step)
            said = {name: getattr(report, name) for name in ("step", "from_attempt", "passed_over")}
            return [TaskResumed(**at, **said, steps_lost=lost)]
        case TaskEnded() if task.state in ("starting", "running"):
            return [_exit(at, report.exit_code, report)]
        case TaskIsReleased():
            readings = {"before": report.before, "after": report.after}
            hosts = {"host_before": report.host_before, "host_after": report.host_after}
            return [TaskReleased.model_validate({**at, **readings, **hosts})]
        case TaskOverShare() if task.state == "running":
            over = {"device": report.device, "used_bytes": report.used_bytes, "share_bytes": report.share_bytes}
            return [ShareExceeded.model_validate({**at, **over})]
        case TaskIsIdle() if task.state == "running" and report.idle != (task.idle_since is not None):
            return [TaskIdle(**at, idle=report.idle, lasted=report.lasted)]
        case TaskWasSpared() if sparing and not task.spared:
            return [TaskSpared(**at)]
        case TaskNotSpared() if sparing:
            return [SpareRefused(**at)]
    return []


def _is_new(task: Task, stage: Stage) -> bool:
    """Whether the log does not know it yet. A step may be confirmed again: a later one takes the place of the one before."""
    if stage.stage == "step_confirmed" and stage.step is not None:
        return task.confirmed is None or stage.step > task.confirmed
    return stage.stage not in task.reached and not getattr(task, stage.stage, False)


def _is_news(task: Task, report: TaskHasProgressed) -> bool:
    """An agent that was restarted says again what it finds said."""
    saved = report.checkpoint is not None and report.checkpoint.step != task.checkpoint_step
    return saved or (report.step is not None and (task.step is None or report.step > task.step))


def _staged(at: dict[str, Any], stage: Stage) -> EvictionStaged:
    return EvictionStaged(**at, **{name: getattr(stage, name) for name in Stage.model_fields})


def _announced(pool: Pool, report: NodeAnnounced) -> list[Fact]:
    number = pool.node_numbers.get(report.node)
    known = pool.nodes[number] if number is not None else None
    if known is not None and known.machine_id != report.machine_id and known.state != "lost":
        reason = f"{report.node} is machine {known.machine_id}, which has not been lost; an operator has to say otherwise"
        return [NodeRefused(node=report.node, machine_id=report.machine_id, reason=reason)]
    joined = NodeJoined(
        node=report.node,
        number=len(pool.nodes) if number is None else number,
        incarnation=report.incarnation,
        machine_id=report.machine_id,
        boot_id=report.boot_id,
        report=report.number,
        cpu_milli=report.cpu_milli,
        memory_bytes=report.memory_bytes,
        max_tasks=report.max_tasks,
        labels=report.labels,
        devices=report.devices,
        checkpoints=report.checkpoints,
    )
    dirty = facts_of_dirty(known, report)
    if known is None:
        return [joined, *dirty]
    return [joined, *dirty, *_reconciled(pool, known, report)]


def _reconciled(pool: Pool, node: Node, report: NodeAnnounced) -> list[Fact]:
    """What the inventory says beyond the log: tasks that started, ended or are not there any more."""
    held = {(entry.job, entry.attempt, entry.task): entry for entry in report.tasks}
    rebooted = node.boot_id != report.boot_id or node.machine_id != report.machine_id
    facts: list[Fact] = []
    for job in pool.active_jobs():
        for task in job.tasks:
            if task.node != node.number or task.state in ("reserved", "released"):
                continue
            entry = held.get((job.id, job.attempt, task.index))
            if entry is not None and not _about_an_earlier_start(task, entry):
                facts += _caught_up(job, task, node, entry)
            elif task.state != "starting" or rebooted:
                facts.append(TaskVanished(job=job.id, attempt=job.attempt, task=task.index, node=node.name))
    return facts


def _caught_up(job: Job, task: Task, node: Node, entry: TaskHeld) -> list[Fact]:
    at: dict[str, Any] = {"job": job.id, "attempt": job.attempt, "task": task.index, "node": node.name}
    facts: list[Fact] = []
    if task.state == "starting":
        facts.append(TaskStarted(**at))
    told = [stage.stage for stage in entry.stages]
    old = [Stage(stage=name) for name in _OLD_STAGES if getattr(entry, name) and name not in told]
    facts.extend(_staged(at, stage) for stage in (*old, *entry.stages) if _is_new(task, stage))
    if entry.state != "running" and task.state != "exited" and entry.exit_code is not None:
        facts.append(_exit(at, entry.exit_code, entry))
    if entry.state == "released":
        facts.append(TaskReleased(**at))
    return facts


def _exit(at: dict[str, Any], code: int, said: TaskEnded | TaskHeld) -> TaskExited:
    return TaskExited(**at, exit_code=code, reason=said.reason, step=said.step, unseen=said.unseen)


def orphans_of(pool: Pool, report: NodeAnnounced) -> list[TaskHeld]:
    """Tasks that the agent runs and the log does not hold it to: attempts that have ended, or that it has forgotten."""
    found = []
    for entry in report.tasks:
        job = pool.jobs.get(entry.job)
        task = job.task(entry.task) if job is not None and job.attempt == entry.attempt else None
        there = task is not None and task.node == pool.node_numbers.get(report.node)
        current = task is not None and there and task.state not in ("reserved", "released")
        if entry.state != "released" and not current:
            found.append(entry)
    return found
