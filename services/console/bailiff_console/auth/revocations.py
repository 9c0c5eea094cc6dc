"""Revocation list for unexpired tokens: signed-out sessions and used login states.

Each entry is an empty file, so that it holds after a restart and for every console that shares the folder.
"""

import time
from collections.abc import Callable
from pathlib import Path

from bailiff_service.logs import logger

TIDY_EVERY_S = 3600.0


class Revocations:
    """folder: shared storage; None: in memory only. most: maximum lifetime of a token, seconds."""

    def __init__(self, folder: Path | None, most: float, now: Callable[[], float] = time.time) -> None:
        self._folder, self._most, self._now = folder, most, now
        self._ids: dict[str, float] = {}
        self._tidied = float("-inf")

    def add(self, id: str) -> None:  # noqa: A002 - what it is
        """Revoke this id, which must be usable as a file name."""
        now = self._now()
        self._ids[id] = now
        try:
            if now - self._tidied >= TIDY_EVERY_S:
                self._tidied = now
                self._tidy(now)
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (self._folder / id).touch()
        except OSError as error:
            logger().error(
                "cannot store a revocation; it does not survive a restart and is unknown to other consoles",
                folder=str(self._folder),
                why=str(error),
            )

    def has(self, id: str) -> bool:  # noqa: A002
        """Whether this id is revoked."""
        return id in self._ids or (self._folder is not None and (self._folder / id).exists())

    def _tidy(self, now: float) -> None:
        self._ids = {id_: at for id_, at in self._ids.items() if now - at < self._most}
        for file in self._folder.iterdir() if self._folder is not None and self._folder.is_dir() else ():
            if now - file.stat().st_mtime >= self._most:
                file.unlink(missing_ok=True)
