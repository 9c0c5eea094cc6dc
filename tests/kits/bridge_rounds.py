"""The rounds of the bridge on a `World`: what they look at, and what is due after them."""

from collections.abc import Iterable

from tests.kits.bridge import World
from tests.kits.bridge_objects import POOL

from bailiff_kubernetes_bridge.actions import Action
from bailiff_kubernetes_bridge.evaluation import Evaluation
from bailiff_kubernetes_bridge.log_changes import LogChanges
from bailiff_kubernetes_bridge.memo import Memo
from bailiff_kubernetes_bridge.messages import PoolView


class Rounds:
    """time: s. It stands still."""

    def __init__(self, world: World) -> None:
        self._world, self._memo, self._queue = world, Memo(), _Queue()
        self.time = 0.0
        self._evaluation = Evaluation(_Log(world), world.rules, self._queue, now=lambda: self.time)  # type: ignore[arg-type]

    def round(self) -> set[str]:
        """One round. Returns the uids of the workloads that it looked at, and `nodes`."""
        self._queue.looked.clear()
        self._evaluation.round(self._world.view(self._memo), [])
        return {*self._queue.looked}

    def due(self) -> list[Action]:
        """All that is due."""
        return [action for actions in self._queue.due.values() for action in actions]


class _Queue:
    def __init__(self) -> None:
        self.due: dict[tuple[str, str], list[Action]] = {}
        self.looked: list[str] = []

    def put(self, scope: tuple[str, str], actions: Iterable[Action]) -> None:
        self.due[scope] = [*actions]
        self.looked.append(scope[1])


class _Log:
    """The pool's log, whose records become known with each call."""

    name = POOL

    def __init__(self, world: World) -> None:
        self._world, self._read, self._rejected, self._changes = world, 0, 0, LogChanges(everything=True)

    def view(self) -> PoolView:
        return self._world.pool_view()

    def take_changes(self) -> LogChanges:
        records, rejected = self._world.story.records, len(self._world.rejected)
        for record in records[self._read :]:
            self._changes.note(record.data)
        self._changes.everything |= rejected != self._rejected  # a record of its own, which the kit does not write
        self._read, self._rejected = len(records), rejected
        changes, self._changes = self._changes, LogChanges()
        return changes
