"""Evictions: notice, TERM and KILL at their deadlines, the gang's checkpoint step, and cancellation."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from bailiff_bus.messages.commands import CancelEviction, CheckpointAtStep, Evict, SaveTasks, SnapshotStep
from bailiff_bus.messages.reports import (
    TaskCancelEvictionRefusedReport,
    TaskEvictionCancelledReport,
    TaskReleasedReport,
    TaskStartRefusedReport,
)
from bailiff_core.model.evictions import IRREVERSIBLE_STAGES
from bailiff_core.model.grace import default_term_after
from bailiff_core.records.facts import Stage
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.background import Background
from bailiff_node_agent.devices import read_devices
from bailiff_node_agent.disk import RunningEviction
from bailiff_node_agent.disk.fences import Verdict
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import TaskKey, UnknownTask, pids_of
from bailiff_service.clock_and_ids import ClockAndIds

from .exits import ExitHandler
from .message_pump import MessagePump
from .parking import Parker
from .saving import Saver
from .stages import TERMINATED, EvictionStages, notice_facts, stages_until, stuck_in
from .task_table import LocalTask, TaskTable

JOB_IS_ASKED = ("job", "auto")


@dataclass(frozen=True, slots=True)
class EvictionDriver:
    context: AgentContext
    tasks: TaskTable
    messages: MessagePump
    stages: EvictionStages
    exits: ExitHandler
    reporter: Reporter
    background: Background
    clock_and_ids: ClockAndIds
    saver: Saver
    parker: Parker

    async def evict(self, command: Evict, verdicts: Mapping[int, Verdict]) -> None:
        """Begin the eviction of each task, or report again how far it is."""
        for key, task in self._tasks_of(command, verdicts):
            if task is None:
                order = command.ordered_by.seq
                self.reporter.report_task(key, order, TaskStartRefusedReport, reason="it was evicted before it was started")
                self.reporter.report_task(key, order, TaskReleasedReport)
            elif task.state == "parked" and command.sender == "admission":  # the log does not have it
                self.background.spawn(self.parker.end(task))
            elif task.state != "running":
                self.exits.report_again(task)
            elif self.context.evictions.get(str(task.key)) is None:
                how = {"disruption_budgets": "respect"} if command.respect_budgets else {}
                how |= {"preemptors_pods": "nominated"} if command.nominated else {}
                self._begin(
                    task,
                    command.grace,
                    command.term_after,
                    command.cause,
                    command.for_job,
                    how,
                    {
                        "save": command.save,
                        "together": command.together,
                        "park": command.park,
                        "form": command.form.model_dump_json(),
                    },
                )
            else:
                await self._shorten(task, command.grace, command.term_after)
                for stage in task.stages.values():
                    if stage is not None:
                        self.stages.report(task, stage)

    async def _shorten(self, task: LocalTask, grace: int, term_after: int | None) -> None:
        """Carry out the running eviction within this grace, if that is earlier."""
        async with task.lock:
            known = self.context.evictions.get(str(task.key))
            if known is None or task.state != "running" or grace >= known.grace_us + known.kill_after_us:
                return
            term_us = min(known.grace_us, term_after or 0, grace)
            eviction = replace(known, grace_us=term_us, kill_after_us=grace - term_us)
            self.context.evictions.shorten(eviction)
            if "noticed" in task.stages:
                runtime = self.context.runtimes[task.runtime]
                term_at, kill_at = eviction.term_boottime_us, eviction.kill_boottime_us
                await runtime.deadlines(task.key, kill_at if self.saver.is_saving(task) else term_at, kill_at)
                if TERMINATED not in task.stages and eviction.detail.get("save", "job") in JOB_IS_ASKED:
                    await runtime.notice(task.key, _notice(eviction), term_at, kill_at)
                elapsed = task.stages["noticed"].elapsed if task.stages["noticed"] is not None else 0
                task.stages["noticed"] = Stage(stage="noticed", elapsed=elapsed, **notice_facts(eviction))
        self.background.spawn(self._drive(task, eviction))

    def evict_all(self, grace: int, reason: str) -> None:
        """Every running task whose eviction has not begun, and every parked one, which ends."""
        for task in self.tasks.running():
            if self.context.evictions.get(str(task.key)) is None:
                self._begin(task, grace, default_term_after(grace), reason, None)
        for task in self.tasks:
            if task.state == "parked":
                self.background.spawn(self.parker.end(task))

    def adopt(self) -> None:
        """Load the evictions that earlier agents began; `resume` continues them. Those of unknown tasks are dropped."""
        by_key = {str(task.key): task for task in self.tasks}
        for eviction in self.context.evictions.running():
            if eviction.key in by_key:
                by_key[eviction.key].stages.update(stages_until(eviction))
            else:
                self.context.evictions.end(eviction.key)

    def resume(self, task: LocalTask) -> None:
        """Continue the task's eviction, if an earlier agent has begun one."""
        if task.state == "parked":
            return
        eviction = self.context.evictions.get(str(task.key))
        if eviction is not None:
            self.background.spawn(self._drive(task, eviction))

    def _begin(
        self,
        task: LocalTask,
        grace: int,
        term_after: int | None,
        reason: str,
        preemptor: str | None,
        how: Mapping[str, str] = MappingProxyType({}),
        saving: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.messages.read(task)
        save = saving.get("save", "job")
        steps, attached = self.context.runtimes[task.runtime].steps(task.key), task.messages.attached
        term_us = min(term_after or 0, grace) if attached and save in JOB_IS_ASKED else 0
        eviction = RunningEviction(
            key=str(task.key),
            notice_boottime_us=self.clock_and_ids.boot(),
            grace_us=term_us,
            kill_after_us=grace - term_us,
            stage="begun",
            boot_id=self.context.incarnation.boot_id,
            detail={
                "reason": reason,
                "preemptor": preemptor,
                "attached": attached,
                "step": steps.published,
                "step_rate_milli": steps.pace,
                "how": dict(how),
                **saving,
            },
        )
        self.context.evictions.begin(eviction)
        task.snapshot_step = "thaw"  # of a snapshot while it runs, if one waits for its gang
        task.stepped.set()
        self.background.spawn(self._drive(task, eviction))

    async def _drive(self, task: LocalTask, eviction: RunningEviction) -> None:
        runtime = self.context.runtimes[task.runtime]
        term_at, kill_at = eviction.term_boottime_us, eviction.kill_boottime_us
        try:
            async with task.lock:
                if not self._is_current(task, eviction):
                    return
                if "noticed" not in task.stages:
                    task.before = read_devices(self.context.inventory, task.devices)
                    task.pids = await pids_of(runtime, task.key)
                    await runtime.deadlines(task.key, term_at, kill_at)
                    if task.state != "running":
                        return
                    # As with TERM below: reported before it is delivered, written after it.
                    self.stages.reach(task, eviction, "noticed", write=False, **notice_facts(eviction))
                    if eviction.detail.get("save", "job") in JOB_IS_ASKED:
                        await runtime.notice(task.key, _notice(eviction), term_at, kill_at)
                    self.stages.write(eviction, "noticed")
            await self._sleep_until(term_at)
            if TERMINATED not in task.stages and task.state == "running" and self._is_current(task, eviction):
                if eviction.detail.get("park") and await self.parker.park(task, eviction):
                    return
                outcome = await self.saver.save(task, eviction) if self.saver.is_due(task, eviction) else "failed"
                if outcome == "ended":
                    await self._kill_at(task, eviction)
                if outcome != "failed":
                    return
            async with task.lock:
                if task.state != "running" or not self._is_current(task, eviction):
                    return
                if TERMINATED not in task.stages:
                    # Reported before it is done: the exit that follows must not come before its cause.
                    late: dict[str, Any] = {"stuck_in": stuck_in(task.stages)} if eviction.grace_us else {}
                    self.stages.reach(task, eviction, "term_sent", **late)
                    # Written after it is done: an agent that dies in between sends TERM twice rather than never.
                    await runtime.terminate(task.key, (kill_at - term_at) / 1_000_000)
                    self.stages.terminated(task, eviction)
                if task.waits:  # it stands still, and must not run on
                    self.stages.reach(task, eviction, "kill_sent", stuck_in=stuck_in(task.stages))
                    await runtime.kill(task.key)
            await self._kill_at(task, eviction)
        except UnknownTask:
            return  # it has exited and was forgotten meanwhile

    async def _kill_at(self, task: LocalTask, eviction: RunningEviction) -> None:
        """KILL when it is due."""
        await self._sleep_until(eviction.kill_boottime_us)
        if task.state == "running" and self._is_current(task, eviction):
            self.stages.reach(task, eviction, "kill_sent", stuck_in=stuck_in(task.stages))
            await self.context.runtimes[task.runtime].kill(task.key)

    def _is_current(self, task: LocalTask, eviction: RunningEviction) -> bool:
        """It was not cancelled or shortened meanwhile, nor cancelled and followed by another one."""
        now = self.context.evictions.get(str(task.key))
        return now is not None and (now.notice_boottime_us, now.kill_boottime_us) == (
            eviction.notice_boottime_us,
            eviction.kill_boottime_us,
        )

    async def _sleep_until(self, boot: int) -> None:
        """On the boot-time clock, which counts suspended time; the event loop's may not."""
        while (left := boot - self.clock_and_ids.boot()) > 0:  # noqa: ASYNC110 - a time is awaited, not a condition
            await asyncio.sleep(left / 1_000_000)

    async def cancel(self, command: CancelEviction, verdicts: Mapping[int, Verdict]) -> None:
        """Cancel the eviction of each task that has not begun to stop, and report which."""
        for key, task in self._tasks_of(command, verdicts):
            cancelled = task is not None and await self._cancel(task)
            self.reporter.report_task(
                key, command.ordered_by.seq, TaskEvictionCancelledReport if cancelled else TaskCancelEvictionRefusedReport
            )

    async def _cancel(self, task: LocalTask) -> bool:
        """Withdraw notice and deadlines, unless the task has begun to stop. Whether it was cancelled."""
        async with task.lock:
            self.messages.read(task)
            if task.state != "running" or self.saver.is_saving(task) or any(each in task.stages for each in IRREVERSIBLE_STAGES):
                return False
            runtime = self.context.runtimes[task.runtime]
            try:
                # Before the eviction is forgotten: if the agent dies in between, the command is repeated.
                await runtime.cancel_eviction(task.key)
            except UnknownTask:
                return False
            self.context.evictions.end(str(task.key))
            task.stages.clear()
            task.snapshot_step = ""
            return True

    def checkpoint_at_step(self, command: CheckpointAtStep, verdicts: Mapping[int, Verdict]) -> None:
        """Forward the gang's proposed or agreed step. After the soft deadline each rank saves without agreement."""
        for _, task in self._tasks_of(command, verdicts):
            if task is None or task.state != "running" or "noticed" not in task.stages:
                continue
            eviction = self.context.evictions.get(str(task.key))
            if eviction is None or self.clock_and_ids.boot() >= eviction.term_boottime_us:
                continue
            self.context.runtimes[task.runtime].propose_step(task.key, command.step, agreed=command.agreed)
            if command.agreed:
                self.stages.reach(task, eviction, "step_agreed", step=command.step)

    def save(self, command: SaveTasks, verdicts: Mapping[int, Verdict]) -> None:
        """Save running tasks, which go on. What an earlier agent has begun is given up."""
        for key, task in self._tasks_of(command, verdicts):
            order = command.ordered_by.seq
            if task is not None and task.state == "parked":
                self.background.spawn(self.parker.save(task, order, command.form))
            elif task is not None and task.state == "running" and task.ordered_snapshot != order:
                task.ordered_snapshot = order
                if verdicts[int(key.task)] == "new":
                    self.background.spawn(self.saver.save_running(task, order, command.form, together=command.together))
                else:
                    self.background.spawn(self.saver.give_up(task, order))

    def snapshot_step(self, command: SnapshotStep, verdicts: Mapping[int, Verdict]) -> None:
        """What the snapshot of a gang needs next of these tasks."""
        for _, task in self._tasks_of(command, verdicts):
            if task is not None and task.state == "running":
                task.snapshot_step = command.step
                task.stepped.set()

    def _tasks_of(
        self, command: Evict | CancelEviction | CheckpointAtStep | SaveTasks | SnapshotStep, verdicts: Mapping[int, Verdict]
    ) -> Iterator[tuple[TaskKey, LocalTask | None]]:
        """The command's tasks, except those for which a newer command was obeyed; None: not on this node."""
        for index in command.tasks:
            if verdicts[index] != "stale":
                key = TaskKey(command.job, command.attempt, str(index))
                yield key, self.tasks.get(key)


def _notice(eviction: RunningEviction) -> dict[str, Any]:
    """The notice for the job, without its absolute deadlines.

    disruption_budgets: where they are respected. preemptors_pods: where a pod's runtime is to wait for their nomination.
    """
    total = eviction.grace_us + eviction.kill_after_us
    return {
        "reason": eviction.detail["reason"],
        "preemptor": eviction.detail["preemptor"],
        "soft_s": eviction.grace_us // 1_000_000,
        "hard_s": total // 1_000_000,
        **eviction.detail.get("how", {}),
    }
