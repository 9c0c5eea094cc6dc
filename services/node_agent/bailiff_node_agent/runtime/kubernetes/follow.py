"""One pod from its creation to its proven end.

Every step can be repeated: the next agent follows the same pod from where it is. The end is proven by the kubelet's report that
all containers have ended, or where that cannot come any more by the pod's absence from pod-resources; and by its empty cgroup.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import replace

from bailiff_kubernetes import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Object,
    TooManyRequests,
    Unreachable,
    task_hash,
)
from bailiff_kubernetes.names import DISRUPTION_TARGET, FINALIZER, PREEMPTION_BY_SCHEDULER, TASK_RECORD
from bailiff_kubernetes.resources import PODS, uid_of
from bailiff_node_agent.runtime.port import Exit, Running
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.processes import read_process, send
from bailiff_service.logs import logger

from . import pod_status
from .control_server import ControlServer
from .log_follower import LogFollower
from .manifest import CONTAINER, key_of_pod
from .pod_node import PodNode
from .pod_resources import KubeletUnavailable
from .task_files import TaskOrder

POLL_S, FAST_POLL_S = 1.0, 0.1
KILL_GRACE_S = 1
"""The shortest grace that is not "remove the object at once"."""
REMOVED = "its pod was removed from the API server before the kubelet had reported its end"
UNCHECKED = "the agent was replaced before it had checked the devices that the kubelet chose"
CheckDevices = Callable[[tuple[str, ...]], str | None]


class NotStarted(Exception):
    """The task's pod never ran; the message says why."""


class PodFollower:
    """order: what to follow. manifest: the pod to create; None for a workload's pod, which its controller makes.

    check_devices: why the task must not use these devices; None where the agent that knew has been replaced.
    """

    def __init__(self, node: PodNode, order: TaskOrder, manifest: Object | None, check_devices: CheckDevices | None) -> None:
        self.order = order
        self._node, self._manifest, self._check = node, manifest, check_devices
        self._hash = task_hash(str(order.key))
        self.changed = node.changed.setdefault(self._hash, asyncio.Event())
        self.settled = asyncio.Event()
        """Its devices are known, or it has ended."""
        self.started_by = 0
        self.refusal: str | None = None
        self._announced_stop: int | None = None
        self._server: ControlServer | None = None
        self._log: asyncio.Task[None] | None = None

    async def run(self) -> Exit:
        """Until the end is proven; it is on disk then."""
        try:
            end = await self._follow()
        except NotStarted as why:
            end = self._exit(pod_status.UNKNOWN_EXIT, error=str(why)[:900])
        finally:
            await self._stop_serving()
        await asyncio.to_thread(self._node.files.write_exit, end)
        self.settled.set()
        return end

    async def _follow(self) -> Exit:
        pod = await self._placed()
        await self._admitted(pod)
        return await self._ended()

    # --- placement

    async def _placed(self) -> Object:
        """The pod, once a scheduler has bound it to this node. Raises `NotStarted`."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._node.settings.placement_timeout_s
        while True:
            pod = self._node.find(self._hash, self.order.uid)
            if pod is not None:
                await self._take(pod)
                return pod
            if self._node.files.stop(self.order.key) is not None:
                await self._removed_unbound("it was stopped before it was placed")
            if self._manifest is not None and not self.order.uid:
                await self._create(self._manifest)
            if loop.time() >= give_up_at:
                await self._removed_unbound(None)
            await self._wait(min(POLL_S, max(0.0, give_up_at - loop.time()) or POLL_S))

    async def _create(self, manifest: Object) -> None:
        namespace = self.order.namespace
        try:
            pod = await self._node.api.create(PODS, manifest, namespace)
        except AlreadyExists:
            pod = await self._node.api.get(PODS, self.order.name, namespace)
            if key_of_pod(pod) != self.order.key:
                raise NotStarted(f"a pod of its name exists that is not Bailiff's: {namespace}/{self.order.name}") from None
        except (Invalid, Forbidden, NotFound) as error:
            raise NotStarted(f"its pod cannot be created: {error.message}") from None
        except (Unreachable, TooManyRequests, Conflict):
            return
        await self._remember(pod)

    async def _remember(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self.order = replace(self.order, uid=metadata["uid"], name=metadata["name"], namespace=metadata["namespace"])
        await asyncio.to_thread(self._node.files.write_order, self.order)

    async def _take(self, pod: Object) -> None:
        """Take over the pod of a workload: from now on its object stays until its devices are proven free."""
        if not self.order.uid:
            await self._remember(pod)
        if self._manifest is not None or FINALIZER in (pod["metadata"].get("finalizers") or ()):
            return
        patch: Object = {
            "metadata": {
                "uid": uid_of(pod),
                "annotations": {TASK_RECORD: f'{{"ordered_by": {self.order.ordered_by or "null"}}}'},
                "finalizers": [*(pod["metadata"].get("finalizers") or ()), FINALIZER],
            }
        }
        with contextlib.suppress(ApiError):  # without it, an end that nobody reported is proven by the kubelet and the cgroup
            await self._node.api.patch(PODS, self.order.name, patch, self.order.namespace)

    async def _removed_unbound(self, why: str | None) -> None:
        """Give up a pod that has no node: delete exactly that version. Returns where it is bound, or nobody answers."""
        api, namespace = self._node.api, self.order.namespace
        try:
            pods = (await api.list(PODS, namespace or None, labels=f"bailiff.io/task-hash={self._hash}")).items
            pod = next((each for each in pods if not self.order.uid or uid_of(each) == self.order.uid), None)
            if pod is None:
                raise NotStarted(why or "no pod of the workload was opened for this task: its bridge or its controller made none")
            if pod_status.is_bound(pod):
                node = pod["spec"]["nodeName"]
                if node != self._node.node:
                    raise NotStarted(f"its pod was bound to another node, {node}")
                return
            metadata = pod["metadata"]
            await api.delete(
                PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
            await drop_finalizer(self._node, metadata["namespace"], metadata["name"], metadata["uid"])
        except (Unreachable, TooManyRequests, Conflict, NotFound):
            return
        timeout = f"not placed within {self._node.settings.placement_timeout_s:.0f} s: {pod_status.why_not_placed(pod)}"
        raise NotStarted(why or timeout)

    # --- admission by the kubelet

    async def _admitted(self, pod: Object) -> None:
        """Once the kubelet has given it devices: check them, then let the job start."""
        files, key = self._node.files, self.order.key
        running = await asyncio.to_thread(files.running, self.order)
        if running is None:
            devices = await self._devices()
            if devices is None:
                return  # it ended before
            refusal = UNCHECKED if self._check is None else self._check(devices)
            if refusal is not None:
                self.refusal = refusal
                await asyncio.to_thread(files.write_stop, key, KILL_GRACE_S)
            running = Running(key, uid_of(pod), boottime_us(), devices, self.order.ordered_by)
            await asyncio.to_thread(files.write_running, running)
        self.settled.set()
        if self.refusal is None:
            await self._serve()

    async def _devices(self) -> tuple[str, ...] | None:
        """The devices that the kubelet chose; None where the pod has ended."""
        while True:
            pod = self._current()
            if pod is None or pod_status.has_ended(pod):
                return None
            if not self.order.devices and self.order.own_pod:
                return ()
            try:
                resource = self._node.settings.gpu_resource
                prefix = resource.partition("/")[0]
                found = await asyncio.to_thread(
                    self._node.resources.devices_of, self.order.namespace, self.order.name, f"{prefix}/"
                )
            except KubeletUnavailable as problem:
                logger().warning("devices unknown", task=str(self.order.key), why=str(problem))
                found = ()
            if found:
                return found
            if pod_status.is_running(pod) and not self.order.devices:
                return ()
            await self._carry_out_stop()
            await self._wait(FAST_POLL_S)

    async def _serve(self) -> None:
        """The job's control directory, its socket and its log; then its command starts."""
        volumes, uid = self._node.volumes, self.order.uid
        if self._manifest is not None or self.order.own_pod:
            while not volumes.exists(uid):
                pod = self._current()
                if pod is None or pod_status.has_ended(pod):
                    return
                await self._wait(FAST_POLL_S)
        if volumes.exists(uid):
            await asyncio.to_thread(volumes.prepare, uid)
            self.write_lease()
            self._server = ControlServer(volumes.control_dir(uid), self._node.files.task_dir(self.order.key) / "messages.jsonl")
            problem = await self._server.start()
            if problem is not None:
                logger().warning("no socket for the job's messages", task=str(self.order.key), why=problem)
            await asyncio.to_thread(volumes.release, uid)
        self._log = asyncio.create_task(self._follower().run())

    def _follower(self) -> LogFollower:
        namespace, name = self.order.namespace, self.order.name
        return LogFollower(self._node.api, namespace, name, CONTAINER, self._node.task_log(self.order.key))

    def write_lease(self) -> None:
        """Until when the task may run without the agent: the lease, or the deadline of its eviction."""
        limits = [
            limit
            for limit in (self._node.lease[0] if self._node.lease else None, self._node.files.deadline(self.order.key))
            if limit
        ]
        self._node.volumes.allow_until(self.order.uid, min(limits) // 1_000_000 if limits else None)

    async def _stop_serving(self) -> None:
        if self._log is not None:
            self._log.cancel()
            await asyncio.gather(self._log, return_exceptions=True)
        if self._server is not None:
            await self._server.close()

    # --- the end

    async def _ended(self) -> Exit:
        while True:
            await self._carry_out_stop()
            pod = self._current()
            pids = self._node.processes.pids(self.order.uid)
            if pod is not None and pod_status.has_ended(pod) and not pids:
                await self._finish_log()
                code, error = pod_status.exit_of_pod(pod)
                return self._exit(code, error=self.refusal or error)
            if pod is None and not pids and await self._is_gone():
                return self._exit(pod_status.UNKNOWN_EXIT, error=self.refusal or REMOVED, supervisor_lost=True)
            await self._wait(FAST_POLL_S if pod is None or pod_status.has_ended(pod) else POLL_S)

    def _current(self) -> Object | None:
        return self._node.find(self._hash, self.order.uid)

    async def _is_gone(self) -> bool:
        """Whether there is no such pod: not for the API server, and not for the kubelet. The view alone may be behind."""
        try:
            found = await self._node.api.find(PODS, self.order.name, self.order.namespace)
            if found is not None and uid_of(found) == self.order.uid:
                return False
            holdings = await asyncio.to_thread(self._node.resources.holdings)
        except (Unreachable, TooManyRequests, KubeletUnavailable):
            return False
        return not any((held.namespace, held.pod) == (self.order.namespace, self.order.name) for held in holdings)

    async def _carry_out_stop(self) -> None:
        """Delete the pod with the grace that was requested; while the API server is away, signal its processes directly."""
        grace_s = self._node.files.stop(self.order.key)
        pod = self._current()
        if grace_s is None or pod is None or pod_status.has_ended(pod) or self._announced_stop == grace_s:
            return
        name, namespace, uid = self.order.name, self.order.namespace, self.order.uid
        try:
            await self._node.api.patch_status(PODS, name, {"conditions": [self._disruption()]}, namespace, uid=uid)
            await self._node.api.delete(PODS, name, namespace, uid=uid, grace_s=grace_s)
        except (NotFound, Conflict):
            pass  # it is gone, which is seen by itself
        except (Unreachable, TooManyRequests) as problem:
            logger().warning("the API server cannot delete a pod: signalling it", task=str(self.order.key), why=problem.message)
            self._signal(signal.SIGKILL if grace_s == KILL_GRACE_S else signal.SIGTERM)
            return
        self._announced_stop = grace_s
        if grace_s == KILL_GRACE_S:
            self._signal(signal.SIGKILL)  # a kubelet that waits for a longer grace already may not shorten it at once

    def _disruption(self) -> Object:
        reason = self._node.files.reason(self.order.key)
        return {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": (self.refusal or reason or "ended by Bailiff")[:900],
        }

    def _signal(self, number: int) -> None:
        for process in map(read_process, self._node.processes.pids(self.order.uid)):
            if process is not None:
                with contextlib.suppress(PermissionError):
                    send(process, number)

    async def _finish_log(self) -> None:
        await self._stop_serving()
        with contextlib.suppress(ApiError):
            await self._follower().copy(follow=False)

    def _exit(self, code: int, *, error: str | None = None, supervisor_lost: bool = False) -> Exit:
        running = self._node.files.running(self.order)
        stages: tuple[str, ...] = ()
        if self._node.lease and boottime_us() > self._node.lease[0]:
            stages = ("term_sent",)
        return Exit(
            self.order.key,
            code,
            boottime_us(),
            running.device_ids if running is not None else (),
            error=error,
            supervisor_lost=supervisor_lost,
            lease_stages=stages,
            ordered_by=self.order.ordered_by,
        )

    async def _wait(self, timeout_s: float) -> None:
        """Until something happens to the pod, or the time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), timeout_s)
        self.changed.clear()


async def drop_finalizer(node: PodNode, namespace: str, name: str, uid: str) -> None:
    """Let the API server remove the pod's object. Raises `Unreachable`."""
    while True:
        pod = await node.api.find(PODS, name, namespace)
        if pod is None or uid_of(pod) != uid or FINALIZER not in (pod["metadata"].get("finalizers") or ()):
            return
        left = [each for each in pod["metadata"]["finalizers"] if each != FINALIZER]
        version = pod["metadata"]["resourceVersion"]
        patch: Object = {"metadata": {"uid": uid, "resourceVersion": version, "finalizers": left or None}}
        with contextlib.suppress(Conflict, NotFound):
            await node.api.patch(PODS, name, patch, namespace)
            return
