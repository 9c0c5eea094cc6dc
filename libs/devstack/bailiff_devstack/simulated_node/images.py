"""Images of simulated tasks in memory, for simulations in which nothing has a disk or a thread."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bailiff_node_agent.runtime import Image, TaskKey
from bailiff_node_agent.snapshots import BadImage

BYTES = 1 << 20


@dataclass
class MemoryImages:
    """Those of one machine, or of several with a shared folder. kept: by folder, attempt and task, what a manifest says."""

    kept: dict[tuple[str, int, int], Mapping[str, Any] | None] = field(default_factory=dict)

    async def make(self, folder: Path, key: TaskKey) -> Image:
        attempt, task = key.attempt, int(key.task)
        self.kept[str(folder), attempt, task] = None
        return Image(folder, f"{attempt}.{task}", (attempt, task))

    async def size(self, image: Image) -> int:  # noqa: ARG002 - all have the same
        return BYTES

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        attempt, task = image.identity
        if (str(image.folder), attempt, task) not in self.kept:
            raise BadImage("the folder of the snapshot was replaced")
        self.kept[str(image.folder), attempt, task] = dict(facts)
        return _digest(facts), BYTES

    async def verify(self, folder: Path, attempt: int, task: int, sha256: str) -> tuple[Image, Mapping[str, Any], int]:
        facts = self.kept.get((str(folder), attempt, task))
        if facts is None:
            raise BadImage("it cannot be read: it is not there")
        if _digest(facts) != sha256:
            raise BadImage("its manifest is not the one on record")
        return Image(folder, f"{attempt}.{task}", (attempt, task), facts["runtime"]), facts, 0

    async def discard(self, folder: Path, attempt: int, task: int, sha256: str) -> None:
        facts = self.kept.get((str(folder), attempt, task))
        if facts is not None and _digest(facts) == sha256:
            del self.kept[str(folder), attempt, task]

    async def remove(self, folder: Path, task: int, which: Callable[[int], bool]) -> None:
        for key in [each for each in self.kept if each[0] == str(folder) and each[2] == task and which(each[1])]:
            del self.kept[key]


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
