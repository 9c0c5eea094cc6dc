"""The node's lease, which ends the task when nobody renews it."""

import contextlib
import json
import os
from collections.abc import Callable

from .host import boot_id, boottime_us
from .stopping import Body, Stop

LEASE_OVER = "the agent was not heard for longer than the node's lease"
LEASE_PART = 5  # of the time that is left when the lease is over, so much is between TERM and KILL


class Lease:
    """The node's lease as the agent renews it, and the end of this task once it is over. Without a file: no limit."""

    def __init__(self, path: str, control: str) -> None:
        self.path, self.control = path, control
        self.stop: Stop | None = None
        self.killed_at_start = False
        self._last: tuple[int, int] | None = None

    @property
    def stages(self) -> list[str]:
        """What was done to the task because the lease was over."""
        return ["kill_sent"] if self.killed_at_start else self.stop.stages if self.stop else []

    def is_over(self) -> bool:
        return self._look() is not None

    def next_at(self) -> int | None:
        """When to look again, boot-time µs."""
        return self.stop.next_at() if self.stop else self._last[0] if self._last else None

    def enforce(self, body: Body, warn: Callable[[int, int], bool]) -> None:
        """When it is over, the task is told; TERM goes with the notice, to one that knows notices later. Then KILL."""
        if self.stop is None:
            kill_at = self._look()
            if kill_at is None:
                return
            self.stop = self._notice(kill_at, warn)
        self.stop.enforce(body)

    def _look(self) -> int | None:
        """When the task is to be killed; None while the lease holds."""
        try:
            with open(self.path) as file:
                lease = json.load(file)
            if lease["boot_id"] != boot_id():
                return boottime_us()
            self._last = lease["until_boottime_us"], lease["grace_us"]
        except FileNotFoundError:
            # A file that is gone was taken away under a living task: nobody will renew it any more.
            return boottime_us() + self._last[1] if self._last else None
        except (OSError, ValueError):
            pass  # a disk that fails: go by what was read last
        return sum(self._last) if self._last and boottime_us() >= self._last[0] else None

    def _notice(self, kill_at: int, warn: Callable[[int, int], bool]) -> Stop:
        now = boottime_us()
        stop = Stop(self.control, now, kill_at)
        if os.path.exists(f"{self.control}/terminating.json"):
            return stop
        soft_at = kill_at - max(0, kill_at - now) // LEASE_PART
        with contextlib.suppress(OSError):
            listens = warn(soft_at, kill_at)
            stop.reached("noticed")
            stop.term_at = soft_at if listens else now
        return stop
