"""Takes the tasks' messages: stages of evictions are reported at once, progress at intervals."""

import asyncio
from dataclasses import dataclass

from bailiff_bus.messages.reports import TaskProgressReport, TaskResumedReport
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.background import Background
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import Runtime
from bailiff_service.clock_and_ids import ClockAndIds

from .stages import EvictionStages, stage_of
from .task_table import LocalTask, TaskTable


@dataclass(frozen=True, slots=True)
class MessagePump:
    context: AgentContext
    tasks: TaskTable
    stages: EvictionStages
    reporter: Reporter
    background: Background
    clock_and_ids: ClockAndIds

    async def watch(self, runtime: Runtime) -> None:
        """Take messages of this runtime's tasks, without end."""
        while True:
            task = self.tasks.started(await runtime.wait_message())
            if task is not None and task.state == "running":
                self.read(task)

    def read(self, task: LocalTask, *, report: bool = True) -> None:
        """Take the task's new messages. report: whether they are reported, too."""
        runtime, eviction = self.context.runtimes[task.runtime], self.context.evictions.get(str(task.key))
        for message in runtime.messages(task.key, task.messages.newest):
            task.messages.take(message)
            stage = stage_of(message, eviction.notice_boottime_us) if eviction is not None else None
            if stage is not None and "noticed" in task.stages and stage.stage not in task.stages:
                task.stages[stage.stage] = stage
                task.messages.checkpoint_unreported &= stage.checkpoint is None  # it is reported with the stage
                if report:
                    self.stages.report(task, stage)
            if message.type == "resumed" and report:
                self.report_resumed(task)
        confirmed = runtime.steps(task.key).confirmed if eviction is not None and "noticed" in task.stages else None
        before = task.stages.get("step_confirmed")
        if eviction is not None and confirmed is not None and (before is None or confirmed > (before.step or 0)):
            task.stages.pop("step_confirmed", None)  # a rank that was further ahead has raised it
            self.stages.reach(task, eviction, "step_confirmed", report=report, step=confirmed)
        if report:
            self.report_progress(task)

    def published(self, task: LocalTask) -> int | None:
        """The step that the job publishes in shared memory."""
        return self.context.runtimes[task.runtime].steps(task.key).published

    def report_resumed(self, task: LocalTask) -> None:
        """The step from which the task resumed, if it has."""
        if task.messages.resumed is not None and task.state == "running":
            content = task.messages.resumed.content
            known = {name: content[name] for name in ("step", "from_attempt", "skipped_checkpoints")}
            self.reporter.report_task(task.known_as, task.ordered_by, TaskResumedReport, **known)

    def report_progress(self, task: LocalTask) -> None:
        """Report progress now, or once enough time has passed since the last report; only the newest is reported."""
        loop, at = asyncio.get_running_loop(), task.messages.next_report_at()
        if at is None or task.state != "running":
            return
        if at <= loop.time():
            steps = self.context.runtimes[task.runtime].steps(task.key)
            progress = task.messages.take_progress(steps, self.clock_and_ids.boot(), loop.time())
            self.reporter.report_task(task.known_as, task.ordered_by, TaskProgressReport, **progress)
        elif task.messages.report_at is None or at < task.messages.report_at:
            task.messages.report_at = at
            self.background.spawn(self._report_later(task, at - loop.time()))

    async def _report_later(self, task: LocalTask, after_s: float) -> None:
        await asyncio.sleep(after_s)
        task.messages.report_at = None
        self.report_progress(task)
