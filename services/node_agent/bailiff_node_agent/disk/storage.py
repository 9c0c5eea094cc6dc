"""Storage of the agent's state: a folder, or memory for simulated nodes, with the same contract."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bailiff_service.exit_code import ExitCode, MustStop


class DamagedFile(MustStop):
    """A state file is corrupt. Reading it as empty could carry out a command twice."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            ExitCode.DISK,
            f"{name} is damaged: {what}. Bailiff does not repair it by itself: restore the folder before you start the agent",
        )


class Storage(Protocol):
    """A few small named files. When a call returns, its effect survives a power loss."""

    def read(self, name: str) -> bytes | None:
        """The content; None where no such file has been written."""
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Write the whole file, so that a crash leaves the old content or the new one."""
        ...

    def append(self, name: str, content: bytes) -> None:
        """Add to the end. A crash may leave a part of it."""
        ...


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Atomic, also across a power loss."""
    new = path.with_name(f"{path.name}.new")
    with _errors_name(new):
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync_folder(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Survives the process, and not a power loss."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.replace(path)


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Errors of writing to an open file do not say which file it is."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Flush a folder: without it a new file may be missing after a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FolderStorage:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, content: bytes) -> None:
        write_durably(self._folder / name, content)

    def append(self, name: str, content: bytes) -> None:
        path = self._folder / name
        is_new = not path.exists()
        with _errors_name(path), os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self._folder)


class MemoryStorage:
    """A machine's disk in a simulation: pass the same object to a restarted agent, and it finds its state."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}

    def read(self, name: str) -> bytes | None:
        content = self._files.get(name)
        return None if content is None else bytes(content)

    def replace(self, name: str, content: bytes) -> None:
        self._files[name] = bytearray(content)

    def append(self, name: str, content: bytes) -> None:
        self._files.setdefault(name, bytearray()).extend(content)
