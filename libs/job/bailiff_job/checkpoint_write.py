"""One checkpoint that is being written."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from .store import Checkpoint


class CheckpointWrite:
    """Write into `folder`, in any thread, then call `commit()` or `abandon()`.

    The checkpoint does not exist before `commit()` has returned.
    """

    def __init__(
        self, step: int, folder: Path, commit: Callable[[CheckpointWrite], Checkpoint], abandon: Callable[[CheckpointWrite], None]
    ) -> None:
        self.step, self.folder = step, folder
        self._commit, self._abandon = commit, abandon
        self._lock, self._ended = threading.Lock(), threading.Event()
        self.checkpoint: Checkpoint | None = None
        self.problem: BaseException | None = None  # of a commit in a background thread

    @property
    def done(self) -> bool:
        """Whether it was committed, abandoned, or failed."""
        return self._ended.is_set()

    def commit(self) -> Checkpoint:
        """Make it durable and rename it. After an error it is removed.

        Raises:
            OSError: It cannot be written.
            ValueError: It was abandoned, or holds something that a checkpoint cannot.
            Superseded: A newer attempt of the job has started.
        """
        with self._lock:
            if self.checkpoint is None:
                if self.done:
                    raise ValueError(f"the checkpoint of step {self.step} was abandoned and cannot be committed")
                try:
                    self.checkpoint = self._commit(self)
                except BaseException:
                    self._abandon(self)
                    raise
                finally:
                    self._ended.set()
            return self.checkpoint

    def abandon(self) -> None:
        """Remove what was written. Does nothing after a commit."""
        with self._lock:
            if not self.done:
                self._ended.set()
                self._abandon(self)

    def finish(self, rest: Callable[[], object] | None) -> None:
        """Write the rest, then commit. An error is stored in `problem`."""
        try:
            if rest is not None:
                rest()
            self.commit()
        except BaseException as problem:  # noqa: BLE001 - it is raised in the training's own thread
            self.problem = problem
            self.abandon()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: Seconds; None: without end.

        Returns:
            Whether it is done.
        """
        return self._ended.wait(timeout)
