"""The simulated machines, observed: a task's use of a device is checked when it starts.

A machine outlives its agent: the timers of its tasks run outside of any process. It reports each start and stop to the checker,
which compares them with the log as stored at this moment.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from random import Random
from typing import Any, Protocol

from tests.kits.invariants import LiveTask

from bailiff_devstack.simulated_node import MemoryImages, SimulatedInventory, SimulatedMachine
from bailiff_node_agent.agent import ISOLATED
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.runtime import Dumped, Exit, Launch, Running, TaskKey
from bailiff_node_agent.settings import NodeDeclaration


class MachineObserver(Protocol):
    """Checks whether an event on a machine is permitted now."""

    def on_start(self, task: LiveTask, order: int | None) -> None: ...

    def on_stop(self, task: LiveTask, how: str, *, isolated: bool) -> None: ...

    def on_exit(self, task: LiveTask, code: int) -> None: ...

    def on_command(self, machine: str, job: str, attempt: int, tasks: Iterable[int], position: tuple[int, int]) -> None: ...

    def violated(self, what: str) -> None: ...

    def is_reading_lost_reports(self) -> bool: ...

    def counts(self, machine: str) -> bool: ...


class WatchedMachine(SimulatedMachine):
    """One host: its disk, its GPUs, its tasks."""

    def __init__(self, node: NodeDeclaration, observer: MachineObserver) -> None:
        super().__init__()
        self.node, self.observer = node, observer
        self.storage = MemoryStorage()
        self.inventory = SimulatedInventory(node.gpus, node.name, self.identify)
        self.attach_devices(self.inventory)
        self.booted_at = 0.0
        self.images = MemoryImages()
        self._parts: dict[TaskKey, Fraction] = {}

    def living(self) -> list[LiveTask]:
        """The running tasks of this machine."""
        return [self._living_task(task.running) for task in self._tasks.values() if task.exit is None]

    def host_crash(self) -> None:
        """Power cycle the machine."""
        _outside(self.crash)
        self.booted_at = asyncio.get_running_loop().time()

    def fail_one(self, random: Random) -> str | None:
        """One task exits with a random exit code."""
        living = sorted((task for task in self._tasks.values() if task.exit is None), key=lambda task: task.pid)
        if not living:
            return None
        task = random.choice(living)
        _outside(self._end, task, random.choice([1, 2, 85, 137, 0]))
        return str(task.running.key)

    async def gpu_fails(self, kind: str, random: Random, seconds: float) -> None:
        """Inject a fault into one GPU for some time. After an Xid it stays unhealthy until the host restarts."""
        devices = self.inventory.list()
        if devices:
            device = random.choice(devices).id
            fault = {"leak": {"leak_bytes": 1 << 30}, "hang": {"hang": True}, "gpu-lost": {"dead": True}, "xid": {"xid": 79}}
            self.inventory.fail(device, **fault[kind])
            await asyncio.sleep(seconds)
            self.inventory.fail(device)

    def _living_task(self, running: Running) -> LiveTask:
        key = running.key
        return LiveTask(self.node.name, key.job, key.attempt, int(key.task), running.device_ids, self._parts[key])

    def start(self, launch: Launch) -> Running | Exit:
        if launch.key not in self._tasks:
            key = launch.key
            part = self._parts[key] = self._part(launch)
            self._check_devices(launch, part)
            task = LiveTask(self.node.name, key.job, key.attempt, int(key.task), launch.device_ids, part)
            self.observer.on_start(task, launch.ordered_by)
        return _outside(super().start, launch)

    def _check_devices(self, launch: Launch, part: Fraction) -> None:
        """No task starts on a GPU that is in use or cannot be read (§8.7)."""
        checked = self.observer.counts(self.node.name) and not self.observer.is_reading_lost_reports()
        for device in launch.device_ids if checked else ():
            if "dead" in self.inventory.injected_faults(device):
                self.observer.violated(f"{launch.key} starts on {device}, which cannot be read")
            elif part == 1 and self.inventory.usage(device).memory_used:
                self.observer.violated(f"{launch.key} starts on {device}: it is in use, {self.inventory.usage(device)}")

    def _part(self, launch: Launch) -> Fraction:
        """The task's share of its devices, from its environment."""
        fraction, memory = launch.env.get("BAILIFF_GPU_FRACTION"), launch.env.get("BAILIFF_GPU_MEMORY_BYTES")
        if fraction is not None:
            return Fraction(fraction)
        whole = min((device.memory for device in self.inventory.list() if device.id in launch.device_ids), default=1)
        return Fraction(int(memory), whole) if memory is not None else Fraction(1)

    def notice(self, key: TaskKey, payload: Mapping[str, Any]) -> None:
        self._check_stop(key, "notice", isolated=payload.get("reason") == ISOLATED)
        _outside(super().notice, key, payload)

    def terminate(self, key: TaskKey) -> None:
        self._check_stop(key, "TERM")
        _outside(super().terminate, key)

    async def save(self, key: TaskKey, request: str, *, goes_on: bool) -> Dumped:
        return await asyncio.shield(_outside(asyncio.ensure_future, super().save(key, request, goes_on=goes_on)))

    def thaw(self, key: TaskKey) -> None:
        _outside(super().thaw, key)

    def kill(self, key: TaskKey) -> None:
        self._check_stop(key, "KILL")
        _outside(super().kill, key)

    def _end(self, task: Any, code: int, supervisor_lost: bool = False) -> None:
        super()._end(task, code, supervisor_lost)
        self.observer.on_exit(self._living_task(task.running), code)

    def _check_stop(self, key: TaskKey, how: str, *, isolated: bool = False) -> None:
        task = self._tasks.get(key)
        if task is not None and task.exit is None:
            isolated = isolated or (task.notice or {}).get("reason") == ISOLATED
            self.observer.on_stop(self._living_task(task.running), how, isolated=isolated)


def _outside(call: Callable[..., Any], *args: Any) -> Any:
    """Call it outside of the agent's process, so that its timers survive the agent."""
    return contextvars.Context().run(call, *args)
