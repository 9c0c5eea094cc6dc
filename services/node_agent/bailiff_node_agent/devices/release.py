"""The proof that a GPU is free again. An exit code alone is not enough to give it to the next task."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bailiff_node_agent.runtime import Pod

from .inventory import DeviceInventory, DeviceUnavailable, query
from .system_programs import is_of_system

MIB = 1 << 20
TOLERANCE = 64 * MIB


@dataclass(frozen=True)
class DeviceReading:
    device_id: str
    memory_used: int | None
    """In bytes; None where the device could not be read."""
    pids: tuple[int, ...]
    error: str | None = None
    of_system: int = 0
    """Bytes of `memory_used` that system programs of root use, such as the MPS server, which outlives the tasks it serves."""
    pods: tuple[Pod, ...] = ()
    """The pods that have it, where a kubelet gives it out."""

    @property
    def in_use(self) -> int | None:
        """Bytes that are not of a system program."""
        return None if self.memory_used is None else max(0, self.memory_used - self.of_system)


@dataclass(frozen=True)
class ReleaseProof:
    free: bool
    before: tuple[DeviceReading, ...]
    after: tuple[DeviceReading, ...]
    blockers: tuple[int, ...]
    """The task's living processes, and all processes on devices that are not free; empty where only memory is in use."""
    living: tuple[int, ...] = ()
    """The task's processes that have not exited."""
    not_free: tuple[DeviceReading, ...] = ()
    """Devices that are not free."""
    of_task: tuple[int, ...] = ()
    """All processes that were seen to be the task's."""


def read_devices(inventory: DeviceInventory, device_ids: Sequence[str]) -> tuple[DeviceReading, ...]:
    return tuple(_read(inventory, device_id) for device_id in device_ids)


async def prove_release(
    inventory: DeviceInventory,
    device_ids: Sequence[str],
    pids_of_task: Callable[[], Awaitable[Collection[int]]],
    baseline: Mapping[str, int],
    deadline_s: float,
    poll: float,
    *,
    before: tuple[DeviceReading, ...] | None = None,
    seen_pids: Collection[int] = (),
    tolerance: int = TOLERANCE,
    shared: bool = False,
    pod: Pod | None = None,
) -> ReleaseProof:
    """Read the devices every `poll` seconds until they are free, or the deadline has passed.

    Free means: the task's process tree is gone, none of its processes (`seen_pids` and those seen here) uses a
    device, the kubelet does not list `pod`, the task's own, and memory in use is back at `baseline` (bytes by device id,
    measured when the device was unused; 0 where it is missing), plus the tolerance. before: readings from while the task ran,
    for the record. shared: other tasks may use the devices, so memory in use proves nothing, and only the task's own processes
    and its pod count.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    of_task = set(seen_pids)
    while True:
        living = set(await pids_of_task())
        of_task |= living
        after = await query(inventory, read_devices, inventory, device_ids)
        before = before or after
        not_free = [
            reading
            for reading in after
            if reading.in_use is None
            or (not shared and reading.in_use > baseline.get(reading.device_id, 0) + tolerance)
            or of_task.intersection(reading.pids)
            or pod in reading.pods
        ]
        free = not living and not not_free
        if free or loop.time() >= deadline:
            blockers = living.union(*(reading.pids for reading in not_free))
            return ReleaseProof(
                free, before, after, tuple(sorted(blockers)), tuple(sorted(living)), tuple(not_free), tuple(sorted(of_task))
            )
        await asyncio.sleep(min(poll, max(0.0, deadline - loop.time())))


def _read(inventory: DeviceInventory, device_id: str) -> DeviceReading:
    try:
        usage = inventory.usage(device_id)
    except DeviceUnavailable as problem:
        return DeviceReading(device_id, None, (), str(problem))
    of_system = sum(used for pid, used in usage.by_pid.items() if is_of_system(pid))
    return DeviceReading(device_id, usage.memory_used, usage.pids, of_system=of_system, pods=usage.pods)
