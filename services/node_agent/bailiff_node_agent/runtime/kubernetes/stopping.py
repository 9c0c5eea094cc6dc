"""TERM and KILL for a pod: its condition names both sides, then it is deleted with the grace.

Where disruption budgets are respected, TERM is a request to the eviction API. While a budget forbids the eviction it is requested
again every second; at the end of the grace KILL deletes the pod all the same, and its exit says so.
"""

import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from bailiff_kubernetes import ApiError, BudgetForbids, Conflict, Forbidden, NotFound, Object, TooManyRequests, Unreachable
from bailiff_kubernetes.names import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from bailiff_kubernetes.resources import PODS
from bailiff_node_agent.runtime.supervisor.processes import read_process, send
from bailiff_service.logs import logger

from . import pod_status
from .pod_node import PodNode
from .task_files import TaskOrder

KILL_GRACE_S = 1
"""The shortest grace that is not "remove the object at once"."""


class PodStop:
    """Carries out the stop that is on disk, once; until it has reached the API server it can be repeated."""

    def __init__(self, node: PodNode) -> None:
        self._node = node
        self._announced: int | None = None

    async def carry_out(self, order: TaskOrder, pod: Object | None, refusal: str | None) -> None:
        """Delete the pod with the grace that was requested; while the API server is away, signal its processes directly."""
        grace_s = self._node.files.stop(order.key)
        if grace_s is None or pod is None or pod_status.has_ended(pod) or self._announced == grace_s:
            return
        name, namespace, uid = order.name, order.namespace, order.uid
        try:
            if grace_s != KILL_GRACE_S and self._respects_budgets(order):
                if await self._evict(order, pod, grace_s):
                    self._announced = grace_s
                return
            await self._node.api.patch_status(PODS, name, {"conditions": [self._disruption(order, refusal)]}, namespace, uid=uid)
            await self._node.api.delete(PODS, name, namespace, uid=uid, grace_s=grace_s)
        except (NotFound, Conflict):
            pass  # it is gone, which is seen by itself
        except (Unreachable, TooManyRequests) as problem:
            logger().warning("the API server cannot delete a pod: signalling it", task=str(order.key), why=problem.message)
            self._signal(order, signal.SIGKILL if grace_s == KILL_GRACE_S else signal.SIGTERM)
            return
        self._announced = grace_s
        if grace_s == KILL_GRACE_S:
            self._signal(order, signal.SIGKILL)  # a kubelet that waits for a longer grace already may not shorten it at once

    def _respects_budgets(self, order: TaskOrder) -> bool:
        eviction = self._node.files.eviction(order.key)
        return eviction is not None and eviction["payload"].get("disruption_budgets") == "respect"

    async def _evict(self, order: TaskOrder, pod: Object, grace_s: int) -> bool:
        """Whether the eviction API has accepted it. Its own condition is replaced: it does not name the preemptor."""
        try:
            await self._node.api.evict(pod, grace_s)
        except (BudgetForbids, Forbidden) as refusal:
            if self._node.files.budget_refusal(order.key) is None:
                logger().warning("a disruption budget forbids an eviction", task=str(order.key), why=refusal.message)
                self._node.files.write_budget_refusal(order.key, refusal.message)
            return False
        conditions = [self._disruption(order, None)]
        with contextlib.suppress(ApiError):
            await self._node.api.patch_status(PODS, order.name, {"conditions": conditions}, order.namespace, uid=order.uid)
        return True

    def budget_note(self, order: TaskOrder) -> str | None:
        """What became of the disruption budget, for the record of the exit; None where none forbade anything."""
        refusal = self._node.files.budget_refusal(order.key)
        if refusal is None:
            return None
        if self._node.files.stop(order.key) == KILL_GRACE_S:
            return f"deleted at the end of its grace although its disruption budget forbade it: {refusal}"[:900]
        return f"evicted when its disruption budget allowed it; before: {refusal}"[:900]

    def is_due(self, order: TaskOrder) -> bool:
        """Whether a stop was requested that has not reached the API server."""
        grace_s = self._node.files.stop(order.key)
        return grace_s is not None and self._announced != grace_s

    def _disruption(self, order: TaskOrder, refusal: str | None) -> Object:
        eviction = self._node.files.eviction(order.key)
        reason = None if eviction is None else _both_sides(eviction["payload"])
        return {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": (refusal or reason or "ended by Bailiff")[:900],
        }

    def _signal(self, order: TaskOrder, number: int) -> None:
        for process in map(read_process, self._node.processes.pids(order.uid)):
            if process is not None:
                with contextlib.suppress(PermissionError):
                    send(process, number)


def _both_sides(payload: Mapping[str, Any]) -> str:
    """The eviction in one sentence, with the job that preempts."""
    preemptor = payload.get("preemptor")
    by = f" by job {preemptor}" if preemptor else ""
    return f"preempted{by}: {payload.get('reason', '')}".rstrip(": ")
