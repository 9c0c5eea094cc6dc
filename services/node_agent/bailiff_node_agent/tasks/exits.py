"""Starts and exits of tasks: reported once when they happen, and again on request."""

from dataclasses import dataclass
from typing import Any

from bailiff_bus.messages.reports import TaskExitedReport, TaskReleasedReport, TaskStartedReport
from bailiff_node_agent.background import Background
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import Exit, Runtime

from .message_pump import MessagePump
from .parking import Parker
from .release import Releaser
from .stages import EvictionStages
from .task_table import LocalTask, TaskTable


@dataclass(frozen=True, slots=True)
class ExitHandler:
    tasks: TaskTable
    messages: MessagePump
    stages: EvictionStages
    releaser: Releaser
    reporter: Reporter
    background: Background
    parker: Parker

    async def watch(self, runtime: Runtime) -> None:
        """Handle exits of this runtime's tasks, without end."""
        while True:
            end = await runtime.wait_exit()
            task = self.tasks.started(end.key)
            if task is not None:
                self.exited(task, end)

    def started(self, task: LocalTask, chosen: tuple[str, ...] = ()) -> None:
        """Report that its program runs. chosen: its devices, where the runtime chose them."""
        task.begun = True
        found = {"devices": chosen, "damaged_checkpoints": task.damaged_checkpoints}
        self.reporter.report_task(task.known_as, task.ordered_by, TaskStartedReport, **found)

    def exited(self, task: LocalTask, end: Exit) -> None:
        """Report the exit after all messages that the task sent before, and begin its release."""
        if end.begun and not task.begun:
            self.started(task)
        was_parked = task.state == "parked"
        self.messages.read(task)
        task.mark_exited(end)
        self.stages.record_supervisor_stages(task, end)
        if was_parked:
            self.parker.has_ended(task, task.reason)
        else:
            self._report_exit(task, step=self.messages.published(task))
        self.background.spawn(self.releaser.release(task))

    def report_again(self, task: LocalTask) -> None:
        """Report exit and release once more, as far as they have happened."""
        if task.state == "parked":
            self.parker.report_again(task)
        if task.state in ("exited", "released") and task.exit_code is not None:
            self._report_exit(task)
        if task.state == "released":
            task.last_report = self.reporter.report_task(task.known_as, task.ordered_by, TaskReleasedReport)

    def _report_exit(self, task: LocalTask, **known: Any) -> None:
        end: dict[str, Any] = {"exit_code": task.exit_code, "unobserved": task.unobserved, "reason": task.reason}
        end["done"] = task.messages.is_done
        self.reporter.report_task(task.known_as, task.ordered_by, TaskExitedReport, **end, **known)
