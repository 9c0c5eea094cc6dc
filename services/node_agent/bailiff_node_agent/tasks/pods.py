"""Which pods hold the node's devices, by the kubelet's word: its tasks', and those of others."""

import asyncio

from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.device_quarantine import DeviceQuarantine, LastUser
from bailiff_node_agent.devices import query, read_devices
from bailiff_node_agent.runtime import Runtime

from .task_table import TaskTable


async def watch_foreign_pods(context: AgentContext, runtime: Runtime, tasks: TaskTable, quarantine: DeviceQuarantine) -> None:
    """Keep the devices that pods of others hold out of the pool, for as long as they hold them.

    One that a task has to itself is its own. One that tasks share may have such a pod beside them: whoever can create pods in
    their namespace can refer to its claim.
    """
    is_known = True
    while True:
        try:
            await _keep_out_foreign(context, runtime, tasks, quarantine)
            is_known = True
        except OSError as problem:
            if is_known:  # one warning an outage
                context.log().warning("it is unknown which pods hold devices", why=str(problem))
            is_known = False
        await asyncio.sleep(context.device_poll_s)


async def _keep_out_foreign(context: AgentContext, runtime: Runtime, tasks: TaskTable, quarantine: DeviceQuarantine) -> None:
    holders = await query(context.inventory, context.inventory.holders)
    own, in_use = runtime.task_pods(), tasks.holders()
    for device, pods in holders.items():
        if device in quarantine.quarantined or (device in in_use and not pods & own):
            continue
        for pod in sorted(pods - own):
            if not await runtime.may_be_task(*pod):  # the kubelet may know a pod before this agent does
                [reading] = await query(context.inventory, read_devices, context.inventory, [device])
                detail = f"the pod {'/'.join(pod)}, which is not Bailiff's, has it"
                quarantine.quarantine(reading, "foreign", detail, LastUser(pod=pod))
                break
