"""Images of simulated tasks in memory, for simulations in which nothing has a disk or a thread."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bailiff_bus.messages.commands import SnapshotForm
from bailiff_node_agent.runtime import Image, TaskKey
from bailiff_node_agent.snapshots import PLAIN, BadImage

BYTES = 1 << 20


@dataclass
class MemoryImages:
    """Those of one machine, or of several with a shared folder. kept: by folder and name, what a manifest says."""

    kept: dict[tuple[str, str], Mapping[str, Any] | None] = field(default_factory=dict)

    async def make(self, folder: Path, key: TaskKey, order: int | None = None, form: SnapshotForm = PLAIN) -> Image:  # noqa: ARG002 - nothing is on disk
        name = f"{key.attempt}.{key.task}.{order or ''}"
        self.kept[str(folder), name] = None
        return Image(folder, name, (key.attempt, int(key.task)))

    async def drop(self, image: Image) -> None:
        self.kept.pop((str(image.folder), image.name), None)

    async def size(self, image: Image) -> int:  # noqa: ARG002 - all have the same
        return BYTES

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        if (str(image.folder), image.name) not in self.kept:
            raise BadImage("the folder of the snapshot was replaced")
        self.kept[str(image.folder), image.name] = dict(facts)
        return _digest(facts), BYTES

    async def verify(self, folder: Path, attempt: int, key: TaskKey, sha256: str) -> tuple[Image, Mapping[str, Any], int]:
        task = int(key.task)
        there = {name: facts for name, facts in self._of(folder, task, attempt) if facts is not None}
        if not there:
            raise BadImage("it cannot be read: it is not there")
        name = next((name for name, facts in there.items() if _digest(facts) == sha256), None)
        if name is None:
            raise BadImage("its manifest is not the one on record")
        return Image(folder, name, (attempt, task), there[name]["runtime"]), there[name], 0

    async def clear(self, key: TaskKey, *, saved: bool) -> None:
        pass

    async def discard(self, folder: Path, attempt: int, task: int, sha256: str) -> None:
        for name, facts in self._of(folder, task, attempt):
            if facts is not None and _digest(facts) == sha256:
                del self.kept[str(folder), name]

    async def remove(self, folder: Path, task: int, which: Callable[[int, bool], bool]) -> None:
        for name, _ in self._of(folder, task):
            attempt, _, order = name.split(".")
            if which(int(attempt), bool(order)):
                del self.kept[str(folder), name]

    def _of(self, folder: Path, task: int, attempt: int | None = None) -> list[tuple[str, Mapping[str, Any] | None]]:
        found = [(name, facts) for (at, name), facts in self.kept.items() if at == str(folder)]
        return [each for each in found if each[0].split(".")[1] == str(task) and attempt in (None, int(each[0].split(".")[0]))]


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
