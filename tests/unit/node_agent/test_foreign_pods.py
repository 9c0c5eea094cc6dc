"""Whose pod holds a device: the kubelet may know a pod of Bailiff's before its agent does."""

import asyncio
from types import SimpleNamespace
from typing import Any

from bailiff_node_agent.devices import DeviceUsage
from bailiff_node_agent.tasks.pods import watch_foreign_pods
from bailiff_node_agent.tasks.task_table import TaskTable
from bailiff_service.logs import logger


class Node:
    """The kubelet gave GPU-1 to a pod that the agent does not know. The last answer of the API server stays."""

    blocking = False

    def __init__(self, *may_be_task: bool) -> None:
        self.answers, self.asked = [*may_be_task], asyncio.Event()
        self.quarantined: dict[str, str] = {}

    def holders(self) -> dict[str, tuple[str, str]]:
        return {"GPU-1": ("team-a", "pod-1")}

    def task_pods(self) -> set[tuple[str, str]]:
        return set()

    async def may_be_task(self, namespace: str, name: str) -> bool:
        assert (namespace, name) == ("team-a", "pod-1")
        if len(self.answers) > 1:
            return self.answers.pop(0)
        self.asked.set()
        return self.answers[0]

    def usage(self, _: str) -> DeviceUsage:
        return DeviceUsage(1 << 30, ())

    def quarantine(self, reading: Any, reason: str, detail: str, _: object) -> None:
        self.quarantined[reading.device_id] = f"{reason}: {detail}"

    async def watch(self) -> None:
        context: Any = SimpleNamespace(inventory=self, device_poll_s=0, log=logger)
        parts: Any = self
        watching = asyncio.create_task(watch_foreign_pods(context, parts, parts, TaskTable(), parts))
        await self.asked.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_pod_that_may_be_a_task_is_left_alone() -> None:
    node = Node(True, True)
    await node.watch()
    assert node.quarantined == {}


async def test_the_device_of_a_pod_that_is_none_is_kept_out_of_the_pool() -> None:
    node = Node(True, False)
    await node.watch()
    assert node.quarantined == {"GPU-1": "foreign: the pod team-a/pod-1, which is not Bailiff's, has it"}
