"""What is to be changed in the cluster, by object: the newest evaluation counts, and different objects are changed side by side.

One object is changed by one action at a time, the first of those that are due. It is then left alone until the local view has
another version of it: an action on the old one would only be refused.

What merely tells people something, a report, waits until it is the same and its object has not changed for a while: it is often
outdated by then, or would be refused. While there are gates to open it waits longer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from .actions import Action, Change, Send, SetPodStatus, SetWorkloadStatus, Show, Target

AT_ONCE, REPORTS_AT_ONCE = 32, 4
SETTLE_S, REPORT_WAITS_S = 2.0, 15.0
LOOK_AGAIN_S = 10.0
"""The watches of a busy API server are late by seconds; a shorter time would repeat what has had its effect."""
POLL_S = 0.5

Scope = tuple[str, str]
"""What is evaluated together: a pool, and in it the uid of a workload, or `NODES`."""
NODES = "nodes"


@dataclass(frozen=True)
class Due:
    """since: when it became due. unchanged_since: when its object was last another version. By the queue's clock."""

    scope: Scope
    action: Change
    since: float
    unchanged_since: float


class WorkQueue:
    """carry_out: carries out an action of a pool; it raises nothing. may_act: whether anything may be changed now."""

    def __init__(
        self,
        carry_out: Callable[[str, Change], Awaitable[None]],
        may_act: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._carry_out, self._may_act, self._now = carry_out, may_act, now
        self._changes: dict[Target, Due] = {}
        self._reports: dict[Target, Due] = {}
        self._targets: dict[Scope, set[Target]] = {}
        self._acting: set[Target] = set()
        self._changing = 0
        self._acted: dict[Target, tuple[str, float, Scope]] = {}
        self._wake = asyncio.Event()

    def put(self, scope: Scope, actions: Iterable[Action]) -> None:
        """These are due for the scope now, and no others. Requests are sent by others."""
        first: dict[Target, Change] = {}
        for action in actions:
            if not isinstance(action, Send):
                first.setdefault(action.target, action)
        for target in self._targets.pop(scope, set()) - first.keys():
            queued = self._queued(target)
            if queued is not None and queued.scope == scope:  # it may be of another workload by now
                self._drop(target)
        if first:
            self._targets[scope] = set(first)
        for target, action in first.items():
            self._put(target, Due(scope, action, self._now(), self._now()))
        self._wake.set()

    def clear(self) -> None:
        """Nothing is due before everything was evaluated anew."""
        for kept in (self._changes, self._reports, self._targets, self._acted):
            kept.clear()

    def count(self, pool: str) -> int:
        """How many actions of the pool are due."""
        return sum(due.scope[0] == pool for queue in (self._changes, self._reports) for due in queue.values())

    def to_look_at(self) -> set[Scope]:
        """Scopes with an object that was changed some time ago: what is still due then has had no effect."""
        limit, found = self._now() - LOOK_AGAIN_S, set[Scope]()
        while self._acted and (oldest := next(iter(self._acted))) and self._acted[oldest][1] <= limit:
            found.add(self._acted.pop(oldest)[2])
        return found

    async def run(self) -> None:
        """Carry out what is due, without end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dispatch(self._changes, AT_ONCE, lambda: 0.0))
            group.create_task(self._dispatch(self._reports, REPORTS_AT_ONCE, self._report_wait_s))

    def _report_wait_s(self) -> float:
        return REPORT_WAITS_S if self._changes or self._changing else SETTLE_S

    def _put(self, target: Target, due: Due) -> None:
        queue, other = (self._reports, self._changes) if _is_report(due.action) else (self._changes, self._reports)
        other.pop(target, None)
        acted = self._acted.get(target)
        if acted is not None and acted[0] == due.action.version:
            queue.pop(target, None)
            return
        before = queue.get(target)
        if before is not None and _text(before.action) == _text(due.action):
            due = replace(due, since=before.since)
            is_late = self._now() - due.since >= REPORT_WAITS_S
            if is_late or queue is self._changes or before.action.version == due.action.version:
                queue[target] = replace(due, unchanged_since=before.unchanged_since)  # it keeps its place
                return
        queue.pop(target, None)
        queue[target] = due

    def _queued(self, target: Target) -> Due | None:
        return self._changes.get(target) or self._reports.get(target)

    def _drop(self, target: Target) -> None:
        self._changes.pop(target, None)
        self._reports.pop(target, None)

    async def _dispatch(self, queue: dict[Target, Due], at_once: int, wait_s: Callable[[], float]) -> None:
        """wait_s: how long an action and its object must have been the same."""
        slots = asyncio.Semaphore(at_once)
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                target, due = await self._next(queue, wait_s)
                self._acting.add(target)
                self._changing += queue is self._changes
                group.create_task(self._act(target, due)).add_done_callback(lambda _: slots.release())

    async def _next(self, queue: dict[Target, Due], wait_s: Callable[[], float]) -> tuple[Target, Due]:
        """The first action of an object on which nothing else acts."""
        while True:
            pause_s = POLL_S
            if self._may_act():
                target = next((each for each in queue if each not in self._acting), None)
                if target is not None:
                    left_s = queue[target].unchanged_since + wait_s() - self._now()
                    if left_s <= 0:
                        return target, queue.pop(target)
                    pause_s = min(pause_s, left_s)
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    async def _act(self, target: Target, due: Due) -> None:
        try:
            await self._carry_out(due.scope[0], due.action)
        finally:
            version = due.action.version
            self._acted.pop(target, None)
            self._acted[target] = version, self._now(), due.scope
            self._acting.discard(target)
            self._changing -= not _is_report(due.action)
            queued = self._queued(target)
            if queued is not None and queued.action.version == version:
                self._drop(target)
            self._wake.set()


def _is_report(action: Change) -> bool:
    """Whether it only tells people something that is no warning."""
    return isinstance(action, Show) or (isinstance(action, SetPodStatus | SetWorkloadStatus) and not action.status.warning)


def _text(action: Change) -> object:
    """What a report says; of a change its type."""
    if isinstance(action, Show):
        return action.item["status"]
    return (type(action), action.status.line) if isinstance(action, SetPodStatus | SetWorkloadStatus) else type(action)
