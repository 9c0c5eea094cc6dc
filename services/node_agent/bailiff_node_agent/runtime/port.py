"""The runtime port: what every runtime offers the agent. tests/contract/test_runtime_contract.py tests each of them.

Tasks are named by their `TaskKey` alone. How a runtime identifies what it started (a pid, a container, a pod) is
internal; the agent passes `Running.instance` on and never interprets it. All times are µs on the agent's boot-time clock. A
runtime whose times come from another clock converts them by their age when it reads them.
"""

# ruff: noqa: B027 - a runtime without a capability leaves what it is for empty
import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from bailiff_kubernetes.task_keys import task_key

Pod = tuple[str, str]
"""Namespace and name."""


OUT_OF_MEMORY = "out of memory: it used more than its memory limit"
"""The error of a container that was killed for it."""


class UnknownTask(Exception):
    """No task with this key: it was never started here, or it was forgotten."""


class TaskStillRunning(Exception):
    """Only a task that has exited can be forgotten."""


@dataclass(frozen=True, order=True)
class TaskKey:
    """One attempt of one task. `str(key)` is a valid file name, and unique to the key."""

    job: str
    attempt: int
    task: str

    def __post_init__(self) -> None:
        if not self.job or not self.task or self.attempt < 0:
            raise ValueError(f"a task key needs a job, an attempt from 0 and a task, not {self!r}")
        if len(str(self)) > 200:
            raise ValueError(f"the names of job and task are too long for a folder name: {self!r}")

    @classmethod
    def parse(cls, text: str) -> "TaskKey | None":
        """The key whose `str` this is; None if there is none."""
        job, _, rest = text.rpartition("-")
        job, _, attempt = job.rpartition("-")
        if not job or not rest or not attempt.isdecimal():
            return None
        key = cls(unquote(job), int(attempt), unquote(rest)) if len(text) <= 200 else None
        return key if key is not None and str(key) == text else None

    def __str__(self) -> str:
        return task_key(self.job, self.attempt, self.task)


@dataclass(frozen=True)
class Capabilities:
    """What a runtime can do. The agent offers, checks and calls only what is declared here.

    images: runs the job's container image. host_resources: tasks use this machine's users, disk and memory, so they get
    a scratch folder and a user, and their host usage is measured. shares_gpus: a task may get a part of a GPU; `pids` must then
    name its processes, so that their memory can be counted. sees_release: it sees on the node itself that a task has ended;
    otherwise all that proves it is what another system says. notices: delivers eviction notices, steps and messages between
    node and job; without it a task gets TERM at once. outlives_agent: tasks continue without the agent, so the runtime must
    enforce the node's lease by itself. simulated: its tasks are no processes, so they run on any node. saves: it can save the
    state of a task that was launched for it, and restore it. parks: it can stop a task so that it keeps its memory and nothing
    else, and let it go on. exposes: what of the agent and its machine is in reach of its tasks
    and should not be, in a sentence; empty: nothing.
    """

    images: bool = False
    host_resources: bool = True
    shares_gpus: bool = True
    notices: bool = True
    outlives_agent: bool = True
    starts_slowly: bool = False
    simulated: bool = False
    sees_release: bool = True
    saves: bool = False
    parks: bool = False
    exposes: str = ""


@dataclass(frozen=True)
class User:
    """A user of this machine's operating system, with its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = "/"


@dataclass(frozen=True)
class WorkloadRef:
    """A Kubernetes object whose controller makes the task's pod."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class Image:
    """Where a task's state is saved: a folder that only the agent's user can enter, `name` below the job's checkpoint folder.

    identity: its device and inode: the job's user could put another folder in its place. facts: what the runtime said when it
    saved the task. about: kept with the task that is restored from it. becomes: of a folder that nobody but this node sees: where
    and in what form it is kept once it is saved; empty: here, as it is.
    """

    folder: Path
    name: str
    identity: tuple[int, int]
    facts: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    becomes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Image":
        """The inverse of `to_data`."""
        return cls(**{**data, "folder": Path(data["folder"]), "identity": tuple(data["identity"])})

    def to_data(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "folder": str(self.folder)}


@dataclass(frozen=True)
class Dumped:
    """How the saving of a task's state ended. why_not: why it failed; empty: the task is stopped, and its state is saved.

    is_whole: whether the task can go on; a program that was killed while it worked on the task may have left it damaged.
    facts: what the runtime needs to restore it.
    """

    elapsed_us: int = 0
    why_not: str = ""
    is_whole: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Restored:
    """How the restoring of a task ended. why_not: the reason where it failed; the task was then started from its command.

    about: that of its image. waits: the task of a gang stands still, until `go_on`. anew: it was ended then, and started from its
    command, because others of its gang were not restored.
    """

    elapsed_us: int
    why_not: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    waits: bool = False
    anew: bool = False


@dataclass(frozen=True)
class Launch:
    """What to run. A command given as one string is run by `/bin/sh`; a list is executed as it is.

    Output goes to `<log_dir>/<key>.log`, or into the task's own folder where log_dir is None. cpu_milli, memory_bytes: host
    limits where the runtime can enforce them; 0: no limit. user: None runs the task as the agent's user. ordered_by: seq of the
    record that ordered the start; it is returned with the task's state. For runtimes with images: the image, the
    host folders mounted at the same path inside, and the grace between TERM and KILL where the engine itself stops the container.
    device_resource: the resource of a device plugin that these devices are; empty: the node's own. part: how much of each device
    is for this task; None: all of it. tty: run the task under a pseudo-terminal, where the runtime has them. workload: the
    Kubernetes object whose pod is to be taken over; command and image are then the pod's own. check_devices: where the runtime
    learns of other devices than `device_ids`: why the task must not use these, asked before its command starts. saves: start it
    so that its state can be saved, where the runtime can do that. restore: restore it from here instead of starting its command.
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
    ordered_by: int | None = None
    tty: bool = False
    workload: WorkloadRef | None = None
    device_resource: str = ""
    part: Fraction | None = None
    check_devices: Callable[[tuple[str, ...]], str | None] | None = None
    saves: bool = False
    restore: Image | None = None

    @property
    def is_only_task(self) -> bool:
        """Whether the job has no other rank: it may checkpoint at any step, without agreement."""
        return self.env.get("WORLD_SIZE", "1") == "1"


@dataclass(frozen=True)
class Running:
    """A started task. instance: the runtime's own name for it, such as a pid or a pod's uid; opaque to the agent.

    part: of each device, where the runtime knows it: then the agent need not. begun: its program runs; False: it may not yet, as
    while its image is pulled.
    """

    key: TaskKey
    instance: str
    started_at: int
    device_ids: tuple[str, ...]
    ordered_by: int | None = None
    part: Fraction | None = None
    begun: bool = True


@dataclass(frozen=True)
class Exit:
    """How a task ended. By then its whole process tree is gone.

    code: the main process's exit code, or minus the signal that ended it; for a container it may also be 128 plus the signal.
    leftovers: how many processes outlived the main process and were killed after it. error: why the task could not be started,
    without command or paths. ended_at: when; after a reboot, when the exit was found. lease_stages: what the runtime did
    because the node's lease expired, of `noticed`, `term_sent`, `kill_sent`; deadline_stages: what it did because an eviction
    deadline passed while the agent was down. begun: whether its program ever ran.
    """

    key: TaskKey
    code: int
    ended_at: int
    device_ids: tuple[str, ...] = ()
    leftovers: int = 0
    error: str | None = None
    supervisor_lost: bool = False
    lease_stages: tuple[str, ...] = ()
    deadline_stages: tuple[str, ...] = ()
    ordered_by: int | None = None
    begun: bool = True


@dataclass(frozen=True)
class JobMessage:
    """A message from the job to its node, numbered from 1. content: `type` and fields (docs/how-to/survive-preemption.md)."""

    number: int
    at: int
    content: Mapping[str, Any]

    @property
    def type(self) -> str:
        """The type of the message, such as `progress`."""
        return str(self.content["type"])


@dataclass(frozen=True)
class Steps:
    """Progress that the job publishes in shared memory. confirmed: the step at which it would checkpoint with its gang.

    pace: steps per 1,000 s; 0: unknown.
    """

    published: int | None = None
    confirmed: int | None = None
    pace: int = 0


class DeviceUsers(Protocol):
    """Records which process uses which device, for simulated devices. A real driver reports it itself."""

    def attach(self, device_id: str, pid: int) -> None:
        """The process uses the device from now on."""
        ...

    def detach(self, device_id: str, pid: int) -> None:
        """The process no longer uses the device."""
        ...


class Runtime(ABC):
    """Starts, watches and stops tasks. What a runtime does not have it leaves as it is here; see `Capabilities`."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this runtime can do."""

    @abstractmethod
    async def adopt(self) -> list[Running | Exit]:
        """Every task that earlier agents started here and that was not forgotten. Called once, before anything else.

        `wait_exit` does not repeat an `Exit` that was returned here.
        """

    @abstractmethod
    async def start(self, launch: Launch) -> Running | Exit:
        """Start the task, once per key: for a key that was started before, return its present state.

        The first call returns `Running`, also for a task that has exited meanwhile, and `wait_exit` returns its exit. It returns
        `Exit` only where the task was lost before it began; `wait_exit` does not repeat that one.
        """

    async def begun(self, key: TaskKey) -> bool:  # noqa: ARG002
        """Of a task that is `Running` and has not begun: wait until its program runs; False once it ends before."""
        return True

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        """Deliver an eviction notice with its deadlines. A later notice replaces an earlier one."""

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        """Have TERM and KILL sent at these times even if the agent is down by then."""

    async def cancel_eviction(self, key: TaskKey) -> None:
        """Withdraw notice and deadlines. Idempotent; does nothing without a notice."""

    def propose_step(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        """The step at which the gang is to checkpoint: proposed, to be confirmed by the job, or agreed."""

    def steps(self, key: TaskKey) -> Steps:  # noqa: ARG002
        """The progress that the job publishes."""
        return Steps()

    def messages(self, key: TaskKey, after: int = 0) -> list[JobMessage]:  # noqa: ARG002
        """The job's messages with a number above `after`; of each type at least the newest."""
        return []

    async def wait_message(self) -> TaskKey:
        """Wait for a task that sent a message or confirmed a step. May return a task without a new message."""
        never: asyncio.Future[TaskKey] = asyncio.get_running_loop().create_future()
        return await never

    async def save(self, key: TaskKey, image: Image, request: str, *, goes_on: bool = False) -> Dumped:
        """Stop the task and save its state into this folder, whose content is not yet durable. It stays stopped.

        goes_on: it goes on, also without the agent; one that `freeze` has stopped stays stopped until `thaw`. request: repeated
        calls with the same one wait for the same result, also those of a later agent.
        """
        raise NotImplementedError(f"{key}: its state cannot be saved")

    async def freeze(self, key: TaskKey) -> None:
        """Stop a task of a gang before `save`, and wait until all of it stands still, without end. It is restored like this."""

    async def thaw(self, key: TaskKey) -> None:
        """Let a task go on that `freeze` or `save` has stopped."""

    async def park(self, key: TaskKey) -> None:
        """Stop all of a task, which does not notice it, until `unpark`. Idempotent. Raises `OSError`."""
        raise NotImplementedError(f"{key}: it cannot be parked")

    async def unpark(self, key: TaskKey, *, stopped: bool = False) -> None:
        """Let a parked task go on. stopped: it does not run, but can be saved, as after `freeze`. Raises `OSError`."""

    async def go_on(self, key: TaskKey, *, anew: bool) -> None:
        """Let a restored task of a gang go on, or end it and start its command anew. Of several calls the first one counts."""

    async def restored(self, key: TaskKey) -> Restored | None:  # noqa: ARG002
        """How the restoring of the task ended, once it is known; None where the task was not to be restored, or has ended."""
        return None

    @abstractmethod
    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        """Send TERM. Processes that outlive the main process are not killed until `grace_s` is over."""

    @abstractmethod
    async def kill(self, key: TaskKey) -> None:
        """Kill every process of the task. `wait_exit` returns when they are gone."""

    def renew(self, until_us: int, grace_us: int) -> None:
        """Renew the node's lease: tasks may run until then without the agent.

        After that the runtime stops each task by itself: notice and TERM at once, KILL when the grace is over. There is no
        limit before the first call. Not called for runtimes whose tasks do not outlive the agent.
        """

    @abstractmethod
    async def wait_exit(self) -> Exit:
        """The next task that has exited; each is returned once. Raises where an exit cannot be read."""

    def pids(self, key: TaskKey) -> tuple[int, ...]:  # noqa: ARG002
        """All living processes of the task on this machine, ascending; empty for an unknown task, or where they are not visible.

        After its `Exit` these are processes that escaped their supervisor; `kill` ends them as well. It reads all processes of
        the machine: the agent calls `host_processes.pids_of`.
        """
        return ()

    def memory(self, key: TaskKey) -> int:  # noqa: ARG002
        """Host memory in use by the task, bytes, as far as the host reports it."""
        return 0

    def log_path(self, key: TaskKey) -> Path | None:  # noqa: ARG002
        """The task's log file on this machine; None where it writes none. Raises `UnknownTask`."""
        return None

    def terminal_path(self, key: TaskKey) -> Path | None:  # noqa: ARG002
        """The socket of the task's terminal; None where it has none. Raises `UnknownTask`."""
        return None

    def has_shell(self, key: TaskKey) -> bool:  # noqa: ARG002
        """Whether a shell can be opened beside the running task."""
        return False

    async def open_shell(self, key: TaskKey) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A shell beside the running task, as its user and with its resources; it speaks the frames of a terminal.

        Only where it has one. Raises `OSError`.
        """
        raise NotImplementedError(f"{key}: no shell")

    def task_pods(self) -> set[Pod]:
        """Every pod on this node that is a task's, also of one that is just being started."""
        return set()

    def pod_of(self, key: TaskKey) -> Pod | None:  # noqa: ARG002
        """The task's pod; None where tasks are none."""
        return None

    async def may_be_task(self, namespace: str, name: str) -> bool:  # noqa: ARG002
        """Whether this pod is a task's, or may be one for all that is known."""
        return False

    @property
    def left(self) -> Mapping[Path, str]:
        """What tasks have left that could not be removed since the agent has started, and why."""
        return {}

    @abstractmethod
    async def forget(self, key: TaskKey) -> None:
        """Remove everything kept about a task whose `Exit` was returned, its log included if it lies in the task's folder.

        The key could then be started again; the fences on disk forbid it.
        """

    async def close(self) -> None:
        """Stop watching. The tasks continue."""
