"""Evaluates, of one pool, those workloads for which something may have changed; all of them from time to time."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from bailiff_core.model.state import PoolState
from bailiff_kubernetes.resources import Object

from .actions import Send
from .cordons import cordons
from .messages import PoolView, head_of
from .pool_log import PoolLog
from .reconcile import actions_of, newest_jobs, uid_of_workload
from .shown import name_of
from .submission import Rules
from .view import ClusterView
from .work_queue import NODES, WorkQueue
from .workloads.model import Workload

ALL_EVERY_S = 30.0
"""Where time alone changes what is to be done, as when an evicted pod group keeps its place no longer."""


class Evaluation:
    """pool: its log. queue: is given what is due in the cluster. has_sends: set when a request may be due."""

    def __init__(self, pool: PoolLog, rules: Rules, queue: WorkQueue, now: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._rules, self._queue, self._now = pool, rules, queue, now
        self._state: PoolState | None = None
        self._cluster = ClusterView()
        self._newest: Mapping[str, str] = {}
        self._sends: dict[str, list[Send]] = {}
        self._stale: set[str] = set()
        self._head: list[str] = []
        self._all_at = 0.0
        self.has_sends = asyncio.Event()

    def forget(self) -> None:
        """Begin anew with the next round: this replica has not acted for a while."""
        self._state = None
        self._sends.clear()

    def sends(self) -> list[Send]:
        """All requests that are due."""
        return [send for each in self._sends.values() for send in each]

    def round(self, cluster: ClusterView, look_at: Iterable[str]) -> None:
        """Evaluate what has changed since the last round. look_at: scopes that are to be evaluated in any case."""
        self._stale.update(look_at)
        view = self._pool.view()
        if view is None:
            return
        changes = self._pool.take_changes()
        is_all = changes.everything or view.state is not self._state or cluster.kinds != self._cluster.kinds
        if is_all or self._now() - self._all_at >= ALL_EVERY_S:
            self._all_at = self._now()
            self._newest = newest_jobs(view.state, self._rules)
            self._stale.update(self._cluster.workloads, cluster.workloads, self._newest, self._sends, (NODES,))
        elif changes.submitted:
            self._newest = newest_jobs(view.state, self._rules)
        head = head_of(view.state) if cluster.shown is not None else []
        moved = head if head != self._head else []
        self._stale.update(self._of_jobs(view.state, {*changes.jobs, *moved, *(self._head if moved else ())}))
        self._stale.update(_changed(self._cluster, cluster))
        self._head = head
        if changes.nodes:
            self._stale.add(NODES)
        self._state, self._cluster = view.state, cluster
        stale, self._stale = self._stale, set()
        for uid in stale:
            self._evaluate(uid, view)

    def _of_jobs(self, state: PoolState, names: Iterable[str]) -> Iterable[str]:
        jobs = (state.jobs.get(name) for name in names)
        found = (uid_of_workload(job, self._rules) for job in jobs if job is not None)
        return (uid for uid in found if uid is not None)

    def _evaluate(self, uid: str, view: PoolView) -> None:
        scope = self._pool.name, uid
        if uid == NODES:
            self._queue.put(scope, cordons(view.state, self._cluster.nodes))
            return
        actions = [*actions_of(uid, self._cluster, view, self._rules, self._newest)]
        self._queue.put(scope, actions)
        sends = [action for action in actions if isinstance(action, Send)]
        if sends:
            self._sends[uid] = sends
            self.has_sends.set()
        else:
            self._sends.pop(uid, None)


def _changed(before: ClusterView, now: ClusterView) -> Iterable[str]:
    """Workloads that are new, gone or other ones, or whose pods are. What has not changed is the same object."""
    if before is now:
        return
    evicted = {
        uid for uid in before.evictions.keys() | now.evictions.keys() if before.evictions.get(uid) is not now.evictions.get(uid)
    }
    is_moved = before.storage is not now.storage
    for uid in before.workloads.keys() | now.workloads.keys():
        workload = now.workloads.get(uid)
        is_same = before.workloads.get(uid) is workload and before.pods.get(uid) is now.pods.get(uid)
        is_asked = bool(evicted) and any(pod.uid in evicted for pod in now.pods.get(uid, ()))
        is_stored = is_moved and workload is not None and any(role.volumes for role in workload.roles)
        if (
            not is_same
            or is_asked
            or is_stored
            or (workload is not None and _shown(before, workload) is not _shown(now, workload))
        ):
            yield uid
    if before.nodes.keys() != now.nodes.keys() or any(before.nodes[name] is not node for name, node in now.nodes.items()):
        yield NODES


def _shown(cluster: ClusterView, workload: Workload) -> Object | None:
    return None if cluster.shown is None else cluster.shown.get((workload.namespace, name_of(workload)))
