"""Files that a job could write, for an agent that reads, walks and removes them, perhaps as root.

A job can leave any tree: nested deeper than a recursion or the open files of a process permit, wide, of links, pipes and holes,
and it can change it meanwhile. So nothing here recurses or follows a link, each step is relative to an open folder, and each call
has a limit of entries. It can still take long: `reading`, `removing` and `hashing` call it off the event loop.

Removal is the agent's, also where the task had a user: what is left may belong to others, as what a container of the job's made.
"""

import asyncio
import ctypes
import os
import pwd
import secrets
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from bailiff_service.logs import logger

from .port import User
from .supervisor import safe_open

MAX_ENTRIES = 1_000_000
"""That are looked at to count disk space. All are removed: a task's disk space is given back whole."""
BATCH = 10_000
"""Entries that are removed at a time: whoever has left more waits for others after each."""
UNFINISHED = "unfinished"
THREADS = 4
"""That read, and as many that remove, or hash: none waits for the others, nor does the agent's own state for them."""
Found = TypeVar("Found")


async def reading(call: Callable[..., Found], *given: Any, user: User | None = None) -> Found:
    """The result of a call that reads what a job may have written, with no more rights than its user. user: None: the agent's."""

    def as_user() -> Found:
        with _rights_of(user):
            return call(*given)

    return await asyncio.get_running_loop().run_in_executor(_threads("reading"), as_user)


async def removing(call: Callable[..., Found], *given: Any) -> Found:
    """The result of a call that removes a part of what a job has left."""
    return await asyncio.get_running_loop().run_in_executor(_threads("removing"), call, *given)


async def hashing(call: Callable[..., Found], *given: Any) -> Found:
    """The result of a call that reads all of a snapshot, which may take minutes."""
    return await asyncio.get_running_loop().run_in_executor(_threads("hashing"), call, *given)


@cache
def _threads(purpose: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, f"job-files-{purpose}")


@contextmanager
def _rights_of(user: User | None) -> Iterator[None]:
    """Access to files as this user, for this thread alone: unlike `setreuid`, `setfsuid` changes no other thread."""
    if user is None or os.geteuid() != 0:
        yield
        return
    libc, own = ctypes.CDLL(None), os.getegid()
    libc.setfsgid(user.gid)
    libc.setfsuid(user.uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(own)


class Usage(NamedTuple):
    """Disk space in bytes. is_all: otherwise it is at least so much, and there is more."""

    bytes: int
    is_all: bool


def disk_usage(folder: Path, limit: int = MAX_ENTRIES) -> Usage:
    """All that is below the folder, folders not counted; of so many entries at most. 0 where there is none."""
    total, linked, is_all = 0, set[tuple[int, int]](), True
    for number, status in enumerate(_walk(folder)):
        if number >= limit:
            return Usage(total, is_all=False)
        if status is None:
            is_all = False
            continue
        at = status.st_dev, status.st_ino
        if stat.S_ISDIR(status.st_mode) or at in linked:
            continue
        if status.st_nlink > 1:
            linked.add(at)
        total += status.st_blocks * 512
    return Usage(total, is_all)


class _Level(NamedTuple):
    """A folder on the way to the one that is visited."""

    name: bytes
    identity: tuple[int, int]
    to_visit: list[bytes]


def _walk(folder: Path) -> Iterator[os.stat_result | None]:
    """Each entry below the folder; None for what cannot be looked at, or was moved away meanwhile.

    Holds two folders open, whatever the depth: the way up is `..`, if it is still the same, or anew from the top.
    """
    try:
        top = safe_open.open_folder(str(folder))
    except FileNotFoundError:
        return
    except OSError:
        yield None
        return
    handle = os.dup(top)
    try:
        levels = [_Level(b"", _identity(top), [])]
        yield from _entries(handle, levels[-1].to_visit)
        while levels:
            to_visit = levels[-1].to_visit
            if to_visit:
                name = to_visit.pop()
                try:
                    inner = safe_open.open_folder(name, handle)
                except OSError:  # removed or replaced meanwhile, closed, or a mount
                    yield None
                    continue
                os.close(handle)
                handle = inner
                levels.append(_Level(name, _identity(handle), []))
                yield from _entries(handle, levels[-1].to_visit)
            else:
                levels.pop()
                if levels and not (handle := _up(handle, levels[-1])):
                    yield None
                    handle = _down(top, levels)
    finally:
        os.close(top)
        if handle:
            os.close(handle)


def _up(handle: int, level: _Level) -> int:
    """The folder above, instead of this one; 0 where it is another one now, perhaps out of the tree."""
    try:
        outer = os.open("..", os.O_RDONLY | safe_open.FOLDER, dir_fd=handle)
    except OSError:
        return 0
    finally:
        os.close(handle)
    if _identity(outer) == level.identity:
        return outer
    os.close(outer)
    return 0


def _down(top: int, levels: list[_Level]) -> int:
    """The deepest of these folders that is still in its place; those below are dropped from the list."""
    handle = os.dup(top)
    for number, level in enumerate(levels[1:], start=1):
        try:
            inner = safe_open.open_folder(level.name, handle)
        except OSError:
            inner = 0
        if not inner or _identity(inner) != level.identity:
            if inner:
                os.close(inner)
            del levels[number:]
            break
        os.close(handle)
        handle = inner
    return handle


def _entries(handle: int, folders: list[bytes]) -> Iterator[os.stat_result | None]:
    """The entries of one folder; the names of those that are folders are added to the list."""
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed meanwhile
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(os.fsencode(entry.name))
                    yield status
    except OSError:
        yield None


def _identity(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


@dataclass
class Unfinished:
    """The folder of what is being made or removed, and of what could not be removed. On the file system of what it takes.

    left: what could not be removed since the agent has started, which tries each again, and why.
    """

    folder: Path
    left: dict[Path, str] = field(default_factory=dict)

    def take(self, path: Path) -> Path | None:
        """Rename it into here: its name is free at once, and no half of it is ever found there. Never raises `OSError`."""
        name = os.fsdecode(os.fsencode(path.name)[:200])  # a name is limited in bytes
        held = self.folder / f"{name}-{secrets.token_hex(4)}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.rename(held)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._stays(path, error)
            return None
        return held

    async def discard(self, path: Path) -> None:
        """Remove it, whatever it is. What cannot be removed is kept here, and `left` says so."""
        held = await reading(self.take, path)
        if held is not None:
            await self.remove(held)

    async def remove(self, *held: Path) -> None:
        """Remove what is here, a part at a time."""
        for path in held:
            while (removal := await removing(remove_tree, path, BATCH)).removed and removal.why is not None:
                pass
            if removal.why is not None:
                self._stays(path, removal.why)

    def found(self) -> list[Path]:
        """What an earlier agent had begun to make or to remove when it ended, or could not remove."""
        try:
            return sorted(self.folder.iterdir())
        except OSError:
            return []

    def _stays(self, path: Path, why: OSError) -> None:
        self.left[path] = why.strerror or str(why)
        logger().error(
            "what a task left cannot be removed; it is tried again when the agent starts", path=str(path), why=self.left[path]
        )


class Removal(NamedTuple):
    """removed: entries. why: why something is still there."""

    removed: int
    why: OSError | None


def remove_tree(path: Path, limit: int = MAX_ENTRIES) -> Removal:
    """Remove a folder, or what is in its place. Never raises `OSError`."""
    removed = 0
    try:
        try:
            handle = _open_folder(os.fsencode(path))
        except NotADirectoryError:
            path.unlink()  # a file, or a link, which is not followed
            return Removal(1, None)
        try:
            removed, why = _empty(handle, limit)
        finally:
            os.close(handle)
        if why is None:
            path.rmdir()
    except FileNotFoundError:
        return Removal(removed, None)
    except OSError as error:
        why = error
    return Removal(removed, why)


def remove_below(folder: int, name: str) -> None:
    """Remove what has this name in an open folder, and is on its file system. Raises `OSError`."""
    try:
        handle = safe_open.open_folder(name, folder)
    except FileNotFoundError:
        return
    try:
        removal = _empty(handle, MAX_ENTRIES)
    finally:
        os.close(handle)
    if removal.why is not None:
        raise removal.why
    os.rmdir(name, dir_fd=folder)


def _empty(root: int, limit: int) -> Removal:
    """Remove all that is in an open folder.

    Folders within folders are moved up into the root before their parent is removed: no depth needs a stack, or open handles.
    """
    tried, removed, owner = 0, 0, os.fstat(root).st_uid
    while True:
        before, why = removed, None
        for name in _names(root):
            if tried >= limit:
                return Removal(removed, OSError(f"it has more than {limit} entries"))
            tried += 1
            try:
                try:
                    os.unlink(name, dir_fd=root)
                except IsADirectoryError:
                    lifted = _lift(root, name, limit - tried, owner)
                    tried, removed = tried + lifted, removed + lifted
                    os.rmdir(name, dir_fd=root)
                removed += 1
            except FileNotFoundError:
                removed += 1
            except OSError as error:
                why = error
        if removed == before:
            return Removal(removed, why)


def _lift(root: int, name: bytes, limit: int, owner: int) -> int:
    """Empty one folder of the root: its files are removed, its folders moved into the root. The number of its entries."""
    done = 0
    inner = _open_folder(name, root)
    try:
        _refuse_anothers(os.fstat(inner).st_uid, owner)
        while done < limit:
            before, why = done, None
            for each in _names(inner)[: limit - done]:
                try:
                    try:
                        os.unlink(each, dir_fd=inner)
                    except IsADirectoryError:
                        os.rename(each, secrets.token_hex(12), src_dir_fd=inner, dst_dir_fd=root)
                    done += 1
                except FileNotFoundError:
                    done += 1
                except OSError as error:
                    why = error
            if done == before:
                if why is not None:
                    raise why
                break
        return done
    finally:
        os.close(inner)


def _refuse_anothers(uid: int, owner: int) -> None:
    """A job may have moved another person's folder into its own. Root and ids without an account are its own containers."""
    if owner and uid not in (owner, 0) and _has_account(uid):
        raise PermissionError(1, f"a folder in it belongs to uid {uid}, not to its owner {owner}")


@lru_cache(1000)
def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _open_folder(name: bytes, dir_fd: int | None = None) -> int:
    """Opens a folder, also one that its owner has closed to itself."""
    if os.geteuid() != 0:  # root needs no permission
        with suppress(OSError):
            handle = os.open(name, os.O_PATH | safe_open.FOLDER, dir_fd=dir_fd)
            try:
                Path(f"/proc/self/fd/{handle}").chmod(0o700)
            finally:
                os.close(handle)
    return safe_open.open_folder(name, dir_fd)


def _names(handle: int) -> list[bytes]:
    """The next names in a folder, at most so many: it may have more, and is read again."""
    with os.scandir(handle) as entries:
        return [os.fsencode(entry.name) for entry in islice(entries, BATCH)]
