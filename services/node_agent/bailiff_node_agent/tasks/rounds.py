"""What an agent looks after again and again while its tasks run."""

import asyncio

from bailiff_bus.messages import TaskIsIdle, TaskOverShare
from bailiff_node_agent.custody import Custody, Left
from bailiff_node_agent.devices import looked, read_devices
from bailiff_node_agent.devices.ledger import ShareLedger
from bailiff_node_agent.idle import Idleness
from bailiff_node_agent.machine import Machine
from bailiff_node_agent.reporting import Reporter
from bailiff_node_agent.runtime import TaskKey
from bailiff_node_agent.sharers import Sharer, Sharers

from .held import Tasks


async def watch_killed(machine: Machine, tasks: Tasks, custody: Custody) -> None:
    """A task that KILL does not end, as when it waits for a device that hangs, leaves its devices dirty."""
    since, loop = dict[TaskKey, float](), asyncio.get_running_loop()
    while True:
        await asyncio.sleep(machine.device_look_s)
        stuck = {held.key: held for held in tasks.running() if "kill_sent" in held.stages}
        since = {key: since.get(key, loop.time()) for key in stuck}
        for key, held in stuck.items():
            if loop.time() - since[key] >= machine.release_timeout_s:
                left = Left(key.job, key.attempt, int(key.task), machine.runtimes[held.runtime].pids(key))
                custody.hung(read_devices(machine.inventory, held.devices), left)


async def watch_sharers(machine: Machine, tasks: Tasks, shares: ShareLedger, reporter: Reporter) -> None:
    """Tasks that share a device may use their part of its memory."""
    known = Sharers(machine.inventory)
    while True:
        await asyncio.sleep(machine.device_look_s)
        sharers = [
            Sharer(held.key, held.devices, part, machine.runtimes[held.runtime].pids(held.key))
            for held in tasks.running()
            if (part := shares.part(str(held.key))) is not None
        ]
        for over in await looked(machine.inventory, known.look, sharers):
            machine.log().warning("a task uses more of a GPU than its share", job=over.key.job, device=over.device)
            used = {"device": over.device, "used_bytes": over.used, "share_bytes": over.share}
            reporter.tell_of(over.key, _order(tasks, over.key), TaskOverShare, **used)


async def watch_idle(machine: Machine, tasks: Tasks, reporter: Reporter) -> None:
    """Tasks that hold GPUs are expected to use them."""
    idleness, loop = Idleness(machine.inventory), asyncio.get_running_loop()
    while True:
        await asyncio.sleep(machine.device_look_s)
        running = [(held.key, held.devices) for held in tasks.running()]
        for each in await looked(machine.inventory, idleness.look, running, loop.time()):
            idle = {"idle": each.idle, "lasted": int(each.seconds * 1_000_000)}
            reporter.tell_of(each.key, _order(tasks, each.key), TaskIsIdle, **idle)


def _order(tasks: Tasks, key: TaskKey) -> int | None:
    """It may be gone by the time that the look is over."""
    held = tasks.get(key)
    return held.order if held is not None else None
