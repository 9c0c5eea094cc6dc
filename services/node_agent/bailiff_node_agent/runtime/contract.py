"""What every runtime promises; tests/contract/test_runtime_contract.py holds each of them to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote


class UnknownTask(Exception):
    """No task of this key is known here: it was never started, or it has been forgotten."""


class TaskStillRuns(Exception):
    """Only an ended task can be forgotten."""


@dataclass(frozen=True, order=True)
class TaskKey:
    """One attempt of one task. `str(key)` is safe as a file name, and no two keys share it."""

    job: str
    attempt: int
    task: str

    def __post_init__(self) -> None:
        if not self.job or not self.task or self.attempt < 0:
            raise ValueError(f"a task key needs a job, an attempt from 0 and a task, not {self!r}")
        if len(str(self)) > 200:
            raise ValueError(f"the names of job and task are too long for a folder name: {self!r}")

    def __str__(self) -> str:
        # Without dashes in the task, the last two dashes separate: "a-1" + 2 + "x" is not "a" + 1 + "2-x".
        return f"{quote(self.job, safe='')}-{self.attempt}-{quote(self.task, safe='').replace('-', '%2D')}"


@dataclass(frozen=True)
class User:
    """A user of this machine's operating system, with the groups that it is in."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"


@dataclass(frozen=True)
class Launch:
    """What to run. A command given as one string is for `/bin/sh`; a list is run as it is.

    The output goes to `<log_dir>/<key>.log`, or into the task's control directory where no folder is named. cpu_milli,
    memory_bytes: what it may use of the host, where the runtime can hold it to that; 0: no limit. user: as whom it runs;
    left out: as the agent does. order: which one it was started by; it is handed back with what becomes of the task. For
    containers: the image, folders of this host that are in the same place inside, and what the engine waits between TERM and
    KILL where it is the engine that stops them.
    """

    key: TaskKey
    command: list[str] | str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    working_dir: str | None = None
    device_ids: tuple[str, ...] = ()
    log_dir: Path | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    user: User | None = None
    image: str = ""
    folders: tuple[Path, ...] = ()
    grace_s: int = 10
    order: int | None = None

    @property
    def alone(self) -> bool:
        """Whether it is the only task of its job: it need not agree with others on when to save."""
        return self.env.get("WORLD_SIZE", "1") == "1"


@dataclass(frozen=True)
class Running:
    key: TaskKey
    pid: int
    started_boottime_us: int
    device_ids: tuple[str, ...]
    order: int | None = None


@dataclass(frozen=True)
class Exit:
    """How a task ended. By then its whole process tree is gone.

    `code` is the main process's exit code, or minus the signal that ended it, which for a container may also be 128 more than
    the signal. `leftovers` counts the processes that
    the main process left behind and that were ended after it. `error` says why it could not be started, in words
    that repeat neither command nor path. `at_boottime_us` is when it ended; after a reboot, when that was found.
    `lease_stages`: what was done to it because the node's lease was over, of `noticed`, `term_sent`, `kill_sent`;
    `deadline_stages`: because a deadline came when its agent was dead.
    """

    key: TaskKey
    code: int
    at_boottime_us: int
    device_ids: tuple[str, ...] = ()
    leftovers: int = 0
    error: str | None = None
    supervisor_lost: bool = False
    lease_stages: tuple[str, ...] = ()
    deadline_stages: tuple[str, ...] = ()
    order: int | None = None


@dataclass(frozen=True)
class Said:
    """One line that the job said to the node, numbered from 1. `content`: `say`, and what belongs to it."""

    number: int
    at_boottime_us: int
    content: Mapping[str, Any]

    @property
    def say(self) -> str:
        """What kind of line it is."""
        return str(self.content["say"])


@dataclass(frozen=True)
class Steps:
    """How far the job says in shared memory that it is. `confirmed`: where it would save together with its gang.

    pace: steps in 1,000 s, 0 unknown.
    """

    published: int | None = None
    confirmed: int | None = None
    pace: int = 0


class DeviceHolds(Protocol):
    """Who is told which process uses which device. Real devices know it by themselves; simulated ones do not."""

    def hold(self, device_id: str, pid: int) -> None: ...

    def let_go(self, device_id: str, pid: int) -> None: ...


class Runtime(Protocol):
    async def adopt(self) -> list[Running | Exit]:
        """What earlier agents started here and nobody has forgotten. To be called once, before anything else.

        An `Exit` listed here is not given out by `wait_exit` again.
        """
        ...

    async def start(self, launch: Launch) -> Running | Exit:
        """Start it, or, where this key has been started before, say what became of that one.

        A first start says `Running`, also of a task that has ended by now, and `wait_exit` gives its end. It says
        `Exit` only where the task was lost before it began; `wait_exit` does not repeat an `Exit` said here.
        """
        ...

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        """Put the notice where the job looks for it, with its deadlines (boot-time µs). A later one replaces an earlier one."""
        ...

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        """TERM and KILL are due at these boot times: whoever is there when the agent is not keeps them."""
        ...

    async def spare(self, key: TaskKey) -> None:
        """Take notice and deadlines back: the task stays. Done again, or without a notice, it changes nothing."""
        ...

    def propose(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        """The step at which the job is to save together with its gang: to be confirmed, or agreed on."""
        ...

    def steps(self, key: TaskKey) -> Steps:
        """How far it says in shared memory that it is."""
        ...

    def said(self, key: TaskKey, after: int = 0) -> list[Said]:
        """What it has said to the node since the line of this number."""
        ...

    async def wait_word(self) -> TaskKey:
        """A task that has said something, or confirmed a step. It may be named again without anything new."""
        ...

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        """Ask the task to end. What outlives its main process is left in peace until `grace_s` is over."""
        ...

    async def kill(self, key: TaskKey) -> None:
        """End every process of the task. `wait_exit` tells when they are gone."""
        ...

    def renew(self, until_boottime_us: int, grace_us: int) -> None:
        """Tasks may run until then without another word from the agent.

        After that each is stopped without it: notice and TERM at once, KILL when the grace is over. Where this was never
        called, there is no limit. Tasks that cannot outlive the agent's process need none.
        """
        ...

    async def wait_exit(self) -> Exit:
        """The next task that has ended; each is given out once. Raises where an end cannot be read."""
        ...

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        """All living processes of the task, in rising order; none for a task that is not known.

        After its `Exit` they are those that got away from whoever looked after it, and `kill` ends them, too.
        """
        ...

    def memory(self, key: TaskKey) -> int:
        """Host memory that the task's processes use, bytes, as far as the host tells."""
        ...

    async def forget(self, key: TaskKey) -> None:
        """Remove what is kept about an ended task whose `Exit` has been given out, its log there included.

        From then on the key could be started again: the fences on disk are what forbids that.
        """
        ...

    async def close(self) -> None:
        """Stop watching. The tasks go on."""
        ...
