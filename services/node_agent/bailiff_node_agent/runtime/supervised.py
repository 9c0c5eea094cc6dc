"""Base of runtimes whose tasks run under a supervisor: a small process beside each task that outlives the agent."""

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from bailiff_node_agent.disk.storage import sync_folder, write_durably
from bailiff_node_agent.runtime.supervisor.host import boot_id, boottime_us
from bailiff_node_agent.runtime.supervisor.processes import Process, read_process, send
from bailiff_service.logs import logger

from . import control_dir
from .fork_server import ForkServer, ForkServerDied, shared_fork_server
from .message_watcher import MessageWatcher
from .port import (
    Capabilities,
    DeviceUsers,
    Exit,
    JobMessage,
    Launch,
    Running,
    Steps,
    TaskKey,
    TaskStillRunning,
    UnknownTask,
    User,
)
from .process_tree import is_alive, stray_processes
from .supervisor.terminal import SOCKET
from .task_record import TaskRecord, exit_of, is_supervised, read_json, read_running, read_task_record

POLL_S = 0.02


class SupervisedRuntime(ABC):
    """One folder `<state_dir>/tasks/<key>` per task, the task folder, holds all state that the next agent needs.

    The job sees its control directory: steps, notice and socket. It is the task folder, or, for a task that runs as another
    user or in a container, `<state_dir>/control/<key>`, which is that user's.
    """

    capabilities: ClassVar[Capabilities]
    supervisor: ClassVar[tuple[str, ...]]
    """Python's arguments to run the supervisor. The last one identifies it among the processes of this machine."""
    inherited: ClassVar[tuple[str, ...]] = ()
    """Variables of the agent's environment that the supervisor needs."""

    def __init__(self, state_dir: Path, *, devices: DeviceUsers | None = None) -> None:
        self._tasks = state_dir.absolute() / "tasks"
        self._control_dirs = state_dir.absolute() / "control"
        self._unfinished = state_dir.absolute() / "unfinished"  # folders that are being made, or removed
        self._lease_file = state_dir.absolute() / "lease.json"
        self._tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._unfinished.mkdir(mode=0o700, exist_ok=True)
        self._devices = devices
        self._lease: tuple[int, int] | None = None
        self._watched: dict[TaskKey, int | None] = {}
        """The pidfd of each task's supervisor; None once that has ended."""
        self._ended: asyncio.Queue[asyncio.Task[Exit]] = asyncio.Queue()
        self._concluding: set[asyncio.Task[Exit]] = set()
        self._watcher = MessageWatcher(self.task_dir, self.control_dir)

    # --- implemented by each runtime

    @abstractmethod
    def _has_own_control_dir(self, launch: Launch) -> bool:
        """Whether the job's control directory is apart from the task folder."""

    @abstractmethod
    def _launch_input(self, launch: Launch, control: Path, log: Path) -> dict[str, Any]:
        """What the supervisor reads on standard input. control: the job's control directory."""

    @abstractmethod
    def _processes(self, key: TaskKey) -> list[Process]:
        """All living processes of the task, by pid."""

    @abstractmethod
    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        """Send TERM."""

    @abstractmethod
    async def kill(self, key: TaskKey) -> None:
        """Kill every process of the task."""

    @abstractmethod
    def memory(self, key: TaskKey) -> int:
        """Host memory in use by the task, bytes."""

    @abstractmethod
    async def _clean_up(self, key: TaskKey) -> None:
        """Remove what is left of a task besides its folders, which are removed already."""

    @abstractmethod
    async def _clean_up_lost(self, key: TaskKey) -> None:
        """Remove what is left of a task whose supervisor was lost and whose processes were killed."""

    # --- the port

    async def adopt(self) -> list[Running | Exit]:
        abandoned = (each for each in _entries(self._control_dirs) if not (self._tasks / each.name).exists())
        for folder in [*self._unfinished.iterdir(), *abandoned]:
            shutil.rmtree(folder)
        await self._kill_strays()
        states = []
        for folder in sorted(self._tasks.iterdir()):
            state = await self._state(read_task_record(folder).key)
            if isinstance(state, Running):
                self._watch(state)
            states.append(state)
        return states

    async def start(self, launch: Launch) -> Running | Exit:
        is_new = await asyncio.to_thread(self._start_once, launch)
        running = read_running(self.task_dir(launch.key), launch.key) if is_new else None
        state = running or await self._state(launch.key)
        if isinstance(state, Running):
            self._watch(state)
        return state

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        task = self._known(key)
        is_only_task = read_task_record(task).is_only_task
        self._watcher.poll_fast(key)
        await asyncio.to_thread(
            control_dir.write_notice, task, self.control_dir(key), payload, soft_us, hard_us, is_only_task=is_only_task
        )

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        await asyncio.to_thread(control_dir.write_deadlines, self._known(key), term_us, kill_us)
        self._wake(key)

    async def cancel_eviction(self, key: TaskKey) -> None:
        await asyncio.to_thread(control_dir.withdraw_notice, self._known(key), self.control_dir(key))
        self._watcher.poll_slowly(key)
        self._wake(key)

    def propose_step(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        self._known(key)
        control_dir.propose_step(self.control_dir(key), step, agreed=agreed)

    def steps(self, key: TaskKey) -> Steps:
        return control_dir.read_steps(self.control_dir(key))

    def messages(self, key: TaskKey, after: int = 0) -> list[JobMessage]:
        return self._watcher.messages(key, after)

    async def wait_message(self) -> TaskKey:
        return await self._watcher.wait(self._watched)

    def renew(self, until_us: int, grace_us: int) -> None:
        self._lease = until_us, grace_us
        if self._watched:
            self._write_lease()

    async def wait_exit(self) -> Exit:
        return (await self._ended.get()).result()

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes(key))

    def log_path(self, key: TaskKey) -> Path | None:
        return read_task_record(self._known(key)).log

    def terminal_path(self, key: TaskKey) -> Path | None:
        path = self._known(key) / SOCKET
        return path if path.exists() else None

    async def forget(self, key: TaskKey) -> None:
        task = self._known(key)
        if not (task / "exit.json").exists():
            raise TaskStillRunning(f"{key} has not exited")
        self._unwatch(key)
        self._watcher.forget(key)
        await asyncio.to_thread(self._remove, task)
        await self._clean_up(key)

    async def close(self) -> None:
        for key in [*self._watched]:
            self._unwatch(key)
        for task in self._concluding:
            task.cancel()
        await asyncio.gather(*self._concluding, return_exceptions=True)

    # --- folders

    def task_dir(self, key: TaskKey) -> Path:
        """The task folder: what supervisor and agent keep, and the log unless the launch named another folder for it."""
        return self._tasks / str(key)

    def control_dir(self, key: TaskKey) -> Path:
        """The control directory that the job sees: `steps`, `notice.json`, `socket`."""
        own = self._control_dirs / str(key)
        return own if own.exists() else self.task_dir(key)

    def _known(self, key: TaskKey) -> Path:
        task = self.task_dir(key)
        if not task.exists():
            raise UnknownTask(f"there is no task {key} here")
        return task

    def _start_once(self, launch: Launch) -> bool:
        """Whether it was this call that started the task."""
        task = self.task_dir(launch.key)
        log = launch.log_dir.absolute() / f"{launch.key}.log" if launch.log_dir else task / "log"
        control = self._control_dirs / str(launch.key) if self._has_own_control_dir(launch) else task
        launch_input = json.dumps(self._launch_input(launch, control, log)).encode()
        new = self._unfinished / f"{launch.key}-{secrets.token_hex(4)}"
        new.mkdir(mode=0o700)
        record = {
            "device_ids": launch.device_ids,
            "log": str(log),
            "is_only_task": launch.is_only_task,
            "ordered_by": launch.ordered_by,
        }
        if control == task:
            control_dir.prepare(new)
        write_durably(new / "task.json", json.dumps({**asdict(launch.key), **record}).encode())
        lock = os.open(new / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Locked before the rename, and inherited by the supervisor: as soon as others can see the folder, a free
            # lock means that the task has no supervisor.
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                new.rename(task)
            except OSError:
                shutil.rmtree(new)
                if task.exists():
                    return False
                raise
            sync_folder(self._tasks)
            if control != task:
                self._make_control_dir(control, launch.user)
            self._spawn(launch_input, task, lock)
            return True
        finally:
            os.close(lock)

    def _make_control_dir(self, folder: Path, user: User | None) -> None:
        """Owned by the user and closed to all others; the parent can be passed through but not listed."""
        self._control_dirs.mkdir(exist_ok=True)
        self._control_dirs.chmod(0o711)
        folder.mkdir(mode=0o700)
        control_dir.prepare(folder, user)
        if user is not None:
            os.chown(folder, user.uid, user.gid)

    def _remove(self, task: Path) -> None:
        old = self._unfinished / f"{task.name}-{secrets.token_hex(4)}"
        task.rename(old)
        sync_folder(self._tasks)
        control = self._control_dirs / task.name
        for folder in (old, control) if control.exists() else (old,):
            shutil.rmtree(folder)

    # --- supervisors

    def _write_lease(self) -> None:
        """Not durably: after a power loss no task is left to which it applies."""
        if self._lease is None:
            return
        until_us, grace_us = self._lease
        lease = {"until_boottime_us": until_us, "grace_us": grace_us, "boot_id": boot_id()}
        new = self._lease_file.with_name(f"lease.json.{secrets.token_hex(4)}")  # two threads may write at once
        new.write_text(json.dumps(lease))
        new.replace(self._lease_file)

    def _spawn(self, launch_input: bytes, task: Path, lock: int) -> None:
        """Have a supervisor forked, and wait until the task runs. Without one the lock is free, and the task counts as lost."""
        self._write_lease()
        launch, writer = os.pipe()
        waiting, ready = os.pipe()
        handles = (launch, os.open(task / "supervisor.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), lock, ready)
        try:
            self._fork({"task_dir": str(task), "lease": str(self._lease_file)}, handles)
        except ForkServerDied as error:
            logger().error("no supervisor could be started", task=task.name, reason=str(error))
        finally:
            for handle in handles:
                if handle != lock:
                    os.close(handle)
        with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as file:
            file.write(launch_input)
        os.read(waiting, 1)
        os.close(waiting)

    def _fork(self, request: Mapping[str, str], handles: Sequence[int]) -> None:
        """Once more with another fork server where the first was killed."""
        for attempt in range(2):
            try:
                _, _, status = self._fork_server().fork(request, handles)
            except ForkServerDied:
                if attempt:
                    raise
            else:
                os.close(status)
                return

    def _fork_server(self) -> ForkServer:
        """Forks supervisors. One for all nodes of this agent; it is started with the first, and imports all that they need."""
        env = {name: os.environ[name] for name in self.inherited if name in os.environ}
        return shared_fork_server(("-I", *self.supervisor), env=env)

    def _wake(self, key: TaskKey) -> None:
        """Notify the supervisor of changed files: it reads them again."""
        running = read_json(self.task_dir(key) / "running.json")
        process = read_process(running["supervisor_pid"]) if running is not None else None
        if running is not None and process is not None and process.started == running["supervisor_started"]:
            send(process, signal.SIGCHLD)  # wakes a supervisor; it has no other effect

    # --- the state of a task

    async def _state(self, key: TaskKey) -> Running | Exit:
        folder, task = self.task_dir(key), read_task_record(self.task_dir(key))
        while True:
            # The lock is read first: what a supervisor has written, it wrote before it released the lock.
            supervised = is_supervised(folder)
            if end := read_json(folder / "exit.json"):
                return exit_of(task, end)
            if not supervised:
                return await self._conclude_lost(task, folder)
            if running := read_running(folder, key):
                return running
            await asyncio.sleep(POLL_S)

    def _watch(self, running: Running) -> None:
        if running.key in self._watched:
            return
        folder = self.task_dir(running.key)
        if (self.control_dir(running.key) / "notice.json").exists():
            self._watcher.poll_fast(running.key)
        pid = (read_json(folder / "running.json") or {})["supervisor_pid"]
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            handle = None
        if handle is not None and not is_supervised(folder):
            os.close(handle)  # the pid may have been reused by another process
            handle = None
        self._watched[running.key] = handle
        if handle is None:
            self._supervisor_ended(running)
        else:
            asyncio.get_running_loop().add_reader(handle, self._supervisor_ended, running)
        if self._devices:
            for device_id in running.device_ids:
                self._devices.attach(device_id, int(running.instance))

    def _unwatch(self, key: TaskKey) -> None:
        handle = self._watched.pop(key, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)

    def _supervisor_ended(self, running: Running) -> None:
        self._unwatch(running.key)
        self._watched[running.key] = None
        task = asyncio.create_task(self._conclude(running))
        self._concluding.add(task)
        task.add_done_callback(self._concluding.discard)
        task.add_done_callback(self._ended.put_nowait)

    async def _conclude(self, running: Running) -> Exit:
        # A supervisor killed while it was starting may leave its lock to a fork for a moment.
        while isinstance(state := await self._state(running.key), Running):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(POLL_S)
        self._watcher.poll_slowly(running.key)
        if self._devices:
            for device_id in running.device_ids:
                self._devices.detach(device_id, int(running.instance))
        return state

    async def _conclude_lost(self, task: TaskRecord, folder: Path) -> Exit:
        """No supervisor is left to write this exit: kill what is left of the task, and write it here."""
        await self.kill(task.key)
        end = {
            "code": -signal.SIGKILL,
            "at_boottime_us": boottime_us(),
            "boot_id": boot_id(),
            "leftovers": 0,
            "error": None,
            "supervisor_lost": True,
            "lease_stages": [],
        }
        await asyncio.to_thread(write_durably, folder / "exit.json", json.dumps(end).encode())
        await self._clean_up_lost(task.key)
        return exit_of(task, end)

    async def _strays(self) -> list[Process]:
        return await asyncio.to_thread(stray_processes, self._tasks, self._control_dirs, self.supervisor[-1])

    async def _kill_strays(self) -> None:
        """Kill tasks whose folder was removed: this agent does not track them any more, and their jobs will run elsewhere."""
        killed: set[Process] = set()
        while strays := await self._strays() or [*filter(is_alive, killed)]:
            for process in strays:
                send(process, signal.SIGKILL)
            killed.update(strays)  # an exiting process has no environment to identify it, and may still use a GPU
            await asyncio.sleep(POLL_S)


def ids_of(user: User | None) -> dict[str, Any] | None:
    """The user's ids, in the form that supervisors read."""
    return None if user is None else {"uid": user.uid, "gid": user.gid, "groups": user.groups}


def _entries(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.exists() else []
