"""The folder of one snapshot: `JOB/attempt-NNNN/snapshot.rank-NNNN` in that of all snapshots; `….ORDER` of a task that goes on.

It holds the task's memory, and is the agent's, as are the folders above it: what a job could move out of the agent's sight would
stay for ever, beyond its user's quota. Where the disk is shared, others may have been there first: folders of somebody else are
refused, no link is followed, and what is restored is what the record has the digest of. `manifest.json` names every file with
its size and the SHA-256 of its parts; it is written last, once all of them are on disk.
"""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bailiff_bus.messages.commands import SnapshotForm
from bailiff_node_agent.checkpoints import ATTEMPT, MAX_ENTRIES
from bailiff_node_agent.runtime import Image
from bailiff_node_agent.runtime.connections import unlock_saved
from bailiff_node_agent.runtime.job_files import remove_below, remove_tree
from bailiff_node_agent.runtime.supervisor import safe_open
from bailiff_node_agent.runtime.supervisor.criu import DUMP_LOG, INVENTORY

from .bad_image import BadImage

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES, MAX_FILES = 16 << 20, 100_000
PART, CHUNK = 64 << 20, 4 << 20
"""A file's digests are of parts of this size, which several threads read at once, each this much at a time."""
WORKERS = min(8, os.cpu_count() or 1) + 1  # one waits for the disk
NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
VERSION, CODED = 2, 3
"""Of a manifest: of files as they are, and of such that are compressed or encrypted."""
TRIES = 10


def image_name(attempt: int, rank: int, order: int | None = None) -> str:
    """order: the record that ordered it, of a task that goes on: it is there beside an earlier one until it is on record."""
    return f"attempt-{attempt:04}/snapshot.rank-{rank:04}{'' if order is None else f'.{order}'}"


def make_image(folder: Path, attempt: int, rank: int, order: int | None = None) -> Image:
    """An empty folder for a snapshot of this attempt; what earlier tries have left is removed. Raises `OSError`."""
    for _ in range(TRIES - 1):
        with suppress(FileNotFoundError):  # whoever removed another snapshot of the attempt took the empty folder away
            return _made(folder, attempt, rank, order)
    return _made(folder, attempt, rank, order)


def _made(folder: Path, attempt: int, rank: int, order: int | None) -> Image:
    outer, inner = image_name(attempt, rank, order).split("/")
    for each in (folder.parent, folder, folder / outer):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
        os.close(_own_folder(each))
    with _opened(folder, outer) as middle:
        for name in _of_rank(middle, rank):
            if name == inner or (order is not None and not _is_sealed(middle, name)):
                _remove_below(middle, name)
        os.mkdir(inner, 0o700, dir_fd=middle)
        handle = safe_open.open_folder(inner, middle)
        try:
            return Image(folder, f"{outer}/{inner}", _own(os.fstat(handle)))
        finally:
            os.close(handle)


def image_bytes(image: Image) -> int:
    """Of all its files; 0 where they are not there any more."""
    try:
        with _opened(image.folder, image.name) as handle:
            return sum(os.stat(name, dir_fd=handle, follow_symlinks=False).st_size for name in _names(handle))
    except (OSError, BadImage):
        return 0


def make_stage(staging: Path, key: str, name: str) -> Image:
    """An empty folder of a task, that nobody but this node sees. Raises `OSError`."""
    for each in (staging, staging / key):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
    _remove_stage(staging / key / name)
    (staging / key / name).mkdir(mode=0o700)
    with _opened(staging / key, name) as handle:
        return Image(staging / key, name, _own(os.fstat(handle)))


def remove_stages(staging: Path, key: str, *, unlock: bool) -> None:
    """Remove those of a task, and what keeps its connections silent. Raises `OSError`."""
    if unlock:
        for each in (staging / key).iterdir() if (staging / key).is_dir() else ():
            _unlock(each.parent, each.name)
    _remove_stage(staging / key)


def _remove_stage(path: Path) -> None:
    if (why := remove_tree(path).why) is not None:
        raise why


def sealed(image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
    """Make a saved state durable and write its manifest. Its SHA-256, and the bytes of all files. Raises `OSError`, `BadImage`.

    facts: `runtime`, what that needs to restore it, and what else a restore must know.
    """
    with _opened(image.folder, image.name) as handle:
        _check_is(image, handle)
        for name in (DUMP_LOG, MANIFEST, f"{MANIFEST}.new"):  # an agent that died may have sealed it, or begun to
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=handle)
        with ThreadPoolExecutor(WORKERS) as pool:
            files = {name: _digest(handle, name, pool, durable=True) for name in _names(handle)}
        digest = _manifest(image, handle, {"v": VERSION, **facts, "files": files})
    return digest, sum(each["size"] for each in files.values())


def coded(stage: Image, image: Image, form: SnapshotForm, facts: Mapping[str, Any]) -> tuple[str, int]:
    """As `sealed`, of a state that was saved at a stage: the image gets its files in this form."""
    from .coding import keep  # few nodes need what it imports

    with _opened(stage.folder, stage.name) as source, _opened(image.folder, image.name) as handle:
        _check_is(stage, source)
        _check_is(image, handle)
        names = [name for name in _names(source) if name != DUMP_LOG]
        with ThreadPoolExecutor(WORKERS) as pool:
            about, files = keep(form, names, source, handle, pool)
        digest = _manifest(image, handle, {"v": CODED, **facts, "coding": about, "files": files})
    return digest, sum(length for each in files.values() for length, _ in each["parts"])


def _check_is(image: Image, handle: int) -> None:
    if _own(os.fstat(handle)) != image.identity:
        raise BadImage("the folder of the snapshot was replaced")


def _manifest(image: Image, handle: int, said: Mapping[str, Any]) -> str:
    """Write it durably, and the folders that lead to it. Its SHA-256."""
    content = json.dumps(said, sort_keys=True).encode()
    new = os.open(f"{MANIFEST}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=handle)
    with os.fdopen(new, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(new)
    os.rename(f"{MANIFEST}.new", MANIFEST, src_dir_fd=handle, dst_dir_fd=handle)
    os.fsync(handle)
    for above in (image.name.split("/")[0], "."):
        with _opened(image.folder, above) as outer:
            os.fsync(outer)
    return hashlib.sha256(content).hexdigest()


def verified(
    folder: Path,
    attempt: int,
    rank: int,
    sha256: str,
    stage: Callable[[], Image] | None = None,
    decryption_key: bytes | None = None,
) -> tuple[Image, dict[str, Any]]:
    """The snapshot with a manifest of this digest, every file of which is as it says; and the manifest. Raises `BadImage`.

    stage: makes the folder that gets the files of one that is compressed or encrypted. decryption_key: this node's.
    """
    try:
        name = _found(folder, attempt, rank, sha256) or image_name(attempt, rank)
        with _opened(folder, name) as handle:
            status = os.fstat(handle)
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise BadImage("its folder was made or opened by somebody else")
            content = safe_open.read(handle, MANIFEST, MAX_MANIFEST_BYTES)
            if hashlib.sha256(content).hexdigest() != sha256:
                raise BadImage("its manifest is not the one on record")
            manifest = json.loads(content)
            if manifest["v"] not in (VERSION, CODED):
                raise BadImage(f"its format is {manifest['v']}, and this release reads {VERSION} and {CODED}")
            found, expected = {*_names(handle)} - {MANIFEST}, manifest["files"]
            if found != {*expected}:
                raise BadImage(f"files are missing or were added: {', '.join(sorted(found ^ {*expected}))[:200]}")
            image = Image(folder, name, _own(status))
            if manifest["v"] == CODED:
                assert stage is not None
                image = _decoded(handle, manifest, stage(), decryption_key)
            else:
                with ThreadPoolExecutor(WORKERS) as pool:
                    for file, facts in expected.items():
                        if _digest(handle, file, pool) != facts:
                            raise BadImage(f"{file} was changed")
            about = {"bytes": sum(facts["size"] for facts in expected.values())}
            return replace(image, facts=manifest["runtime"], about=about), manifest
    except OSError as problem:
        raise BadImage(f"it cannot be read: {problem.strerror}") from None


def _decoded(handle: int, manifest: Mapping[str, Any], stage: Image, decryption_key: bytes | None) -> Image:
    """The stage with the files as they were. Raises `OSError`, `BadImage`."""
    from .coding import read  # as `coded` does

    with _opened(stage.folder, stage.name) as into, ThreadPoolExecutor(WORKERS) as pool:
        read(manifest["coding"], manifest["files"], decryption_key, handle, into, pool)
    return stage


def discard_image(folder: Path, attempt: int, rank: int, sha256: str) -> None:
    """Remove the snapshot with a manifest of this digest; what is there in its place, or nothing, stays. Raises `OSError`."""
    with suppress(FileNotFoundError):
        name = _found(folder, attempt, rank, sha256)
        if name is not None:
            _remove(folder, *name.split("/"))


def discard_unsealed(image: Image) -> None:
    """Remove what was saved of a task in vain. Raises `OSError`."""
    _remove(image.folder, *image.name.split("/"))


def remove_images(folder: Path, rank: int, which: Callable[[int, bool], bool]) -> None:
    """Remove the snapshots of this rank, by their attempt and whether the task went on. Raises `OSError`."""
    with suppress(FileNotFoundError), _opened(folder, ".") as top:
        with os.scandir(top) as entries:
            attempts = [entry.name for entry in islice(entries, MAX_ENTRIES) if ATTEMPT.fullmatch(entry.name)]
        for outer in attempts:
            attempt = int(outer.partition("-")[2])
            with suppress(FileNotFoundError):
                with _opened(folder, outer) as middle:
                    names = [name for name in _of_rank(middle, rank) if which(attempt, name.count(".") > 1)]
                if names:
                    _remove(folder, outer, *names)


def _of_rank(middle: int, rank: int) -> list[str]:
    """All snapshots of this rank, in the folder of an attempt."""
    first = image_name(0, rank).split("/")[1]
    with os.scandir(middle) as entries:
        names = [entry.name for entry in islice(entries, MAX_ENTRIES)]
    return [name for name in names if name == first or name.startswith(f"{first}.")]


def _found(folder: Path, attempt: int, rank: int, sha256: str) -> str | None:
    """The name of the snapshot with a manifest of this digest. Raises `OSError`."""
    outer = image_name(attempt, rank).split("/")[0]
    with _opened(folder, outer) as middle:
        for name in _of_rank(middle, rank):
            with suppress(FileNotFoundError, NotADirectoryError):
                content = safe_open.read(middle, f"{name}/{MANIFEST}", MAX_MANIFEST_BYTES)
                if hashlib.sha256(content).hexdigest() == sha256:
                    return f"{outer}/{name}"
    return None


def _is_sealed(middle: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(f"{name}/{MANIFEST}", dir_fd=middle, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _remove(folder: Path, outer: str, *names: str) -> None:
    with _opened(folder, outer) as middle:
        for name in names:
            _remove_below(middle, name)
    with suppress(OSError):  # there are others
        (folder / outer).rmdir()
        folder.rmdir()


def _remove_below(middle: int, inner: str) -> None:
    """Remove the image, and what keeps its connections silent until it is restored."""
    _unlock(middle, inner)
    remove_below(middle, inner)


def _unlock(folder: Path | int, name: str) -> None:
    at = folder if isinstance(folder, int) else str(folder)
    with suppress(FileNotFoundError, NotADirectoryError):
        unlock_saved(safe_open.read(at, f"{name}/{INVENTORY}", MAX_MANIFEST_BYTES))


def _own_folder(folder: Path) -> int:
    """A handle of a folder in which nobody but the agent changes anything. Raises `OSError`."""
    handle = safe_open.open_folder(str(folder))
    status = os.fstat(handle)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(handle)
        raise OSError(errno.EPERM, f"{folder} was made or opened by somebody else")
    return handle


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    outer = _own_folder(folder)
    try:
        handle = safe_open.open_folder(name, outer)
    finally:
        os.close(outer)
    try:
        yield handle
    finally:
        os.close(handle)


def _names(handle: int) -> list[str]:
    with os.scandir(handle) as entries:
        names = [entry.name for entry in islice(entries, MAX_FILES + 1)]
    if len(names) > MAX_FILES or any(not NAME.fullmatch(name) for name in names):
        raise BadImage(f"it has more than {MAX_FILES} files, or such as no snapshot has")
    return sorted(names)


def _digest(folder: int, name: str, pool: ThreadPoolExecutor, *, durable: bool = False) -> dict[str, Any]:
    """Size of a file, and SHA-256 of each part. durable: and have it on disk, which is written while the digests are made."""
    handle = safe_open.open_file(folder, name, os.O_RDONLY)
    try:
        size = os.fstat(handle).st_size
        on_disk = pool.submit(os.fsync, handle) if durable else None
        parts = [*pool.map(partial(_part_digest, handle), range(0, size, PART))]
        if on_disk is not None:
            on_disk.result()
    finally:
        os.close(handle)
    return {"size": size, "sha256": parts}


def _part_digest(handle: int, at: int) -> str:
    digest, end = hashlib.sha256(), at + PART
    with memoryview(bytearray(CHUNK)) as view:
        while count := os.preadv(handle, [view[: end - at]], at):
            digest.update(view[:count])
            at += count
    return digest.hexdigest()


def _own(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
