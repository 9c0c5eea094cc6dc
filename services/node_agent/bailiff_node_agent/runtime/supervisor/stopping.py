"""Stopping a task: TERM and KILL when they are due."""

import contextlib
import json
import os
import signal
from typing import Protocol

from .host import boottime_us, write_json
from .processes import descendants, scan, send

AGENT_LEAD_US = 1_000_000  # how much later than the agent, which enforces the same deadlines while it runs


class Stoppable(Protocol):
    """A task that can be stopped."""

    def terminate(self) -> None:
        """TERM."""
        ...

    def kill(self) -> bool:
        """KILL to all of it; whether anything was left."""
        ...


class Processes:
    """All descendants of this process. session: that of the task's main process."""

    def __init__(self, session: int) -> None:
        self.session = session

    def terminate(self) -> None:
        """TERM to the main session. Processes that have left it get TERM when the main process has exited."""
        for process in descendants({os.getpid()}, scan()):
            if process.session == self.session:
                send(process, signal.SIGTERM)

    def kill(self) -> bool:
        """KILL to each; whether there was one."""
        tree = descendants({os.getpid()}, scan())
        for process in tree:
            send(process, signal.SIGKILL)
        return bool(tree)


class Stop:
    """TERM and KILL for the task, each when it is due. stages: those that were carried out."""

    def __init__(self, task_dir: str, term_at: int, kill_at: int) -> None:
        self.task_dir, self.term_at, self.kill_at = task_dir, term_at, kill_at
        self.stages: list[str] = []
        self._terminated = False

    def next_at(self) -> int:
        """When there is something to do. After kill_at too: processes may be forked while the tree is killed."""
        return self.kill_at if self._terminated else self.term_at

    def enforce(self, task: Stoppable) -> None:
        """TERM once, KILL until nothing is left."""
        now = boottime_us()
        if not self._terminated and now >= self.term_at:
            self._terminated = True
            self._terminate(task)
        if now >= self.kill_at and task.kill():
            self.reached("kill_sent")

    def reached(self, stage: str) -> None:
        if stage not in self.stages:
            self.stages.append(stage)

    def _terminate(self, task: Stoppable) -> None:
        if os.path.exists(f"{self.task_dir}/terminating.json"):
            return  # the agent has sent TERM already, and a second one would cut a clean shutdown short
        with contextlib.suppress(OSError):  # a full disk must not keep the task alive
            write_json(f"{self.task_dir}/terminating.json", {"until_boottime_us": self.kill_at, "by_supervisor": True})
        self.reached("term_sent")
        task.terminate()


class Deadlines:
    """The deadlines of an eviction, as the agent has written them."""

    def __init__(self, task_dir: str) -> None:
        self.task_dir = task_dir
        self.stop: Stop | None = None

    @property
    def stages(self) -> list[str]:
        """What was done here because the agent was down."""
        return self.stop.stages if self.stop else []

    def next_at(self) -> int | None:
        return self.stop.next_at() if self.stop else None

    def enforce(self, task: Stoppable) -> None:
        if not self.stages:  # until something was done they may be withdrawn or replaced
            self.stop = self._read()
        if self.stop is not None:
            self.stop.enforce(task)

    def _read(self) -> Stop | None:
        try:
            with open(f"{self.task_dir}/deadlines.json") as file:
                at = json.load(file)
            return Stop(self.task_dir, at["term_boottime_us"] + AGENT_LEAD_US, at["kill_boottime_us"] + AGENT_LEAD_US)
        except (OSError, ValueError, KeyError, TypeError):
            return None
