"""The eviction of a pod: its condition names both sides, and TERM and KILL delete it with the grace.

Where disruption budgets are respected, TERM is a request to the eviction API. While a budget forbids the eviction it is requested
again every second; at the end of the grace KILL deletes the pod all the same, and its exit says so.

The pod has its condition, and no Job counts its end, before its program learns of the eviction, for it may exit at once.
"""

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bailiff_kubernetes import ApiError, BudgetForbids, Conflict, Forbidden, NotFound, Object, TooManyRequests, Unreachable
from bailiff_kubernetes.disruption import disruption, mark_disrupted, unmark_disrupted
from bailiff_kubernetes.names import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from bailiff_kubernetes.resources import PODS, condition_of
from bailiff_node_agent.runtime.host_processes import looking
from bailiff_node_agent.runtime.supervisor.processes import read_process, send
from bailiff_service.logs import logger

from . import pod_status
from .nominations import Nomination
from .pod_node import PodNode
from .task_files import TaskOrder

KILL_GRACE_S = 1
"""The shortest grace that is not "remove the object at once"."""
REQUEST_S = 5.0
"""How long the API server may take before the pod's processes are signalled instead."""
REFRESH = timedelta(minutes=1)
"""Kubernetes' disruption controller sets the condition of a pod that nobody deletes to False after two minutes."""


class PodStop:
    """Carries out what is on disk about the pod's end. Every step can be repeated, by the next agent as well."""

    def __init__(self, node: PodNode) -> None:
        self._node = node
        self._deleted_with: int | None = None
        self._is_away = False
        self._nomination: Nomination | None = None
        self.waits_for_room = False
        """Whether TERM waits until the preemptor's pods are nominated to this node."""
        self._marked: bool | None = None
        """Whether the pod has the condition by Bailiff's word; None: an earlier agent may have set it."""

    async def mark(self, order: TaskOrder, pod: Object | None, refusal: str | None = None) -> None:
        """Before the notice: give the pod its condition. While the API server is away, the notice does not wait for it."""
        with contextlib.suppress(NotFound, Conflict, Unreachable, TooManyRequests, TimeoutError):
            async with asyncio.timeout(REQUEST_S):
                await self._mark(order, pod, refusal)

    async def carry_out(self, order: TaskOrder, pod: Object | None, refusal: str | None) -> None:
        """Condition and delete, as far as they are due; while the API server is away, signal the pod's processes directly."""
        if pod is None or pod_status.has_ended(pod):
            return
        grace_s = self._node.files.stop.read(order.key)
        if grace_s is not None and grace_s == self._deleted_with:
            return
        try:
            async with asyncio.timeout(REQUEST_S):
                await self._mark(order, pod, refusal)
                if grace_s is not None and not await self._delete(order, pod, grace_s):
                    return
        except (NotFound, Conflict):
            return  # it is gone, which is seen by itself, or has changed, and then this is repeated
        except (Unreachable, TooManyRequests, TimeoutError) as problem:
            if not self._is_away:
                logger().warning("the API server cannot end a pod", task=str(order.key), why=str(problem) or "it does not answer")
            self._is_away = True
            if grace_s == KILL_GRACE_S:
                await self._signal(order, signal.SIGKILL)
            elif grace_s is not None and (order.own_pod or self._marked):
                await self._signal(order, signal.SIGTERM)  # without the condition, its controller would count a failure
            return
        self._deleted_with, self._is_away = grace_s, False
        if grace_s == KILL_GRACE_S:
            await self._signal(order, signal.SIGKILL)  # a kubelet that waits for a longer grace may not shorten it at once

    async def _delete(self, order: TaskOrder, pod: Object, grace_s: int) -> bool:
        """Whether the API server will end the pod: until the grace ends it may wait for nominated pods, or a budget."""
        self.waits_for_room = grace_s != KILL_GRACE_S and not await self._is_room_kept(order, grace_s)
        if self.waits_for_room:
            return False
        if grace_s != KILL_GRACE_S and self._respects_budgets(order):
            return await self._evict(order, pod, grace_s)
        await self._node.api.delete(PODS, order.name, order.namespace, uid=order.uid, grace_s=grace_s)
        return True

    async def _is_room_kept(self, order: TaskOrder, grace_s: int) -> bool:
        """Whether no pod of others would get what this one releases, as far as that is waited for."""
        eviction = self._node.files.eviction.read(order.key)
        if eviction is None or eviction["payload"].get("preemptors_pods") != "nominated":
            return True
        self._nomination = self._nomination or Nomination(self._node.node, eviction["payload"]["preemptor"], grace_s)
        return await self._nomination.is_settled(self._node.api)

    def _respects_budgets(self, order: TaskOrder) -> bool:
        eviction = self._node.files.eviction.read(order.key)
        return eviction is not None and eviction["payload"].get("disruption_budgets") == "respect"

    async def _evict(self, order: TaskOrder, pod: Object, grace_s: int) -> bool:
        """Whether the eviction API has accepted it. It has replaced the condition by one that does not name the preemptor."""
        try:
            await self._node.api.evict(pod, grace_s)
        except (BudgetForbids, Forbidden) as refusal:
            if self._node.files.budget_refusal.read(order.key) is None:
                logger().warning("a disruption budget forbids an eviction", task=str(order.key), why=refusal.message)
                self._node.files.budget_refusal.write(order.key, refusal.message)
            return False
        with contextlib.suppress(ApiError):
            await mark_disrupted(self._node.api, order.namespace, order.name, order.uid, self._reason(order, None))
        return True

    def budget_note(self, order: TaskOrder) -> str | None:
        """What became of the disruption budget, for the record of the exit; None where none forbade anything."""
        refusal = self._node.files.budget_refusal.read(order.key)
        if refusal is None:
            return None
        if self._node.files.stop.read(order.key) == KILL_GRACE_S:
            return f"deleted at the end of its grace although its disruption budget forbade it: {refusal}"[:900]
        return f"evicted when its disruption budget allowed it; before: {refusal}"[:900]

    def is_due(self, order: TaskOrder) -> bool:
        """Whether a stop was requested that has not reached the API server."""
        grace_s = self._node.files.stop.read(order.key)
        return grace_s is not None and self._deleted_with != grace_s

    def _reason(self, order: TaskOrder, refusal: str | None) -> str:
        eviction = self._node.files.eviction.read(order.key)
        return refusal or (_both_sides(eviction["payload"]) if eviction is not None else None) or "ended by Bailiff"

    async def _mark(self, order: TaskOrder, pod: Object | None, refusal: str | None) -> None:
        """Have the condition on the pod while it is evicted or stopped, and take it away when its eviction is cancelled."""
        if not order.uid:
            return  # its pod is not known yet: `carry_out` does it once it is
        if self._node.files.eviction.read(order.key) is None and self._node.files.stop.read(order.key) is None:
            if pod is not None and (self._marked or (self._marked is None and _is_left(pod))):
                await unmark_disrupted(self._node.api, pod)
                self._marked = False
            return
        reason = self._reason(order, refusal)
        if pod is None or not _is_marked(pod, reason):
            await mark_disrupted(self._node.api, order.namespace, order.name, order.uid, reason)
        self._marked = True

    async def _signal(self, order: TaskOrder, number: int) -> None:
        for process in map(read_process, await looking(self._node.processes.pids, order.uid)):
            if process is not None:
                with contextlib.suppress(PermissionError):
                    send(process, number)


def _is_left(pod: Object) -> bool:
    """Whether the pod has a condition whose eviction may have been cancelled: nobody deletes the pod."""
    found = condition_of(pod, DISRUPTION_TARGET)
    is_set = found is not None and (found["status"], found.get("reason")) == ("True", PREEMPTION_BY_SCHEDULER)
    return is_set and pod["metadata"].get("deletionTimestamp") is None


def _is_marked(pod: Object, reason: str) -> bool:
    """Whether the pod has this condition, and not for so long that Kubernetes will soon take it for forgotten."""
    found = condition_of(pod, DISRUPTION_TARGET)
    if found is None or (found["status"], found.get("message")) != ("True", disruption(reason)["message"]):
        return False
    since = datetime.fromisoformat(found.get("lastTransitionTime") or "1970-01-01T00:00:00Z")
    return datetime.now(UTC) - since < REFRESH


def _both_sides(payload: Mapping[str, Any]) -> str:
    """The eviction in one sentence, with the job that preempts."""
    preemptor = payload.get("preemptor")
    by = f" by job {preemptor}" if preemptor else ""
    return f"preempted{by}: {payload.get('reason', '')}".rstrip(": ")
