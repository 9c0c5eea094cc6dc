"""One pod from its creation to its proven end.

Every step can be repeated: the next agent follows the same pod from where it is. The end is proven by the kubelet's report that
all containers have ended, or where that cannot come any more by the pod's absence from pod-resources; and by its empty cgroup.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

from bailiff_kubernetes import Object, TooManyRequests, Unreachable, task_hash
from bailiff_kubernetes.resources import PODS, uid_of
from bailiff_node_agent.runtime.host_processes import looking
from bailiff_node_agent.runtime.port import Exit, Running, TaskKey
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.journal import Journal
from bailiff_node_agent.runtime.supervisor.notice import write_notice
from bailiff_service.logs import logger

from . import checkpoint_notes, pod_status
from .claims import difference
from .control_server import ControlServer
from .log_follower import LogFollower
from .manifest import CONTAINER
from .placement import NotStarted, Placement
from .pod_node import PodNode
from .pod_resources import KubeletUnavailable
from .stopping import KILL_GRACE_S, REQUEST_S, PodStop
from .task_files import TaskOrder

POLL_S, FAST_POLL_S, IDLE_POLL_S = 1.0, 0.1, 30.0
REMOVED = "its pod was removed from the API server before the kubelet had reported its end"
REBOOTED = "its node has booted anew since it was started"
UNCHECKED = "the agent was replaced before it had checked the devices that the kubelet chose"
CheckDevices = Callable[[tuple[str, ...]], str | None]


class PodFollower:
    """order: what to follow. manifest: the pod to create; None for a workload's pod, which its controller makes.

    check_devices: why the task must not use these devices; None where the agent that knew has been replaced. has_message: called
    when a message was noted that did not come through the job's socket.
    """

    def __init__(
        self,
        node: PodNode,
        order: TaskOrder,
        manifest: Object | None,
        check_devices: CheckDevices | None,
        has_message: Callable[[TaskKey], None],
    ) -> None:
        self._node, self._check, self._has_message = node, check_devices, has_message
        self._journal, self._writing = Journal.resume(str(node.files.task_dir(order.key) / "messages.jsonl")), asyncio.Lock()
        self._note = node.files.note.read(order.key)
        self._placement, self._stop = Placement(node, order, manifest, self._wait), PodStop(node)
        self._hash = task_hash(str(order.key))
        self.changed = node.changed.setdefault(self._hash, asyncio.Event())
        self.settled = asyncio.Event()
        """Its command may run, or it has ended."""
        self.has_started = False
        self.refusal: str | None = None
        self._fails_since: float | None = None
        """Since when the kubelet cannot start its containers, on the loop's clock."""
        self._server: ControlServer | None = None
        self._log: asyncio.Task[None] | None = None

    @property
    def order(self) -> TaskOrder:
        """What is followed, with the pod's uid once that is known."""
        return self._placement.order

    async def run(self) -> Exit:
        """Until the end is proven; it is on disk then."""
        try:
            end = await self._follow()
        except NotStarted as why:
            end = self._exit(pod_status.UNKNOWN_EXIT, error=str(why)[:900], supervisor_lost=True)
        finally:
            await self._stop_serving()
        await self._node.files.off_loop(self._node.files.write_exit, end)
        self.settled.set()
        return end

    async def _follow(self) -> Exit:
        pod = await self._placement.placed()
        await self._admitted(pod)
        return await self._ended()

    # --- admission by the kubelet

    async def _admitted(self, pod: Object) -> None:
        """Once the kubelet has given it devices: check them, then let the job start."""
        files, key = self._node.files, self.order.key
        running = await files.off_loop(files.running, self.order)
        if running is None:
            devices = await self._devices()
            if devices is None:
                return  # it ended before
            refusal = UNCHECKED if self._check is None else await self._difference(devices) or self._check(devices)
            if refusal is not None:
                self.refusal = refusal
                await files.off_loop(files.stop.write, key, KILL_GRACE_S)
            running = Running(key, uid_of(pod), boottime_us(), devices, self.order.ordered_by)
            await files.off_loop(files.write_running, running)
        if self.refusal is None and not await self._starts():
            return
        self.has_started = True
        if self.refusal is None:
            await self._serve()
        self.settled.set()

    async def _starts(self) -> bool:
        """Once the kubelet has started a container of it: True. False: it has ended before."""
        while True:
            pod = self._current()
            if pod is None or pod_status.has_ended(pod):
                return pod is not None and pod_status.is_running(pod)
            if pod_status.is_running(pod):
                return True
            await self._end_if_stuck(pod)
            await self._wait(POLL_S)

    async def _end_if_stuck(self, pod: Object) -> None:
        """End a pod whose containers the kubelet could not start for `placement_timeout_s`, with the kubelet's own reason."""
        why, now, limit_s = (
            pod_status.why_not_started(pod),
            asyncio.get_running_loop().time(),
            self._node.settings.placement_timeout_s,
        )
        if why and self._fails_since is None:
            self._fails_since = now
        if why and self.refusal is None and self._fails_since is not None and now - self._fails_since >= limit_s:
            self.refusal = f"not started within {limit_s:.0f} s: {why}"
            await self._node.files.off_loop(self._node.files.stop.write, self.order.key, KILL_GRACE_S)
        await self._stop.carry_out(self.order, pod, self.refusal)

    async def _difference(self, devices: tuple[str, ...]) -> str | None:
        """Why these are not the devices that it claims; asked until the API server answers. None where the kubelet chooses."""
        claims = self._node.files.claims.read(self.order.key)
        if not claims:
            return None
        while True:
            try:
                async with asyncio.timeout(REQUEST_S):
                    return await difference(self._node, self.order, claims, devices)
            except (Unreachable, TooManyRequests, TimeoutError):
                await self._stop.carry_out(self.order, self._current(), self.refusal)
                await self._wait(POLL_S)

    async def _devices(self) -> tuple[str, ...] | None:
        """The devices that the kubelet gave it, as placed where they are the same; None where the pod has ended."""
        is_known = True
        while True:
            pod = self._current()
            if pod is None or pod_status.has_ended(pod):
                return None
            if not self._node.reaches_node:
                if pod_status.is_running(pod):
                    return self.order.devices  # slots, which the log has chosen
                await self._end_if_stuck(pod)
                await self._wait(POLL_S)
                continue
            if not self.order.devices and self.order.own_pod:
                return ()
            try:
                resource = self._node.settings.gpu_resource
                prefix = resource.partition("/")[0]
                found = await asyncio.to_thread(
                    self._node.resources.devices_of, self.order.namespace, self.order.name, f"{prefix}/"
                )
            except KubeletUnavailable as problem:
                if is_known:  # one warning an outage
                    logger().warning("devices unknown", task=str(self.order.key), why=str(problem))
                is_known, found = False, ()
            is_running = pod_status.is_running(pod)
            if found and (len(found) >= len(self.order.devices) or is_running):  # claims are prepared one after the other
                return self.order.devices if set(found) == set(self.order.devices) else found
            if is_running and not self.order.devices:
                return ()
            await self._stop.carry_out(self.order, self._current(), self.refusal)
            await self._wait(FAST_POLL_S)

    async def _serve(self) -> None:
        """The job's control directory, its socket and its log; then its command starts."""
        if not self._node.reaches_node:
            return
        volumes, uid = self._node.volumes, self.order.uid
        if self.order.own_pod:
            while not volumes.exists(uid):
                pod = self._current()
                if pod is None or pod_status.has_ended(pod):
                    return
                await self._wait(FAST_POLL_S)
        if volumes.exists(uid):
            await asyncio.to_thread(volumes.prepare, uid)
            self.write_lease()
            await self.notice()
            self._server = ControlServer(volumes.control_dir(uid), self._journal, self._writing)
            problem = await self._server.start()
            if problem is not None:
                logger().warning("no socket for the job's messages", task=str(self.order.key), why=problem)
            await asyncio.to_thread(volumes.release, uid)
        self._log = asyncio.create_task(self._follower().run())

    def _follower(self) -> LogFollower:
        """Of the first container: a workload's pod has its own name for it."""
        pod, log = self._current(), self._node.task_log(self.order.key)
        container = CONTAINER if pod is None else pod["spec"]["containers"][0]["name"]
        return LogFollower(self._node.api, self.order.namespace, self.order.name, container, log)

    def write_lease(self) -> None:
        """Until when the task may run without the agent: the lease, or the deadline of its eviction."""
        limits = [
            limit
            for limit in (self._node.lease[0] if self._node.lease else None, self._node.files.deadline.read(self.order.key))
            if limit
        ]
        if limits:  # an agent that knows no lease yet leaves the limit that the one before has set
            self._node.volumes.allow_until(self.order.uid, min(limits) // 1_000_000)

    async def notice(self) -> None:
        """Deliver the eviction notice, if there is one and the pod has a control directory; else it is delivered with that."""
        if self._node.files.eviction.read(self.order.key) is not None:
            await self._stop.mark(self.order, self._current())
            await self._node.files.off_loop(self._write_notice)

    def _write_notice(self) -> None:
        eviction = self._node.files.eviction.read(self.order.key)
        folder = self._node.volumes.control_dir(self.order.uid or "none")
        if eviction is None or not safe_open.exists(str(folder), "steps"):
            return
        deadlines = eviction["soft_us"], eviction["hard_us"]
        task_dir, only = str(self._node.files.task_dir(self.order.key)), self.order.is_only_task
        write_notice(task_dir, str(folder), eviction["payload"], *deadlines, is_only_task=only)
        with contextlib.suppress(OSError):  # the job may have moved it
            safe_open.set_mode(str(folder), "notice.json", 0o644)

    async def _stop_serving(self) -> None:
        if self._log is not None:
            self._log.cancel()
            await asyncio.gather(self._log, return_exceptions=True)
        if self._server is not None:
            await self._server.close()

    async def _note_checkpoint(self, pod: Object | None) -> None:
        """What the pod's annotations say about the job's last checkpoint, once for each change."""
        note = None if pod is None else checkpoint_notes.note_of(pod)
        if note is None or [*note] == self._note:
            return
        self._note, key = [*note], self.order.key
        try:
            message, age = checkpoint_notes.message_of(note), checkpoint_notes.age_us(note, datetime.now(UTC))
        except ValueError as problem:
            logger().warning("a checkpoint's annotations are not readable", task=str(key), why=str(problem))
            return
        async with self._writing:
            await self._node.files.off_loop(self._journal.add, message, max(0, boottime_us() - age))
            await self._node.files.off_loop(self._node.files.note.write, key, self._note)
        self._has_message(key)

    # --- the end

    async def _ended(self) -> Exit:
        while True:
            await self._stop.carry_out(self.order, self._current(), self.refusal)
            pod = self._current()
            await self._note_checkpoint(pod)
            pids = await looking(self._node.processes.pids, self.order.uid)
            if pod is not None and pod_status.has_ended(pod) and not pids:
                await self._finish_log()
                return self._exit_of(pod)
            if pod is None and not pids and await self._is_gone():
                await self._node.files.off_loop(self._node.doubt, self.order.devices, self.order.namespace, self.order.name)
                return self._exit(pod_status.UNKNOWN_EXIT, error=self.refusal or REMOVED, supervisor_lost=True)
            await self._wait(self._pause(pod))

    def _exit_of(self, pod: Object) -> Exit:
        """As the kubelet reports it. It is no exit of the job where its container never ran, or ended with the machine."""
        files, key = self._node.files, self.order.key
        code, error = pod_status.exit_of_pod(pod)
        is_lost = pod_status.was_rejected(pod) and (self.refusal is not None or files.stop.read(key) is None)
        if self._node.reaches_node and code in pod_status.ENDED_WITH_MACHINE and files.is_of_earlier_boot(key):
            is_lost, error = True, REBOOTED
        return self._exit(code, error=self.refusal or self._stop.budget_note(self.order) or error, supervisor_lost=is_lost)

    def _pause(self, pod: Object | None) -> float:
        """The longest time until the next look. Changes of the object end it; processes are polled."""
        if pod is None or pod_status.has_ended(pod):
            return FAST_POLL_S if self._node.reaches_node else POLL_S
        if self._stop.waits_for_room:
            return FAST_POLL_S
        return POLL_S if self._node.reaches_node or self._stop.is_due(self.order) else IDLE_POLL_S

    def _current(self) -> Object | None:
        return self._node.find(self._hash, self.order.uid)

    async def _is_gone(self) -> bool:
        """Whether there is no such pod: not for the API server, and not for the kubelet. The view alone may be behind."""
        try:
            found = await self._node.api.find(PODS, self.order.name, self.order.namespace)
            if found is not None and uid_of(found) == self.order.uid:
                return False
            pod_devices = await asyncio.to_thread(self._node.resources.pod_devices)
        except (Unreachable, TooManyRequests, KubeletUnavailable):
            return False
        return not any((held.namespace, held.pod) == (self.order.namespace, self.order.name) for held in pod_devices)

    async def _finish_log(self) -> None:
        await self._stop_serving()
        if not self._node.reaches_node:
            return
        problem = await self._follower().finish()
        if problem is not None:
            logger().warning("the end of a task's log is missing", task=str(self.order.key), why=str(problem) or "no answer")

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
            begun=self.has_started,
        )

    async def _wait(self, timeout_s: float) -> None:
        """Until something happens to the pod, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):  # `wait_for` of Python 3.11 may swallow a cancellation
                await self.changed.wait()
        self.changed.clear()
