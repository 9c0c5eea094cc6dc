"""Periodic checks: kills that take no effect, devices that come and go, exceeded GPU shares, idle GPUs."""

import asyncio
from collections.abc import Callable

from bailiff_bus.messages.devices import ShareExceededReport, TaskIdleReport
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.device_quarantine import DeviceQuarantine, LastUser
from bailiff_node_agent.devices import query, read_devices
from bailiff_node_agent.devices.ledger import ShareLedger
from bailiff_node_agent.idle import IdleMonitor
from bailiff_node_agent.reporter import Reporter
from bailiff_node_agent.runtime import TaskKey, pids_of
from bailiff_node_agent.share_monitor import ShareMonitor, SharingTask

from .task_table import TaskTable


async def watch_killed(context: AgentContext, tasks: TaskTable, quarantine: DeviceQuarantine) -> None:
    """Quarantine the devices of tasks that KILL does not end, as with a process that waits for a hung device."""
    since, loop = dict[TaskKey, float](), asyncio.get_running_loop()
    while True:
        await asyncio.sleep(context.device_poll_s)
        stuck = {task.key: task for task in tasks.running() if "kill_sent" in task.stages}
        since = {key: since.get(key, loop.time()) for key in stuck}
        for key, task in stuck.items():
            if loop.time() - since[key] >= context.release_timeout_s:
                last_user = LastUser(key.job, key.attempt, int(key.task), await pids_of(context.runtimes[task.runtime], key))
                quarantine.hung(read_devices(context.inventory, task.devices), last_user)


async def watch_devices(context: AgentContext, quarantine: DeviceQuarantine, announce: Callable[[], None]) -> None:
    """Announce the node again when its devices change, as when a card is partitioned, and when nobody gives them out any more."""
    inventory = context.inventory
    away = ""
    while True:
        await asyncio.sleep(context.device_poll_s)
        present = [device.id for device in await query(inventory, inventory.list)]
        before, away = away, inventory.away()
        if present != [*quarantine.reported]:
            context.log().warning("the node's devices have changed", now=len(present), before=len(quarantine.reported))
            quarantine.devices_changed(present)
            announce()
        elif away != before:
            context.log().warning("whether devices are given out has changed", why_not=away)
            announce()


async def watch_shares(context: AgentContext, tasks: TaskTable, shares: ShareLedger, reporter: Reporter) -> None:
    """Report tasks that use more of a shared GPU's memory than their part."""
    monitor = ShareMonitor(context.inventory)
    while True:
        await asyncio.sleep(context.device_poll_s)
        sharing = [
            SharingTask(task.key, task.devices, part, await pids_of(context.runtimes[task.runtime], task.key))
            for task in tasks.running()
            if (part := shares.part(str(task.key))) is not None
        ]
        for exceeded in await query(context.inventory, monitor.check, sharing):
            context.log().warning("a task exceeds its share of a GPU", job=exceeded.key.job, device=exceeded.device)
            used = {"device": exceeded.device, "used_bytes": exceeded.used, "share_bytes": exceeded.share}
            reporter.report_task(exceeded.key, _order(tasks, exceeded.key), ShareExceededReport, **used)
        if sharing and context.shares_by_mps:
            for key in await query(context.inventory, monitor.outside_of_mps, sharing):
                context.log().warning("a task uses a shared GPU outside of MPS, so its share is not enforced", job=key.job)


async def watch_idle(context: AgentContext, tasks: TaskTable, reporter: Reporter) -> None:
    """Report tasks whose GPUs become idle, or busy again."""
    monitor, loop = IdleMonitor(context.inventory), asyncio.get_running_loop()
    while True:
        await asyncio.sleep(context.device_poll_s)
        running = [(task.known_as, task.devices) for task in tasks.running()]
        for change in await query(context.inventory, monitor.check, running, loop.time()):
            idle = {"idle": change.idle, "duration": int(change.seconds * 1_000_000)}
            reporter.report_task(change.key, _order(tasks, change.key), TaskIdleReport, **idle)


def _order(tasks: TaskTable, key: TaskKey) -> int | None:
    """The task may have ended before the query returns."""
    task = tasks.get(key)
    return task.ordered_by if task is not None else None
