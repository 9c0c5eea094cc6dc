"""Pending messages of evictions: pure functions from the state to messages."""

from collections.abc import Iterator
from typing import Any

from bailiff_bus.messages.commands import (
    MAX_READERS,
    CancelEviction,
    CheckpointAtStep,
    Evict,
    RecordRef,
    SaveTasks,
    SnapshotForm,
    SnapshotStep,
)
from bailiff_bus.messages.progress import AbandonPreemption, StartEviction
from bailiff_core.actions.fits_now import fits_without_evictions
from bailiff_core.lifecycle.coordinated_checkpoint import common_step
from bailiff_core.model.evictions import active_evictions, evictions_of
from bailiff_core.model.grace import term_after
from bailiff_core.model.job_spec import WORKLOAD_UID
from bailiff_core.model.parking import parked_on
from bailiff_core.model.snapshots import is_saving_over, restore_step, save_step, saved_by, saving_step
from bailiff_core.model.state import Eviction, Job, PoolState, Preemption, Task
from bailiff_core.scheduling_snapshot import current_snapshot

ALIVE = ("starting", "running")
DONE: dict[str, tuple[str, ...]] = {"dump": ("dumped", "save_failed"), "thaw": ("save_failed",), "end": ()}
"""Stages that show that a task has done such a step of its snapshot."""


def pending_progress(state: PoolState) -> Iterator[StartEviction | AbandonPreemption]:
    """Start each eviction that is decided, or abandon its preemption if a last check shows that it is not needed."""
    reasons: dict[int, str | None] = {}
    for entry in active_evictions(state):
        eviction = entry.eviction
        if eviction.started_seq is not None or eviction.cancel_seq is not None:
            continue
        plan = state.preemptions.get(eviction.preemption) if eviction.preemption is not None else None
        if eviction.cause == "preemption" and plan is None:
            continue  # its preemption has ended: admission is about to cancel the eviction
        if plan is not None:
            if plan.seq not in reasons:
                reasons[plan.seq] = not_needed_reason(state, plan)
                reason = reasons[plan.seq]
                if reason is not None:
                    yield AbandonPreemption(preemption=plan.seq, reason=reason)
            if reasons[plan.seq] is not None:
                continue
        yield StartEviction(job=entry.job.id, attempt=entry.job.attempt, decided_by=eviction.decided_seq)


def not_needed_reason(state: PoolState, plan: Preemption) -> str | None:
    """Why a preemption with no started eviction is not needed: the preemptor fits by now. None if it is needed."""
    for name in plan.victims:
        for entry in evictions_of(state.jobs[name]) if name in state.jobs else ():
            if entry.eviction.preemption == plan.seq and entry.eviction.started_seq is not None:
                return None
    if fits_without_evictions(current_snapshot(state).cluster, state, state.jobs[plan.job]):
        return f"{plan.job} fits without evictions"
    return None


def pending_commands(state: PoolState) -> Iterator[Evict | CancelEviction]:
    """Commands to nodes without effect so far: evict for started and shortened evictions, cancel for cancelled ones."""
    for entry in active_evictions(state):
        job, eviction = entry.job, entry.eviction
        if eviction.cancel_seq is not None:
            waiting = [task for task in entry.tasks if not task.eviction_cancelled and task.state not in ("exited", "released")]
            for node, tasks in _by_node(waiting):
                yield CancelEviction(**_common(state, job, node, eviction.cancel_seq), tasks=tasks)
        elif eviction.ordered_seq is not None:
            # An agent that still has tasks when the eviction is stuck may have lost its deadlines: it is told to kill now.
            grace = 0 if eviction.stuck else eviction.grace
            unaware = [task for task in entry.tasks if task.state in ALIVE and not _carries_out(task, eviction)]
            save = saved_by(state, entry)
            for node, tasks in _by_node(unaware):
                yield Evict(
                    **_common(state, job, node, eviction.ordered_seq),
                    tasks=tasks,
                    grace=grace,
                    term_after=None if save == "none" else term_after(state, job, grace),
                    cause=eviction.cause,
                    for_job=eviction.for_job,
                    respect_budgets=state.rules.kubernetes.pdb == "respect",
                    nominated=_nominates(state, eviction, node),
                    save=save,
                    together=save in ("snapshot", "auto") and len(entry.tasks) > 1,
                    park=eviction.parks and save in ("snapshot", "auto"),
                    form=_form(state, node) if save in ("snapshot", "auto") else SnapshotForm(),
                )


def _nominates(state: PoolState, eviction: Eviction, node: int) -> bool:
    """Whether a bridge nominates pods to this node: the preemptor is a workload, and has a place there."""
    job = state.jobs.get(eviction.for_job or "")
    if job is None or WORKLOAD_UID not in job.demand.labels:
        return False
    return any(task.state == "reserved" and task.node == node for task in job.tasks)


def _carries_out(task: Task, eviction: Eviction) -> bool:
    """Whether its node has shown that it stops the task in time."""
    if task.kill_sent:
        return True
    in_time = eviction.shortened_seq is None or task.kill_after is None or task.kill_after <= eviction.grace
    return task.notified and in_time and not eviction.stuck


def pending_checkpoint_steps(state: PoolState) -> Iterator[CheckpointAtStep]:
    """The common checkpoint step of a gang that is evicted as a whole, until every agent has confirmed it."""
    for entry in active_evictions(state):
        begun = entry.eviction.started_seq
        found = common_step(entry) if begun is not None and entry.eviction.cancel_seq is None else None
        if begun is None or found is None:
            continue
        step, agreed = found
        waiting = [
            task
            for task in entry.tasks
            if task.attached and ("step_agreed" not in task.stage_times if agreed else task.confirmed_step != step)
        ]
        for node, tasks in _by_node(waiting):
            yield CheckpointAtStep(**_common(state, entry.job, node, begun), tasks=tasks, step=step, agreed=agreed)


def pending_snapshot_steps(state: PoolState) -> Iterator[SnapshotStep]:
    """What the tasks of gangs do next that their nodes save, or have restored, until every agent has done it."""
    for entry in active_evictions(state):
        begun = entry.eviction.started_seq
        frozen = [task for task in entry.tasks if "frozen" in task.stage_times and task.state in ALIVE]
        if begun is None or not frozen or len(entry.tasks) == 1 or not (step := save_step(entry)):
            continue
        waiting = [task for task in frozen if not any(stage in task.stage_times for stage in DONE[step])]
        for node, tasks in _by_node(waiting):
            yield SnapshotStep(**_common(state, entry.job, node, begun), tasks=tasks, step=step)
    for job in map(state.jobs.__getitem__, state.saving):
        if job.saving_seq is not None and len(job.tasks) > 1 and (step := saving_step(job)):
            for node, tasks in _by_node([task for task in _being_saved(job) if _stands_still(task)]):
                yield SnapshotStep(**_common(state, job, node, job.saving_seq), tasks=tasks, step=step)
    for job in map(state.jobs.__getitem__, state.waiting):
        told = restore_step(job)
        if told == "":
            continue
        waiting = [task for task in job.tasks if task.waits and task.state in ALIVE]
        for seq in sorted({task.start_seq or 0 for task in waiting}):
            for node, tasks in _by_node([task for task in waiting if (task.start_seq or 0) == seq]):
                yield SnapshotStep(**_common(state, job, node, seq), tasks=tasks, step=told)


def pending_saves(state: PoolState) -> Iterator[SaveTasks]:
    """Tasks to save while they run, or are parked, until each is stored or has failed: the agent may have started anew."""
    for job in map(state.jobs.__getitem__, state.parked):
        has_it, kept = parked_on(state, job), job.snapshot
        if has_it is None or kept is None or kept.save_seq is None or kept.save_failed or job.tasks:
            continue
        about = {**_common(state, job, has_it.number, kept.save_seq), "attempt": kept.attempt}
        yield SaveTasks(**about, tasks=tuple(each.task for each in kept.tasks), form=_form(state, has_it.number))
    for job in map(state.jobs.__getitem__, state.saving):
        for node, tasks in _by_node(_being_saved(job)):
            about = _common(state, job, node, job.saving_seq or 0)
            yield SaveTasks(**about, tasks=tasks, together=len(job.tasks) > 1, form=_form(state, node))


def _form(state: PoolState, number: int) -> SnapshotForm:
    """How the node keeps a snapshot: where it is encrypted, those can read it that have its folder, too, itself first."""
    rules, own = state.rules.snapshots, state.nodes[number]
    if not rules.encrypted:
        return SnapshotForm(compressed=rules.compressed)
    store = own.checkpoint_store
    sharing = [each for each in state.nodes.values() if each is not own and store and each.checkpoint_store == store]
    found = [state.enrolled[each.name].encryption_key for each in (own, *sharing) if each.name in state.enrolled]
    return SnapshotForm(compressed=rules.compressed, readers=tuple(dict.fromkeys(found))[:MAX_READERS])


def _being_saved(job: Job) -> list[Task]:
    """Those that are evicted are not saved on their way, or say so by themselves."""
    alive = [task for task in job.tasks if task.state in ALIVE and task.eviction is None]
    return [task for task in alive if not is_saving_over(task)] if job.eviction is None else []


def _stands_still(task: Task) -> bool:
    """As its gang is being saved while it runs."""
    times = task.saving.stage_times if task.saving is not None else {}
    return "frozen" in times and "dumped" not in times


def _by_node(tasks: list[Task]) -> list[tuple[int, tuple[int, ...]]]:
    numbers = dict.fromkeys(task.node for task in tasks)
    return [(number, tuple(task.index for task in tasks if task.node == number)) for number in numbers]


def _common(state: PoolState, job: Job, number: int, seq: int) -> dict[str, Any]:
    node = state.nodes[number]
    return {
        "node": node.name,
        "incarnation": node.incarnation,
        "sender": "executor",
        "sender_epoch": state.epoch,
        "ordered_by": RecordRef(epoch=state.epoch_of(seq), seq=seq),
        "job": job.id,
        "attempt": job.attempt,
    }
