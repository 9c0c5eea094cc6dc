"""The proof that a GPU is free again: nobody gets one on the strength of an exit code."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bailiff_node_agent.devices.inventory import DeviceInventory, DeviceUnavailable

MIB = 1 << 20
TOLERANCE = 64 * MIB


@dataclass(frozen=True)
class DeviceReading:
    device_id: str
    memory_used: int | None
    """In bytes; None where the device could not be read."""
    pids: tuple[int, ...]
    error: str | None = None


@dataclass(frozen=True)
class ReleaseProof:
    free: bool
    before: tuple[DeviceReading, ...]
    after: tuple[DeviceReading, ...]
    held_by: tuple[int, ...]
    """The task's living processes, and everyone on a device that is not free; may be empty where memory alone is."""
    living: tuple[int, ...] = ()
    """The task's processes that have not ended."""
    taken: tuple[DeviceReading, ...] = ()
    """Devices that are not free."""
    of_task: tuple[int, ...] = ()
    """All processes that were seen as the task's own."""


def read_devices(inventory: DeviceInventory, device_ids: Sequence[str]) -> tuple[DeviceReading, ...]:
    return tuple(_read(inventory, device_id) for device_id in device_ids)


async def prove_release(
    inventory: DeviceInventory,
    device_ids: Sequence[str],
    pids_of_task: Callable[[], Collection[int]],
    baseline: Mapping[str, int],
    deadline_s: float,
    poll: float,
    *,
    before: tuple[DeviceReading, ...] | None = None,
    seen_pids: Collection[int] = (),
    tolerance: int = TOLERANCE,
    shared: bool = False,
) -> ReleaseProof:
    """Look again every `poll` seconds until all is free, or the deadline has passed.

    Free means: the task's process tree is gone, none of its processes (`seen_pids` and those seen here) is on a
    device, and memory in use is back at `baseline` (bytes by device id, measured when nobody was on it; 0 where it
    names none), give or take the tolerance. `before` is what was read while the task still ran, for the record.
    shared: others may be on the devices, so their memory in use says nothing, and only the task's own processes count.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    of_task = set(seen_pids)
    while True:
        living = set(pids_of_task())
        of_task |= living
        after = read_devices(inventory, device_ids)
        before = before or after
        taken = [
            reading
            for reading in after
            if reading.memory_used is None
            or (not shared and reading.memory_used > baseline.get(reading.device_id, 0) + tolerance)
            or of_task.intersection(reading.pids)
        ]
        free = not living and not taken
        if free or loop.time() >= deadline:
            held_by = living.union(*(reading.pids for reading in taken))
            dirty, own = tuple(taken), tuple(sorted(of_task))
            return ReleaseProof(free, before, after, tuple(sorted(held_by)), tuple(sorted(living)), dirty, own)
        await asyncio.sleep(min(poll, max(0.0, deadline - loop.time())))


def _read(inventory: DeviceInventory, device_id: str) -> DeviceReading:
    try:
        usage = inventory.usage(device_id)
    except DeviceUnavailable as problem:
        return DeviceReading(device_id, None, (), str(problem))
    return DeviceReading(device_id, usage.memory_used, usage.pids)
