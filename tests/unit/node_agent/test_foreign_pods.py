"""Whose pod holds a device: the kubelet may know a pod of Bailiff's before its agent does."""

import asyncio
from types import SimpleNamespace
from typing import Any

from bailiff_node_agent.devices import DeviceUsage
from bailiff_node_agent.runtime import Pod, TaskKey
from bailiff_node_agent.tasks.pods import watch_foreign_pods
from bailiff_node_agent.tasks.task_table import LocalTask, TaskTable
from bailiff_service.logs import logger

FOREIGN, OWN = ("team-a", "pod-1"), ("bailiff-jobs", "task-1")


class Node:
    """The kubelet gave GPU-1 to a pod that the agent does not know. The last answer of the API server stays."""

    blocking = False

    def __init__(self, *may_be_task: bool, own: Pod | None = None) -> None:
        self.answers, self.asked = [*may_be_task], asyncio.Event()
        self.own = {own} - {None}
        self.quarantined: dict[str, str] = {}
        self.users: list[Pod | None] = []
        self.rounds = 0

    def holders(self) -> dict[str, frozenset[Pod]]:
        self.rounds += 1
        assert self.rounds < 100, "it never asks whose the pod is"
        return {"GPU-0": frozenset(self.own), "GPU-1": frozenset({FOREIGN, *self.own})}

    def task_pods(self) -> set[Pod]:
        return {*self.own}

    async def may_be_task(self, namespace: str, name: str) -> bool:
        assert (namespace, name) == FOREIGN
        if len(self.answers) > 1:
            return self.answers.pop(0)
        self.asked.set()
        return self.answers[0]

    def usage(self, _: str) -> DeviceUsage:
        return DeviceUsage(1 << 30, ())

    def quarantine(self, reading: Any, reason: str, detail: str, user: Any) -> None:
        self.quarantined[reading.device_id] = f"{reason}: {detail}"
        self.users.append(user.pod)

    async def watch(self, *tasks: LocalTask) -> None:
        context: Any = SimpleNamespace(inventory=self, device_poll_s=0, log=logger)
        parts: Any = self
        table = TaskTable()
        for task in tasks:
            table.add(task)
        watching = asyncio.create_task(watch_foreign_pods(context, parts, table, parts))
        asked = asyncio.create_task(self.asked.wait())
        await asyncio.wait([watching, asked], return_when=asyncio.FIRST_COMPLETED)
        assert asked.done(), watching.result()
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
    assert node.users == [FOREIGN], "for as long as that pod has it"


async def test_a_pod_of_somebody_else_beside_tasks_that_share_a_device_keeps_further_ones_from_it() -> None:
    """It refers to the same claim. The device whose only users are tasks stays in the pool."""
    node = Node(True, False, own=OWN)
    await node.watch(LocalTask(TaskKey("serve", 1, "0"), "kubernetes", ("GPU-0", "GPU-1")))
    assert node.quarantined == {"GPU-1": "foreign: the pod team-a/pod-1, which is not Bailiff's, has it"}
