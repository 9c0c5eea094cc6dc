"""Where an agent keeps the states of tasks: on disk, below the checkpoint folders of their jobs, or as a simulation does."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bailiff_bus.messages.commands import SnapshotForm
from bailiff_node_agent.runtime import Image, TaskKey, job_files

from .bad_image import BadImage
from .images import (
    coded,
    discard_image,
    discard_unsealed,
    image_bytes,
    make_image,
    make_stage,
    remove_images,
    remove_stages,
    sealed,
    verified,
)

PLAIN = SnapshotForm()


class ImageStore(Protocol):
    """Folders of images, by the checkpoint folder of their job, its attempt and the task."""

    async def make(self, folder: Path, key: TaskKey, order: int | None = None, form: SnapshotForm = PLAIN) -> Image:
        """An empty one. order: the record that ordered it, of a task that goes on. form: how it is kept. Raises `OSError`."""
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

    async def verify(self, folder: Path, attempt: int, key: TaskKey, sha256: str) -> tuple[Image, Mapping[str, Any], int]:
        """The image of this digest, its facts, and how long it took to compare them, µs. Raises `BadImage`.

        key: of the task that is restored from it.
        """
        ...

    async def clear(self, key: TaskKey, *, saved: bool) -> None:
        """Remove what only this node has of images of the task. saved: of one that was to be saved. Raises `OSError`."""
        ...

    async def discard(self, folder: Path, attempt: int, task: int, sha256: str) -> None:
        """Remove the image of this digest, if it is still there. Raises `OSError`, `BadImage`."""
        ...

    async def remove(self, folder: Path, task: int, which: Callable[[int, bool], bool]) -> None:
        """Remove those of this task, by their attempt and whether it went on. Raises `OSError`."""
        ...


@dataclass
class DiskImages:
    """On disk, where a job may have written beside them. staging: a folder of this node, for what is kept in another form.

    decryption_key: the node's.
    """

    staging: Path
    decryption_key: bytes | None = field(default=None, repr=False)

    async def make(self, folder: Path, key: TaskKey, order: int | None = None, form: SnapshotForm = PLAIN) -> Image:
        rank = int(key.task)
        if form.is_plain:
            return await job_files.reading(make_image, folder, key.attempt, rank, order)
        stage = await job_files.reading(make_stage, self.staging, str(key), "saved")
        place = {"folder": str(folder), "attempt": key.attempt, "rank": rank, "order": order}
        return replace(stage, becomes={**place, "form": form.model_dump_json()})

    async def drop(self, image: Image) -> None:
        if image.becomes:
            await job_files.removing(partial(remove_stages, self.staging, image.folder.name, unlock=True))
        else:
            await job_files.removing(discard_unsealed, image)

    async def size(self, image: Image) -> int:
        return await job_files.reading(image_bytes, image)

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        if not image.becomes:
            return await job_files.hashing(sealed, image, facts)
        place = {**image.becomes, "folder": Path(image.becomes["folder"])}
        form = SnapshotForm.model_validate_json(place.pop("form"))
        kept = await job_files.reading(partial(make_image, **place))
        try:
            found = await job_files.hashing(coded, image, kept, form, facts)
        except (OSError, BadImage):
            with suppress(OSError):
                await job_files.removing(discard_unsealed, kept)
            raise
        await job_files.removing(partial(remove_stages, self.staging, image.folder.name, unlock=False))
        return found

    async def verify(self, folder: Path, attempt: int, key: TaskKey, sha256: str) -> tuple[Image, Mapping[str, Any], int]:
        began, stage = time.monotonic(), partial(make_stage, self.staging, str(key), "restored")
        try:
            image, manifest = await job_files.hashing(
                verified, folder, attempt, int(key.task), sha256, stage, self.decryption_key
            )
        except BadImage:
            with suppress(OSError):  # else with its release
                await self.clear(key, saved=False)
            raise
        return image, manifest, int((time.monotonic() - began) * 1_000_000)

    async def clear(self, key: TaskKey, *, saved: bool) -> None:
        if (self.staging / str(key)).is_dir():  # else its release would wait for what others remove
            await job_files.removing(partial(remove_stages, self.staging, str(key), unlock=saved))

    async def remove(self, folder: Path, task: int, which: Callable[[int, bool], bool]) -> None:
        await job_files.removing(remove_images, folder, task, which)

    async def discard(self, folder: Path, attempt: int, task: int, sha256: str) -> None:
        await job_files.removing(discard_image, folder, attempt, task, sha256)
