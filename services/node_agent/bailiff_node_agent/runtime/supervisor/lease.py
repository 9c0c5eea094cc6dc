"""The node's lease: a task is stopped when the agent no longer renews it."""

import contextlib
import json
import os
from collections.abc import Callable

from .host import boot_id, boottime_us
from .stopping import Stop, Stoppable

LEASE_EXPIRED = "the node's lease expired: its agent could not reach Kafka"
KILL_SHARE = 5  # 1/n of the time that is left after expiry lies between TERM and KILL
MOST_CHARACTERS = 512  # of the file
FIELDS = ("boot_id", "until_boottime_us", "grace_us")


class Lease:
    """The lease file that the agent renews, and the stop of this task once it has expired. Without a file: no limit."""

    def __init__(self, path: str, task_dir: str) -> None:
        self.path, self.task_dir = path, task_dir
        self.stop: Stop | None = None
        self.killed_at_start = False
        self._last: tuple[int, int] | None = None

    @property
    def stages(self) -> list[str]:
        """What was done to the task because the lease had expired."""
        return ["kill_sent"] if self.killed_at_start else self.stop.stages if self.stop else []

    def has_expired(self) -> bool:
        return self._read() is not None

    def next_at(self) -> int | None:
        """When to look again, boot-time µs."""
        return self.stop.next_at() if self.stop else self._last[0] if self._last else None

    def enforce(self, task: Stoppable, notify: Callable[[int, int], bool]) -> None:
        """After expiry: notice; TERM at once, or later for a job that handles notices; then KILL."""
        if self.stop is None:
            kill_at = self._read()
            if kill_at is None:
                return
            self.stop = self._notice(kill_at, notify)
        self.stop.enforce(task)

    def _read(self) -> int | None:
        """When the task is to be killed; None while the lease is valid."""
        try:
            with open(self.path) as file:
                boot, until, grace = _lease(file.read(MOST_CHARACTERS))
            if boot != boot_id():
                return boottime_us()
            self._last = until, grace
        except FileNotFoundError:
            # The file was removed while the task runs: the lease is not renewed any more.
            return boottime_us() + self._last[1] if self._last else None
        except (OSError, ValueError):
            pass  # the disk fails, or somebody damaged it: use what was read last
        return sum(self._last) if self._last and boottime_us() >= self._last[0] else None

    def _notice(self, kill_at: int, notify: Callable[[int, int], bool]) -> Stop:
        now = boottime_us()
        stop = Stop(self.task_dir, now, kill_at)
        if os.path.exists(f"{self.task_dir}/terminating.json"):
            return stop
        soft_at = kill_at - max(0, kill_at - now) // KILL_SHARE
        with contextlib.suppress(OSError):
            handles_notices = notify(soft_at, kill_at)
            stop.reached("noticed")
            stop.term_at = soft_at if handles_notices else now
        return stop


def _lease(text: str) -> "tuple[str, int, int]":
    """Boot id, end and grace. Raises `ValueError`."""
    found = json.loads(text)
    boot, until, grace = (found.get(name) if isinstance(found, dict) else None for name in FIELDS)
    if isinstance(boot, str) and isinstance(until, int) and isinstance(grace, int):
        return boot, until, grace
    raise ValueError("not a lease")
