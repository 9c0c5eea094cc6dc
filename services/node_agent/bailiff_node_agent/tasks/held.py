"""The tasks that a node holds, each from its start until its release has been reported and received."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from bailiff_bus.messages import TaskHeld
from bailiff_core.records.facts import Stage
from bailiff_node_agent.custody import TaskOfJob
from bailiff_node_agent.devices import DeviceReading
from bailiff_node_agent.runtime import Exit, TaskKey

from .heard import Heard


@dataclass(slots=True)
class Held:
    """One task. state: `running`, `exited` or `released`. runtime: its name. order: which one it was started by.

    before, pids: its devices and processes as they were when it was told to leave. last_report: the number of its last one.
    acting: held while something is done to it because of an eviction, or that is taken back.
    """

    key: TaskKey
    runtime: str
    devices: tuple[str, ...]
    state: str = "running"
    exit_code: int | None = None
    unseen: bool = False
    reason: str = ""
    stages: dict[str, Stage | None] = field(default_factory=dict)
    heard: Heard = field(default_factory=Heard)
    before: tuple[DeviceReading, ...] | None = None
    pids: tuple[int, ...] = ()
    last_report: int | None = None
    order: int | None = None
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has_ended(self, end: Exit) -> None:
        """Its main process is no more."""
        self.state, self.exit_code, self.unseen, self.reason = "exited", end.code, end.supervisor_lost, _why(end)

    def announced(self, step: int | None) -> TaskHeld:
        """As its node announces it. step: how far it is, where it has ended."""
        return TaskHeld.model_validate(
            {
                "job": self.key.job,
                "attempt": self.key.attempt,
                "task": int(self.key.task),
                "devices": self.devices,
                "state": self.state,
                "exit_code": self.exit_code,
                "unseen": self.unseen,
                "reason": self.reason,
                **{stage: stage in self.stages for stage in ("noticed", "term_sent", "kill_sent")},
                "stages": tuple(stage for stage in self.stages.values() if stage is not None),
                "step": step,
                "order": self.order,
            }
        )


class Tasks:
    """Those of one node, in the order in which they came."""

    def __init__(self) -> None:
        self._by_key: dict[TaskKey, Held] = {}

    def __iter__(self) -> Iterator[Held]:
        """As they are now: what comes or goes meanwhile changes nothing."""
        return iter(list(self._by_key.values()))

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._by_key

    def __getitem__(self, key: TaskKey) -> Held:
        return self._by_key[key]

    def get(self, key: TaskKey) -> Held | None:
        return self._by_key.get(key)

    def add(self, held: Held) -> None:
        """It takes the place of one of the same key."""
        self._by_key[held.key] = held

    def remove(self, key: TaskKey) -> Held:
        return self._by_key.pop(key)

    def running(self) -> list[Held]:
        """Those that have not ended."""
        return [held for held in self._by_key.values() if held.state == "running"]

    def unreleased(self, device: str) -> list[Held]:
        """Those that have this device and have not been seen to be off it."""
        return [held for held in self._by_key.values() if device in held.devices and held.state != "released"]

    def holders(self) -> dict[str, set[TaskOfJob]]:
        """By device, those that have not been seen to be off it."""
        found: dict[str, set[TaskOfJob]] = {}
        for held in self._by_key.values():
            for device in held.devices if held.state != "released" else ():
                found.setdefault(device, set()).add((held.key.job, held.key.attempt, int(held.key.task)))
        return found

    def jobs_by_device(self) -> dict[str, list[str]]:
        """Of the tasks that have not ended; a job that has several on one device stands there once for each."""
        found: dict[str, list[str]] = {}
        for held in self.running():
            for device in held.devices:
                found.setdefault(device, []).append(held.key.job)
        return found


def _why(end: Exit) -> str:
    if end.lease_stages:
        return "its agent was not heard in Kafka for longer than the node's lease, so its supervisor stopped it"
    if end.deadline_stages:
        return "its agent was dead when its deadline came, so its supervisor kept it"
    if end.error is not None:
        return end.error
    if end.supervisor_lost:
        return "its supervisor was lost, so what was left of it was ended"
    return f"{end.leftovers} processes that it left behind were ended" if end.leftovers else ""
