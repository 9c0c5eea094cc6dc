"""Where an agent keeps the states of tasks: on disk, below the checkpoint folders of their jobs, or as a simulation does."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from bailiff_node_agent.runtime import Image, TaskKey, job_files

from .images import discard_image, discard_unsealed, image_bytes, make_image, remove_images, sealed, verified


class ImageStore(Protocol):
    """Folders of images, by the checkpoint folder of their job, its attempt and the task."""

    async def make(self, folder: Path, key: TaskKey, order: int | None = None) -> Image:
        """An empty one. order: the record that ordered it, of a task that goes on. Raises `OSError`."""
        ...

    async def drop(self, image: Image) -> None:
        """Remove one that was not sealed. Raises `OSError`."""
        ...

    async def size(self, image: Image) -> int:
        """Bytes of all its files."""
        ...

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        """Make it durable. Its digest, and the bytes of all files. Raises `OSError`, `BadImage`."""
        ...

    async def verify(self, folder: Path, attempt: int, task: int, sha256: str) -> tuple[Image, Mapping[str, Any], int]:
        """The image of this digest, its facts, and how long it took to compare them, µs. Raises `BadImage`."""
        ...

    async def discard(self, folder: Path, attempt: int, task: int, sha256: str) -> None:
        """Remove the image of this digest, if it is still there. Raises `OSError`, `BadImage`."""
        ...

    async def remove(self, folder: Path, task: int, which: Callable[[int, bool], bool]) -> None:
        """Remove those of this task, by their attempt and whether it went on. Raises `OSError`."""
        ...


class DiskImages:
    """On disk, where a job may have written beside them."""

    async def make(self, folder: Path, key: TaskKey, order: int | None = None) -> Image:
        return await job_files.reading(make_image, folder, key.attempt, int(key.task), order)

    async def drop(self, image: Image) -> None:
        await job_files.removing(discard_unsealed, image)

    async def size(self, image: Image) -> int:
        return await job_files.reading(image_bytes, image)

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        return await job_files.hashing(sealed, image, facts)

    async def verify(self, folder: Path, attempt: int, task: int, sha256: str) -> tuple[Image, Mapping[str, Any], int]:
        began = time.monotonic()
        image, manifest = await job_files.hashing(verified, folder, attempt, task, sha256)
        return image, manifest, int((time.monotonic() - began) * 1_000_000)

    async def remove(self, folder: Path, task: int, which: Callable[[int, bool], bool]) -> None:
        await job_files.removing(remove_images, folder, task, which)

    async def discard(self, folder: Path, attempt: int, task: int, sha256: str) -> None:
        await job_files.removing(discard_image, folder, attempt, task, sha256)
