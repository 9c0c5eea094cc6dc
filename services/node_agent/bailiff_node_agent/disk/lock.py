"""Ensures that one agent at a time uses a state folder."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class FolderInUse(Exception):
    pass


class AgentLock:
    """Held until `release`, the end of the `with` block, or the end of the process, also by a crash."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise FolderInUse(
                f"another agent (process {holder}) uses {folder}; give each agent a state folder of its own"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._handle: int | None = handle

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
