"""Pods of one node behind the runtime port. `follow` does the work; here are the port's calls and what survives the agent."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bailiff_kubernetes import Api, ApiError, Object, TooManyRequests, Unreachable, pod_name, task_hash
from bailiff_kubernetes.names import NOTICE, TASK_HASH
from bailiff_kubernetes.resources import PODS, key_of, labels_of
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime import control_dir
from bailiff_node_agent.runtime.job_files import remove_tree
from bailiff_node_agent.runtime.message_watcher import MessageWatcher
from bailiff_node_agent.runtime.plugin import NodeParts
from bailiff_node_agent.runtime.port import (
    Capabilities,
    Exit,
    JobMessage,
    Launch,
    Pod,
    Running,
    Runtime,
    Steps,
    TaskKey,
    TaskStillRunning,
)
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.notice import withdraw_notice

from . import pod_status
from .claims import claims_of, use_claims
from .cluster_pods import ClusterPodNode
from .cluster_view import ClusterNode
from .follow import CheckDevices, PodFollower
from .manifest import grace_seconds, pod_of
from .placement import find_orders, remove_pod, remove_unplaced
from .pod_node import PodNode
from .pod_processes import PodProcesses
from .pod_resources import PodResources
from .pod_shell import PodShell, end_shell
from .published import PublishedDevices
from .stopping import KILL_GRACE_S
from .task_files import TaskFiles, TaskOrder, order_of
from .unreached_node import ClusterResources, NoProcesses, NoVolumes
from .volumes import PodVolumes

LIST_TIMEOUT_S = 10.0
MOST_SHELLS, SHELLS_END_WITHIN_S = 64, 5.0
DEFAULT_GRACE_S = 30


class KubernetesRuntime(Runtime):
    """folder: what the agent keeps about its pods. node: its name in Kubernetes. cluster_node: where only the API describes it.
    published: the devices that can be claimed one by one.

    What the API alone does not give: a control directory, a lease, logs, and sight of processes.
    """

    def __init__(
        self,
        folder: Path,
        node: str,
        settings: KubernetesSettings,
        cluster_node: ClusterNode | None = None,
        published: PublishedDevices | None = None,
    ) -> None:
        self._name, self._settings, self._cluster_node = node, settings, cluster_node
        self._files = TaskFiles(folder, flushed=cluster_node is None)  # flushes for very many nodes would keep one disk busy
        self._published = published or PublishedDevices(settings, node)
        if cluster_node is None:
            self._volumes: PodVolumes | NoVolumes = PodVolumes(settings.kubelet_dir)
            self._processes: PodProcesses | NoProcesses = PodProcesses()
            self._resources: PodResources | ClusterResources = PodResources(settings.pod_resources_socket, self._published)
        else:
            self._volumes, self._processes, self._resources = NoVolumes(), NoProcesses(), ClusterResources(cluster_node)
        self._noted: asyncio.Queue[TaskKey] = asyncio.Queue()
        self._connecting = asyncio.Lock()
        self._connected: PodNode | None = None
        self._view: asyncio.Task[None] | None = None
        self._lease = self._files.lease()
        self._followers: dict[TaskKey, PodFollower] = {}
        self._following: dict[TaskKey, asyncio.Task[None]] = {}
        self._starting: set[TaskKey] = set()
        self._locks: dict[TaskKey, asyncio.Lock] = {}
        self._ended: asyncio.Queue[Exit | BaseException] = asyncio.Queue()
        self._watcher = MessageWatcher(self._files.task_dir, self._control_dir)
        self._shell_api: Api | None = None
        """A connection of its own: open shells must not keep other requests waiting."""
        self._shells = set[asyncio.Task[None]]()

    @property
    def capabilities(self) -> Capabilities:
        """Several pods can have one device where they claim it. Only from the node itself are releases seen."""
        on_node = self._cluster_node is None
        return Capabilities(
            images=True,
            host_resources=False,
            shares_gpus=on_node and self._published.are_exact,
            outlives_agent=on_node,
            starts_slowly=True,
            sees_release=on_node,
        )

    # --- start

    async def adopt(self) -> list[Running | Exit]:
        node = await self._node()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIST_TIMEOUT_S):
                await node.wait_for_list()
        await asyncio.to_thread(find_orders, node)
        if self._cluster_node is None:
            await remove_unplaced(node)
        states: list[Running | Exit] = []
        for key in self._files.tasks():
            order = self._files.order(key)
            state = self._present(node, order)
            if isinstance(state, Running):
                manifest = self._files.manifest.read(key) if order.own_pod and not order.uid else None
                self._follow(node, order, manifest, None)
                if left := self._files.shells.read(key):
                    self._keep(self._end_shells(order, left))
            states.append(state)
        return states

    def _present(self, node: PodNode, order: TaskOrder) -> Running | Exit:
        """The state of a task that was ordered before, of which the pod may not be placed, or not run yet."""
        if (end := self._files.exit(order.key)) is not None:
            return end
        pod, running = node.find(task_hash(str(order.key)), order.uid), self._files.running(order)
        if running is None:
            return Running(order.key, order.uid or order.name, boottime_us(), (), order.ordered_by, begun=False)
        return replace(running, begun=pod is not None and pod_status.is_running(pod))

    async def start(self, launch: Launch) -> Running | Exit:
        node = await self._node()
        async with self._locks.setdefault(launch.key, asyncio.Lock()):
            if (self._files.task_dir(launch.key) / "order.json").exists():
                return self._present(node, self._files.order(launch.key))
            self._starting.add(launch.key)
            workload = launch.workload
            namespace = self._settings.namespace if workload is None else workload.namespace
            order = order_of(launch, namespace, "" if workload is not None else pod_name(str(launch.key)))
            manifest = self._manifest(launch, namespace) if workload is None else None
            claims = claims_of(launch, namespace, self._settings, self._published) if manifest is not None else []
            if manifest is not None and claims:
                use_claims(manifest, claims)
            await self._files.off_loop(self._files.write_order, order, manifest, claims)
            follower = self._follow(node, order, manifest, launch.check_devices or _any_devices)
            await follower.settled.wait()
            self._starting.discard(launch.key)
            state = self._files.running(order) if follower.has_started else self._files.exit(launch.key)
            assert state is not None, "a follower settles with a start or with an end"
            return state

    async def begun(self, key: TaskKey) -> bool:
        follower = self._followers.get(key)
        if follower is None:
            return False
        await follower.settled.wait()
        return follower.has_started

    def _manifest(self, launch: Launch, namespace: str) -> Object:
        grace_s = grace_seconds(self._lease[1] / 1_000_000) if self._lease else DEFAULT_GRACE_S
        resource = launch.device_resource or self._settings.gpu_resource
        pod = pod_of(launch, self._name, namespace, resource, grace_s, reaches_node=self._cluster_node is None)
        pod["spec"]["tolerations"] = [{"key": key, "operator": "Exists"} for key in self._settings.tolerated_taints]
        return pod

    def _follow(self, node: PodNode, order: TaskOrder, manifest: Object | None, check: CheckDevices | None) -> PodFollower:
        follower = self._followers[order.key] = PodFollower(node, order, manifest, check, self._has_message)
        self._following[order.key] = asyncio.create_task(self._run(follower))
        return follower

    async def _run(self, follower: PodFollower) -> None:
        key = follower.order.key
        try:
            end = await follower.run()
        except Exception as problem:  # noqa: BLE001 - whoever waits for exits must see it
            follower.settled.set()
            self._ended.put_nowait(problem)
            return
        self._watcher.poll_slowly(key)
        if key not in self._starting or follower.has_started:
            self._ended.put_nowait(end)

    def _has_message(self, key: TaskKey) -> None:
        if self._cluster_node is not None:  # on the node itself, the journal is watched
            self._noted.put_nowait(key)

    def task_pods(self) -> set[Pod]:
        return {key_of(pod) for pod in self._connected.task_pods()} if self._connected is not None else set()

    def pod_of(self, key: TaskKey) -> Pod:
        follower = self._followers.get(key)
        order = follower.order if follower is not None else self._order(key)
        return order.namespace, order.name

    async def may_be_task(self, namespace: str, name: str) -> bool:
        """Whether the API server says that this pod is a task's, or says nothing."""
        try:
            pod = await (await self._node()).api.find(PODS, name, namespace)
        except (Unreachable, TooManyRequests):
            return True
        return pod is not None and TASK_HASH in labels_of(pod)

    # --- eviction

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        self._files.known(key)
        eviction = {"payload": dict(payload), "soft_us": soft_us, "hard_us": hard_us}
        await self._files.off_loop(self._files.eviction.write, key, eviction)
        self._watcher.poll_fast(key)
        follower = self._followers.get(key)
        if follower is not None:
            await follower.notice()
        order = follower.order if follower is not None else self._order(key)
        await self._annotate(order, json.dumps(dict(payload), default=str))

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:  # noqa: ARG002 - the probe's grace ends with KILL
        self._files.known(key)
        self._files.deadline.write(key, term_us)
        self._write_lease(key)

    async def cancel_eviction(self, key: TaskKey) -> None:
        folder = self._files.known(key)
        self._files.withdraw(key)
        await self._files.off_loop(withdraw_notice, str(folder), str(self._control_dir(key)))
        self._watcher.poll_slowly(key)
        self._write_lease(key)
        self._wake(key)
        await self._annotate(self._order(key), None)

    async def _annotate(self, order: TaskOrder, notice: str | None) -> None:
        """For people and controllers that look at the pod. The job itself reads the file, so a failure changes nothing."""
        node = await self._node()
        if order.uid:
            patch = {"metadata": {"uid": order.uid, "annotations": {NOTICE: notice}}}
            with contextlib.suppress(ApiError):
                await node.api.patch(PODS, order.name, patch, order.namespace)

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        self._files.known(key)
        await self._files.off_loop(self._files.stop.write, key, grace_seconds(grace_s))
        self._wake(key)

    async def kill(self, key: TaskKey) -> None:
        self._files.known(key)
        await self._files.off_loop(self._files.stop.write, key, KILL_GRACE_S)
        self._wake(key)

    def renew(self, until_us: int, grace_us: int) -> None:
        self._lease = until_us, grace_us
        self._files.write_lease(self._lease)
        if self._connected is not None:
            self._connected.lease = self._lease
        for key in self._following:
            self._write_lease(key)

    def _write_lease(self, key: TaskKey) -> None:
        follower = self._followers.get(key)
        if follower is not None and follower.order.uid:
            follower.write_lease()

    def _wake(self, key: TaskKey) -> None:
        follower = self._followers.get(key)
        if follower is not None:
            follower.changed.set()

    # --- messages

    def propose_step(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        self._files.known(key)
        control_dir.propose_step(self._control_dir(key), step, agreed=agreed)

    def steps(self, key: TaskKey) -> Steps:
        return control_dir.read_steps(self._control_dir(key))

    def messages(self, key: TaskKey, after: int = 0) -> list[JobMessage]:
        return self._watcher.messages(key, after)

    async def wait_message(self) -> TaskKey:
        if self._cluster_node is not None:
            return await self._noted.get()  # its jobs have no socket
        return await self._watcher.wait(self._following)

    # --- the state of a task

    async def wait_exit(self) -> Exit:
        end = await self._ended.get()
        if isinstance(end, BaseException):
            raise end
        return end

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        uid = self._uid(key)
        return self._processes.pids(uid) if uid else ()

    def memory(self, key: TaskKey) -> int:
        uid = self._uid(key)
        return self._processes.memory(uid) if uid else 0

    def log_path(self, key: TaskKey) -> Path | None:
        return None if self._cluster_node is not None else self._files.known(key) / "log"

    # --- shells

    def has_shell(self, key: TaskKey) -> bool:
        """In pods of `bailiff submit`, where the agent may: the owner of an ordinary workload has rights of their own to it."""
        return self._settings.shells and self._order(key).own_pod

    async def open_shell(self, key: TaskKey) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if len(self._shells) >= MOST_SHELLS:
            raise OSError(f"{MOST_SHELLS} shells are open in pods of this agent")
        order = self._order(key)
        shell = await PodShell.start(await self._api_of_shells(), order)
        self._files.shells.write(key, [*(self._files.shells.read(key) or []), shell.pid])
        ours, theirs = socket.socketpair()
        self._keep(self._relay(order, shell, theirs))
        return await asyncio.open_unix_connection(sock=ours)

    async def _relay(self, order: TaskOrder, shell: PodShell, connection: socket.socket) -> None:
        await shell.relay(connection)
        await self._end_shells(order, [shell.pid])

    async def _end_shells(self, order: TaskOrder, pids: list[str]) -> None:
        api = await self._api_of_shells()
        for pid in pids:
            if await end_shell(api, order, pid) and self._files.task_dir(order.key).exists():
                self._files.shells.write(order.key, [each for each in self._files.shells.read(order.key) or [] if each != pid])

    async def _api_of_shells(self) -> Api:
        async with self._connecting:
            if self._shell_api is None:
                self._shell_api = await Api.connect(self._settings.kubeconfig)
            return self._shell_api

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        self._shells.add(task := asyncio.create_task(work))
        task.add_done_callback(self._shells.discard)

    async def forget(self, key: TaskKey) -> None:
        folder = self._files.known(key)
        if self._files.exit(key) is None:
            raise TaskStillRunning(f"{key} has not exited")
        node, order = await self._node(), self._order(key)
        await remove_pod(node, order)
        self._watcher.forget(key)
        self._processes.forget(order.uid)
        node.changed.pop(task_hash(str(key)), None)
        for by_task in (self._followers, self._following, self._locks):
            by_task.pop(key, None)
        await self._files.off_loop(remove_tree, folder)

    async def close(self) -> None:
        if self._shells:  # they end with their connections
            await asyncio.wait(self._shells, timeout=SHELLS_END_WITHIN_S)
        tasks = [*self._shells, *self._following.values(), *([self._view] if self._view is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connected is not None:
            if self._cluster_node is None:
                await self._connected.api.close()
            self._connected = None
        if self._shell_api is not None:
            await self._shell_api.close()
        self._resources.close()

    async def _node(self) -> PodNode:
        async with self._connecting:
            if self._connected is None:
                self._connected = await self._connect()
                self._view = asyncio.create_task(self._connected.follow())
            return self._connected

    async def _connect(self) -> PodNode:
        parts = (self._volumes, self._processes, self._resources)
        if self._cluster_node is not None:
            api = self._cluster_node.cluster.api
            shared = (self._name, self._settings, self._files, api, *parts)
            return ClusterPodNode(*shared, published=self._published, member=self._cluster_node)
        api = await Api.connect(self._settings.kubeconfig)
        return PodNode(self._name, self._settings, self._files, api, *parts, self._lease, published=self._published)

    def _order(self, key: TaskKey) -> TaskOrder:
        return self._files.order(key)

    def _uid(self, key: TaskKey) -> str:
        follower = self._followers.get(key)
        if follower is not None:
            return follower.order.uid
        return self._files.order(key).uid if (self._files.task_dir(key) / "order.json").exists() else ""

    def _control_dir(self, key: TaskKey) -> Path:
        return self._volumes.control_dir(self._uid(key) or "unknown")


def _any_devices(_: tuple[str, ...]) -> str | None:
    return None


def open_runtime(parts: NodeParts) -> KubernetesRuntime:
    folder, settings = parts.folder / "kubernetes", parts.settings.kubernetes
    return KubernetesRuntime(folder, parts.node, settings, parts.cluster_node, parts.published)
