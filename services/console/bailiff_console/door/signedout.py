"""What is no longer good although its time is not over: sessions that were signed out, sign-ins that were taken.

Each is an empty file, so that it holds after a restart, and at once for every console that shares the folder.
"""

import time
from collections.abc import Callable
from pathlib import Path

from bailiff_bus.logs import logger

TIDY_EVERY_S = 3600.0


class SignedOut:
    """folder: none, and this process alone knows. most: seconds after which whatever it is would be over anyway."""

    def __init__(self, folder: Path | None, most: float, now: Callable[[], float] = time.time) -> None:
        self._folder, self._most, self._now = folder, most, now
        self._here: dict[str, float] = {}
        self._tidied = float("-inf")

    def add(self, id: str) -> None:  # noqa: A002 - what it is
        """From now on it is no good. Its characters may stand in a file's name."""
        now = self._now()
        self._here[id] = now
        try:
            if now - self._tidied >= TIDY_EVERY_S:
                self._tidied = now
                self._tidy(now)
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                (self._folder / id).touch()
        except OSError as error:
            logger().error(
                "a sign-out cannot be noted for the next start and for other consoles", folder=str(self._folder), why=str(error)
            )

    def has(self, id: str) -> bool:  # noqa: A002
        """Whether it is no good any more."""
        return id in self._here or (self._folder is not None and (self._folder / id).exists())

    def _tidy(self, now: float) -> None:
        self._here = {id_: at for id_, at in self._here.items() if now - at < self._most}
        for file in self._folder.iterdir() if self._folder is not None and self._folder.is_dir() else ():
            if now - file.stat().st_mtime >= self._most:
                file.unlink(missing_ok=True)
