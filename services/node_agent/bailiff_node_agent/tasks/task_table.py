"""The tasks of a node, each from its start until its release was reported and the report has reached Kafka."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from bailiff_bus.messages.reports import TrackedTask
from bailiff_core.records.facts import Stage
from bailiff_node_agent.device_quarantine import TaskOfJob
from bailiff_node_agent.devices import DeviceReading
from bailiff_node_agent.runtime import Exit, TaskKey

from .task_messages import TaskMessages


@dataclass(slots=True)
class LocalTask:
    """One task. state: `running`, `parked`, `exited` or `released`. runtime: its name.

    ordered_by: seq of the record behind its start. key: as it was started. continues: the attempt as which
    it goes on after it was parked.

    begun: its program runs, or has run, and that was reported.
    before, pids: its devices and processes when its eviction began. last_report: number of its release report.
    waits: it was restored, and stands still until its gang is. snapshot_step, stepped: what its gang's snapshot needs next of it.
    ordered_snapshot: the record that ordered its newest snapshot while it runs. saves: held while it is saved.
    stages: reached stages of its eviction. lock: held while it is launched, and while its eviction is carried out or cancelled.
    """

    key: TaskKey
    runtime: str
    devices: tuple[str, ...]
    state: str = "running"
    exit_code: int | None = None
    unobserved: bool = False
    reason: str = ""
    stages: dict[str, Stage | None] = field(default_factory=dict)
    messages: TaskMessages = field(default_factory=TaskMessages)
    before: tuple[DeviceReading, ...] | None = None
    pids: tuple[int, ...] = ()
    last_report: int | None = None
    ordered_by: int | None = None
    damaged_checkpoints: int = 0
    begun: bool = False
    waits: bool = False
    snapshot_step: str = ""
    ordered_snapshot: int | None = None
    saves: asyncio.Lock = field(default_factory=asyncio.Lock)
    stepped: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    continues: int | None = None

    @property
    def known_as(self) -> TaskKey:
        """The attempt that the log has it as."""
        return self.key if self.continues is None else replace(self.key, attempt=self.continues)

    def mark_exited(self, end: Exit) -> None:
        """What never ran has no exit of its own."""
        self.state, self.exit_code, self.unobserved = "exited", end.code, end.supervisor_lost or not end.begun

    def to_report(self, step: int | None) -> TrackedTask:
        """The task in its node's inventory. step: its published step, where it has exited."""
        return TrackedTask.model_validate(
            {
                "job": self.key.job,
                "attempt": self.known_as.attempt,
                "task": int(self.key.task),
                "devices": self.devices,
                "state": "released" if self.state == "parked" else self.state,
                "begun": self.begun,
                "parked": self.state == "parked",
                "exit_code": self.exit_code,
                "unobserved": self.unobserved,
                "reason": self.reason,
                "stages": tuple(stage for stage in self.stages.values() if stage is not None),
                "step": step,
                "ordered_by": self.ordered_by,
                "done": self.state != "running" and self.messages.is_done,
            }
        )


class TaskTable:
    """The tasks of one node, in the order in which they started."""

    def __init__(self) -> None:
        self._by_key: dict[TaskKey, LocalTask] = {}
        self._continuing: dict[TaskKey, LocalTask] = {}

    def __iter__(self) -> Iterator[LocalTask]:
        """Over a copy, so that tasks may be added and removed meanwhile."""
        return iter(list(self._by_key.values()))

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._by_key

    def __getitem__(self, key: TaskKey) -> LocalTask:
        return self._by_key[key]

    def get(self, key: TaskKey) -> LocalTask | None:
        """The task that the log has as this attempt."""
        task = self._continuing.get(key) or self._by_key.get(key)
        return task if task is not None and task.known_as == key else None

    def started(self, key: TaskKey) -> LocalTask | None:
        """The task that was started as this attempt: a runtime knows it so."""
        return self._by_key.get(key)

    def continues(self, task: LocalTask, attempt: int) -> None:
        """It goes on as this attempt."""
        self._continuing.pop(task.known_as, None)
        task.continues = attempt
        self._continuing[task.known_as] = task

    def add(self, task: LocalTask) -> None:
        """Replaces a task of the same key."""
        self._by_key[task.key] = task

    def remove(self, key: TaskKey) -> LocalTask:
        task = self._by_key.pop(key)
        self._continuing.pop(task.known_as, None)
        return task

    def running(self) -> list[LocalTask]:
        """Tasks that have not exited."""
        return [task for task in self._by_key.values() if task.state == "running"]

    def unreleased(self, device: str) -> list[LocalTask]:
        """Tasks of this device that are not released."""
        return [task for task in self._by_key.values() if device in task.devices and task.state not in ("parked", "released")]

    def holders(self) -> dict[str, set[TaskOfJob]]:
        """By device, its tasks that are not released."""
        found: dict[str, set[TaskOfJob]] = {}
        for task in self._by_key.values():
            for device in task.devices if task.state not in ("parked", "released") else ():
                found.setdefault(device, set()).add((task.key.job, task.known_as.attempt, int(task.key.task)))
        return found

    def jobs_by_device(self) -> dict[str, list[str]]:
        """By device, the jobs of its running tasks; once for each task."""
        found: dict[str, list[str]] = {}
        for task in self.running():
            for device in task.devices:
                found.setdefault(device, []).append(task.key.job)
        return found
