"""A node agent for tests of the bridge: the real agent with simulated GPUs, and a runtime that only follows pods.

It finds the pod of a task by its label, deletes it for TERM once there is room for the preemptor, and reports its end. It proves
nothing about a real node.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bailiff_kubernetes import Api, NotFound, names
from bailiff_kubernetes.disruption import mark_disrupted
from bailiff_kubernetes.names import task_hash
from bailiff_kubernetes.resources import PODS, Object
from bailiff_node_agent.__main__ import build
from bailiff_node_agent.runtime import registry
from bailiff_node_agent.runtime.kubernetes.nominations import Nomination
from bailiff_node_agent.runtime.plugin import NodeParts, RuntimePlugin
from bailiff_node_agent.runtime.port import Capabilities, Exit, Launch, Running, Runtime, TaskKey
from bailiff_node_agent.settings import NodeAgentSettings
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.main import main

POLL_S = 0.1
TERMINATED = 143


class PodRuntime(Runtime):
    """The pods of one node."""

    capabilities = Capabilities(images=True, host_resources=False, shares_gpus=False, outlives_agent=False)

    def __init__(self, parts: NodeParts) -> None:
        self._node = parts.node
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()
        self._ended: dict[TaskKey, asyncio.Event] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._preemptors: dict[TaskKey, str] = {}
        self._api: Api | None = None

    async def adopt(self) -> list[Running | Exit]:
        return []

    async def start(self, launch: Launch) -> Running | Exit:
        if launch.key not in self._ended:
            self._ended[launch.key] = asyncio.Event()
            follower = asyncio.create_task(self._follow(launch))
            self._followers.add(follower)
            follower.add_done_callback(self._followers.discard)
        return Running(launch.key, str(launch.key), SYSTEM.boot(), launch.device_ids, launch.ordered_by)

    async def _connection(self) -> Api:
        if self._api is None:
            self._api = await Api.connect(Path(os.environ["BAILIFF_KUBECONFIG"]))
        return self._api

    async def _pod(self, key: TaskKey) -> Object | None:
        found = await (await self._connection()).list(PODS, labels=f"{names.TASK_HASH}={task_hash(str(key))}")
        return found.items[0] if found.items else None

    async def _follow(self, launch: Launch) -> None:
        """Until the pod has ended or gone; a pod that is not there yet is waited for."""
        key, seen, code = launch.key, "", TERMINATED
        while True:
            pod = await self._pod(key)
            uid = "" if pod is None else pod["metadata"]["uid"]
            seen = seen or uid
            if uid != seen or (not seen and self._ended[key].is_set()):
                break
            statuses = (pod or {}).get("status", {}).get("containerStatuses") or []
            ended = [each["state"]["terminated"]["exitCode"] for each in statuses if "terminated" in each["state"]]
            if pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed") and ended:
                code = max(ended)
                break
            await asyncio.sleep(POLL_S)
        self._exits.put_nowait(Exit(key, code, SYSTEM.boot(), launch.device_ids, ordered_by=launch.ordered_by))

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        if payload.get("preemptors_pods") == "nominated":
            self._preemptors[key] = payload["preemptor"]

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        if key not in self._ended:
            return
        if (preemptor := self._preemptors.pop(key, "")) and grace_s:
            nomination = Nomination(self._node, preemptor, grace_s)
            while not await nomination.is_settled(await self._connection()):  # noqa: ASYNC110 - the API server is asked
                await asyncio.sleep(POLL_S)
        self._ended[key].set()
        pod, api = await self._pod(key), await self._connection()
        if pod is None:
            return
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        try:
            await mark_disrupted(api, namespace, name, pod["metadata"]["uid"], "ended by Bailiff")
            await api.delete(PODS, name, namespace, uid=pod["metadata"]["uid"], grace_s=1)
        except NotFound:
            return

    async def kill(self, key: TaskKey) -> None:
        await self.terminate(key, 0)

    async def wait_exit(self) -> Exit:
        return await self._exits.get()

    async def forget(self, key: TaskKey) -> None:
        self._ended.pop(key, None)

    async def close(self) -> None:
        for follower in self._followers:
            follower.cancel()
        if self._api is not None:
            await self._api.close()


PLUGIN = RuntimePlugin("kubernetes", PodRuntime)

if __name__ == "__main__":
    registry.MODULES["kubernetes"] = "tests.kits.pods_agent"
    sys.exit(main(NodeAgentSettings, build))
