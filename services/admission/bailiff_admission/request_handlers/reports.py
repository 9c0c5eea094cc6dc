"""`bailiff.node-reports`: reports of agents; accepted from the joined incarnation only, each number once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bailiff_admission.agent_values import AgentValues
from bailiff_bus.messages import reports
from bailiff_bus.messages.devices import DeviceReport, ShareExceededReport, TaskIdleReport
from bailiff_core.admission.rejected import Rejected
from bailiff_core.admission.reported import parked_job, reported_task
from bailiff_core.fold.chosen_devices import chosen_mask, conflict
from bailiff_core.fold.nodes import device_numbers_after
from bailiff_core.model.snapshots import (
    PARKED_STAGES,
    SAVE_STAGES,
    has_parked,
    is_parked,
    is_saving_over,
    on_disk,
    restore_step,
    work_lost,
)
from bailiff_core.model.state import Job, Node, PoolState, Task
from bailiff_core.records.facts import (
    MAX_DEVICES,
    EvictionStageReached,
    NodeJoined,
    NodeRefused,
    ParkedTaskStageReached,
    ShareExceeded,
    SnapshotStageReached,
    Stage,
    TaskCancelEvictionRefused,
    TaskEvictionCancelled,
    TaskExited,
    TaskIdle,
    TaskProgressed,
    TaskReleased,
    TaskRestored,
    TaskRestoreFailed,
    TaskResumed,
    TaskStarted,
    TaskStartRefused,
    TaskVanished,
)
from bailiff_core.records.payload import Fact

from .attach import facts_of_attachment
from .cordons import facts_of_cordon
from .devices import facts_of_device, facts_of_quarantined


@dataclass(slots=True)
class ReportNumbers:
    """The newest report number of each agent, to drop repeats and detect gaps. Rebuilt after a restart.

    A gap remains until the missing report or an inventory arrives.
    """

    newest: AgentValues[int] = field(default_factory=AgentValues)
    inventoried: AgentValues[bool] = field(default_factory=AgentValues)

    def take(self, state: PoolState, report: reports.ReportBody) -> str:
        """`next`, `repeat`, or `gap`.

        For an incarnation that is new to this writer, numbering starts after the inventory in the log.
        """
        known, joined = self.newest.get(report.node, report.incarnation), joined_node(state, report)
        oldest_repeat = known if known is not None else joined.last_report if joined is not None else -1
        if isinstance(report, reports.NodeHeartbeat):
            return "next" if known is None or report.number <= known else "gap"
        if report.number <= oldest_repeat:
            return "repeat"
        if isinstance(report, reports.NodeInventory):
            self.inventoried.put(state, report.node, report.incarnation, True)
        elif known is not None and report.number > known + 1:
            return "gap"
        self.newest.put(state, report.node, report.incarnation, report.number)
        return "next"

    def complete(self, report: reports.ReportBody) -> bool:
        """Whether the agent has sent this writer an inventory: an earlier writer may have missed reports."""
        return self.inventoried.get(report.node, report.incarnation) is not None


def facts_of_report(state: PoolState, report: reports.ReportBody) -> list[Fact] | Rejected:
    """New facts of the report; none for heartbeats and for known or outdated reports."""
    if isinstance(report, reports.TaskReport) and (beyond := _beyond_log(state, report)):
        return Rejected("beyond-log", f"{report.node} names {beyond}")
    if isinstance(report, reports.NodeInventory):
        return _inventoried(state, report)
    node = joined_node(state, report)
    if node is not None and isinstance(report, DeviceReport):
        return facts_of_device(node, report)
    if node is None or not isinstance(report, reports.TaskReport):
        return []
    about_attachment = facts_of_attachment(state, node, report)
    if about_attachment is not None:
        return about_attachment
    if isinstance(report, reports.SnapshotStageReport):
        parked = parked_job(state, node.name, report.job, report.attempt, report.task)
        if parked is not None:
            return _parked_facts(parked, report)
    found = reported_task(state, node.name, report.job, report.attempt, report.task)
    if found is None or _is_about_earlier_start(found[1], report):
        return []
    if isinstance(report, reports.SnapshotStageReport) and _is_of_no_saving(*found, report):
        return Rejected(
            "not-ordered", f"{report.node} saves {report.job}/{report.task} by #{report.ordered_by}, which orders no snapshot"
        )
    return _task_facts(state, *found, node, report)


def _beyond_log(state: PoolState, report: reports.TaskReport) -> str:
    """What the report names that this log has not ordered yet; empty if there is nothing. After a truncation agents know more."""
    if state.truncation_unreconciled:
        return ""
    if report.ordered_by is not None and report.ordered_by > state.seq:
        return f"the order #{report.ordered_by}, but the log ends at #{state.seq}"
    job = state.jobs.get(report.job)
    if job is not None and report.attempt > job.attempt:
        return f"attempt {report.attempt} of {job.id}, which has had {job.attempt}"
    return ""


def joined_node(state: PoolState, report: reports.ReportBody) -> Node | None:
    """The node whose present incarnation sent the report."""
    number = state.node_numbers.get(report.node)
    node = state.nodes[number] if number is not None else None
    return node if node is not None and node.incarnation == report.incarnation else None


def _is_about_earlier_start(task: Task, report: reports.TaskReport | reports.TrackedTask) -> bool:
    """Whether the report is about an earlier task of the same index."""
    return report.ordered_by is not None and task.start_seq is not None and report.ordered_by < task.start_seq


def _chosen(state: PoolState, node: Node, task: Task, devices: tuple[str, ...]) -> tuple[str, ...]:
    """The devices, where the node may have chosen them and they are others than were allocated."""
    mask = chosen_mask(node, task, devices)
    is_new = mask is not None and mask != task.devices and conflict(state, node, task, mask) is None
    return tuple(sorted(devices)) if is_new else ()


def _task_facts(state: PoolState, job: Job, task: Task, node: Node, report: reports.TaskReport) -> list[Fact]:
    cancelling = any(eviction is not None and eviction.cancel_seq is not None for eviction in (job.eviction, task.eviction))
    match report:
        case reports.TaskStartedReport() if task.state == "starting":
            return [_started(state, job, task, node, report, damaged_checkpoints=report.damaged_checkpoints)]
        case reports.TaskStartRefusedReport() if task.state == "starting":
            return [TaskStartRefused.saying(report)]
        case reports.EvictionStageReport() if _is_new(task, report) or _has_shortened(job, task, report):
            return [EvictionStageReached.saying(report)]
        case reports.SnapshotStageReport() if _is_of_its_saving(job, task, report):
            return [SnapshotStageReached.saying(report)]
        case reports.TaskProgressReport() if task.state in ("starting", "running") and _is_new_progress(task, report):
            return [TaskProgressed.saying(report)]
        case reports.TaskResumedReport() if task.state in ("starting", "running") and task.resumed_step is None:
            lost = 0 if job.step is None else max(0, job.step + 1 - report.step)
            return [TaskResumed.saying(report, steps_lost=lost)]
        case reports.TaskRestoredReport():
            return _restored_facts(job, task, report)
        case reports.TaskRestoreFailedReport():
            return _restore_failed_facts(job, task, report)
        case reports.TaskExitedReport() if task.state in ("starting", "running"):
            return [TaskExited.saying(report)]
        case reports.TaskReleasedReport():
            return [TaskReleased.saying(report)]
        case ShareExceededReport() if task.state == "running":
            return [ShareExceeded.saying(report)]
        case TaskIdleReport() if task.state == "running" and report.idle != (task.idle_since is not None):
            return [TaskIdle.saying(report)]
        case reports.TaskEvictionCancelledReport() if cancelling and not task.eviction_cancelled:
            return [TaskEvictionCancelled.saying(report)]
        case reports.TaskCancelEvictionRefusedReport() if cancelling:
            return [TaskCancelEvictionRefused.saying(report)]
    return []


def _started(
    state: PoolState,
    job: Job,
    task: Task,
    node: Node,
    said: reports.TaskStartedReport | reports.TrackedTask,
    damaged_checkpoints: int = 0,
) -> TaskStarted:
    """The task runs; what it has lost if it does not continue from the job's snapshot."""
    return TaskStarted(
        job=job.id,
        attempt=job.attempt,
        task=task.index,
        node=node.name,
        devices=_chosen(state, node, task, said.devices),
        damaged_checkpoints=damaged_checkpoints,
        not_restored=task.not_restored,
        lost_gpu_ms=work_lost(job, on_disk(job) if task.restores else None) if task.not_restored else 0,
    )


def _restored_facts(job: Job, task: Task, report: reports.TaskRestoredReport) -> list[Fact]:
    """Of a task of a gang first that it waits, then that it continues, once all tasks of the gang were restored."""
    is_next = restore_step(job) == "continue" and not report.waits if task.waits else _is_of_its_snapshot(job, task, report)
    return [TaskRestored.saying(report)] if is_next else []


def _restore_failed_facts(job: Job, task: Task, report: reports.TaskRestoreFailedReport) -> list[Fact]:
    """Not once all tasks of the gang were restored: then they were told to continue."""
    is_next = (restore_step(job) == "anew" and task.waits) or _is_of_its_snapshot(job, task, report)
    return [TaskRestoreFailed.saying(report, lost_gpu_ms=work_lost(job))] if is_next and restore_step(job) != "continue" else []


def _is_of_its_snapshot(job: Job, task: Task, report: reports.TaskRestoredReport | reports.TaskRestoreFailedReport) -> bool:
    """Whether the task was to continue from this snapshot, and the log does not say yet what came of it."""
    is_open = task.restores and not task.restored and task.state in ("starting", "running")
    return is_open and (job.snapshot is None or report.from_attempt == job.snapshot.attempt)


def _parked_facts(job: Job, report: reports.SnapshotStageReport) -> list[Fact]:
    """Of a parked task: how far the snapshot is that was ordered, or that it is gone."""
    assert job.snapshot is not None
    is_ordered = report.ordered_by is not None and report.ordered_by == job.snapshot.save_seq and not job.snapshot.save_failed
    if report.stage not in PARKED_STAGES or (report.stage != "park_lost" and not is_ordered):
        return []
    lost = work_lost(job, on_disk(job)) if report.stage == "park_lost" else 0
    return [ParkedTaskStageReached.saying(report, lost_gpu_ms=lost)]


def _is_of_its_saving(job: Job, task: Task, report: reports.SnapshotStageReport) -> bool:
    """Whether the stage is of the snapshot that is being taken of the job while it runs, and new to the log."""
    if task.saving is None or report.ordered_by != job.saving_seq or is_saving_over(task):
        return False
    return report.stage in SAVE_STAGES and report.stage not in task.saving.stage_times


def _is_of_no_saving(job: Job, task: Task, report: reports.SnapshotStageReport) -> bool:
    """Whether the task stands still to be saved, and no record orders that: somebody may have the executor's key.

    A node says so once for each order, and before the order is over.
    """
    is_ordered = task.saving is not None and report.ordered_by == job.saving_seq
    return report.stage == "frozen" and task.state == "running" and not is_ordered


def _is_new(task: Task, stage: Stage) -> bool:
    """Whether the stage is new to the log. A later step may be confirmed again."""
    if stage.stage == "step_confirmed" and stage.step is not None:
        return task.confirmed_step is None or stage.step > task.confirmed_step
    return stage.stage not in task.stage_times and not getattr(task, stage.stage, False)


def _has_shortened(job: Job, task: Task, stage: Stage) -> bool:
    """Whether the node says that it carries out a shortened grace, which the log has ordered and does not show yet."""
    eviction = task.eviction or job.eviction
    if stage.stage != "noticed" or stage.kill_after is None or eviction is None or eviction.shortened_seq is None:
        return False
    return task.kill_after is not None and stage.kill_after <= eviction.grace < task.kill_after


def _is_new_progress(task: Task, report: reports.TaskProgressReport) -> bool:
    """Whether the report has progress beyond the state; a restarted agent repeats reports."""
    saved = report.checkpoint is not None and report.checkpoint.step != task.checkpoint_step
    return saved or (report.step is not None and (task.step is None or report.step > task.step))


def _inventoried(state: PoolState, report: reports.NodeInventory) -> list[Fact] | Rejected:
    number = state.node_numbers.get(report.node)
    known = state.nodes[number] if number is not None else None
    if known is not None and known.machine_id != report.machine_id and known.state != "lost":
        reason = f"{report.node} is machine {known.machine_id}, which is not lost: an operator must replace the node"
        return [NodeRefused(node=report.node, machine_id=report.machine_id, reason=reason)]
    numbers = 0 if known is None else device_numbers_after(known, [device.id for device in report.devices])
    if numbers > MAX_DEVICES:
        text = f"{report.node} would have {numbers} devices with those that are gone and still in use; at most {MAX_DEVICES}"
        return Rejected("too-many-devices", text)
    joined = NodeJoined.saying(report, number=len(state.nodes) if number is None else number, report_number=report.number)
    dirty, cordon = facts_of_quarantined(known, report), facts_of_cordon(known, report)
    if known is None:
        return [joined, *dirty, *cordon]
    return [joined, *dirty, *cordon, *_reconciled(state, known, report)]


def _reconciled(state: PoolState, node: Node, report: reports.NodeInventory) -> list[Fact]:
    """Facts of the inventory beyond the log: tasks that started, ended or vanished."""
    tracked = {(entry.job, entry.attempt, entry.task): entry for entry in report.tasks}
    rebooted = node.boot_id != report.boot_id or node.machine_id != report.machine_id
    facts: list[Fact] = [*_lost_parked(state, node, tracked)]
    for job in state.active_jobs():
        for task in job.tasks:
            if task.node != node.number or task.state in ("reserved", "released"):
                continue
            entry = tracked.get((job.id, job.attempt, task.index))
            if entry is not None and not _is_about_earlier_start(task, entry):
                facts += _caught_up(state, job, task, node, entry)
            elif task.state != "starting" or rebooted:
                facts.append(TaskVanished(job=job.id, attempt=job.attempt, task=task.index, node=node.name))
    return facts


def _lost_parked(
    state: PoolState, node: Node, tracked: Mapping[tuple[str, int, int], reports.TrackedTask]
) -> Iterator[ParkedTaskStageReached]:
    """Tasks that are parked there by the log, and not by the inventory. Of a job that goes on again, its restart says it."""
    for job in [state.jobs[name] for name in state.parked]:
        kept = job.snapshot
        if kept is None or not is_parked(job) or job.tasks:
            continue
        for each in kept.tasks:
            entry = tracked.get((job.id, kept.attempt, each.task))
            if has_parked(node, each) and (entry is None or not entry.parked):
                yield ParkedTaskStageReached(
                    job=job.id,
                    attempt=kept.attempt,
                    task=each.task,
                    node=node.name,
                    stage="park_lost",
                    reason="its node does not have it any more",
                    lost_gpu_ms=work_lost(job, on_disk(job)),
                )


def _caught_up(state: PoolState, job: Job, task: Task, node: Node, entry: reports.TrackedTask) -> list[Fact]:
    at = {"job": job.id, "attempt": job.attempt, "task": task.index, "node": node.name}
    facts: list[Fact] = []
    if task.state == "starting" and entry.begun:
        facts.append(_started(state, job, task, node, entry))
    new = (stage for stage in entry.stages if _is_new(task, stage) or _has_shortened(job, task, stage))
    facts.extend(EvictionStageReached.saying(stage, **at) for stage in new)
    if entry.state != "running" and task.state != "exited" and entry.exit_code is not None:
        facts.append(TaskExited.saying(entry, node=node.name))
    if entry.state == "released":
        facts.append(TaskReleased.model_validate(at))
    return facts


def orphans_of(state: PoolState, report: reports.NodeInventory) -> list[reports.TrackedTask]:
    """Tasks that the agent tracks and that are not in the log: ended attempts, or lost records."""
    found = []
    for entry in report.tasks:
        job = state.jobs.get(entry.job)
        task = job.task(entry.task) if job is not None and job.attempt == entry.attempt else None
        on_node = task is not None and task.node == state.node_numbers.get(report.node)
        current = task is not None and on_node and task.state not in ("reserved", "released")
        parked = job is not None and job.snapshot is not None and is_parked(job) and job.snapshot.attempt == entry.attempt
        if (entry.parked and not (parked or current)) or (entry.state != "released" and not current):
            found.append(entry)
    return found
