"""What a task consists of as far as it can be ended, and TERM and KILL when they are due."""

import contextlib
import json
import os
import signal
from typing import Protocol

from .host import boottime_us, write_json
from .processes import descendants, scan, send

LEAD_US = 1_000_000  # so much later than the agent, which keeps the same deadlines while it lives


class Body(Protocol):
    """What a task consists of, as far as it can be ended."""

    def ask_to_end(self) -> None:
        """TERM."""
        ...

    def end(self) -> bool:
        """KILL to all of it; whether there was anything left."""
        ...


class Processes:
    """All that descends from this process; its main session is that of the task's main process."""

    def __init__(self, session: int) -> None:
        self.session = session

    def ask_to_end(self) -> None:
        """TERM to the main session. What has left it is asked when the main process has ended."""
        for process in descendants({os.getpid()}, scan()):
            if process.session == self.session:
                send(process, signal.SIGTERM)

    def end(self) -> bool:
        """KILL to each; whether there was one."""
        tree = descendants({os.getpid()}, scan())
        for process in tree:
            send(process, signal.SIGKILL)
        return bool(tree)


class Stop:
    """TERM and KILL for the task, each when it is due. `stages`: what was really done."""

    def __init__(self, control: str, term_at: int, kill_at: int) -> None:
        self.control, self.term_at, self.kill_at = control, term_at, kill_at
        self.stages: list[str] = []
        self._asked = False

    def next_at(self) -> int:
        """When there is something to do. Past the deadline there is still what was born while the tree was killed."""
        return self.kill_at if self._asked else self.term_at

    def enforce(self, body: Body) -> None:
        """TERM once, KILL until nothing is left."""
        now = boottime_us()
        if not self._asked and now >= self.term_at:
            self._asked = True
            self._ask_to_end(body)
        if now >= self.kill_at and body.end():
            self.reached("kill_sent")

    def reached(self, stage: str) -> None:
        if stage not in self.stages:
            self.stages.append(stage)

    def _ask_to_end(self, body: Body) -> None:
        if os.path.exists(f"{self.control}/terminating.json"):
            return  # the agent has said TERM already, and a second one cuts a clean end short
        with contextlib.suppress(OSError):  # a full disk must not keep the task alive
            write_json(f"{self.control}/terminating.json", {"until_boottime_us": self.kill_at, "by_supervisor": True})
        self.reached("term_sent")
        body.ask_to_end()


class Deadlines:
    """An eviction's, as the agent has promised them."""

    def __init__(self, control: str) -> None:
        self.control = control
        self.stop: Stop | None = None

    @property
    def stages(self) -> list[str]:
        """What was done here, because the agent was not there to do it."""
        return self.stop.stages if self.stop else []

    def next_at(self) -> int | None:
        return self.stop.next_at() if self.stop else None

    def enforce(self, body: Body) -> None:
        if not self.stages:  # until something was done they may be taken back, or others be set
            self.stop = self._look()
        if self.stop is not None:
            self.stop.enforce(body)

    def _look(self) -> Stop | None:
        try:
            with open(f"{self.control}/deadlines.json") as file:
                told = json.load(file)
            return Stop(self.control, told["term_boottime_us"] + LEAD_US, told["kill_boottime_us"] + LEAD_US)
        except (OSError, ValueError, KeyError, TypeError):
            return None
