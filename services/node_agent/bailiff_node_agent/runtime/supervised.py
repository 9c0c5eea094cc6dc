"""Base of runtimes whose tasks run under a supervisor: a small process beside each task that outlives the agent."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bailiff_node_agent.disk.storage import DamagedFile, write_durably
from bailiff_node_agent.runtime.supervisor.host import boot_id, boottime_us
from bailiff_node_agent.runtime.supervisor.notice import withdraw_notice, write_notice
from bailiff_node_agent.runtime.supervisor.processes import Process, send
from bailiff_service.logs import logger

from . import control_dir, job_files
from .host_processes import looking
from .message_watcher import MessageWatcher
from .port import (
    DeviceUsers,
    Exit,
    JobMessage,
    Launch,
    Running,
    Runtime,
    Steps,
    TaskKey,
    TaskStillRunning,
    UnknownTask,
    User,
)
from .process_tree import is_alive, stray_processes
from .supervisor import safe_open
from .supervisor.terminal import SOCKET
from .supervisors import Supervisors
from .task_folders import TaskFolders
from .task_record import TaskRecord, exit_of, is_supervised, read_json, read_running, read_task_record

POLL_S = 0.02
BEGUN_POLL_S = 0.2
SHELLS_END_WITHIN_S = 5
LEFT_END_WITHIN_S = 30.0
"""After that the agent starts without the end of what lost supervisors and removed tasks have left. A GPU in use is not free."""


class SupervisedRuntime(Runtime):
    """What the next agent needs is in the task's folder; a task whose supervisor is gone has ended.

    A runtime says how its tasks are launched, listed and killed; the supervisor's program differs, what it does is the same.
    """

    supervisor: ClassVar[tuple[str, ...]]
    """Python's arguments to run the supervisor. The last one identifies it among the processes of this machine."""
    shell_flags: ClassVar[tuple[str, ...]] = ("-S",)
    """Python's options for the program of a shell: without `site`, unless it needs installed packages."""
    inherited: ClassVar[tuple[str, ...]] = ()
    """Variables of the agent's environment that the supervisor needs."""

    def __init__(self, state_dir: Path, *, devices: DeviceUsers | None = None) -> None:
        self.folders = TaskFolders(state_dir.absolute())
        self._supervisors = Supervisors(self.supervisor, self.inherited, state_dir.absolute() / "lease.json")
        self._devices = devices
        self._watched: dict[TaskKey, int | None] = {}
        """The pidfd of each task's supervisor; None once that has ended."""
        self._ended: asyncio.Queue[asyncio.Task[Exit]] = asyncio.Queue()
        self._concluding: set[asyncio.Task[Exit]] = set()
        self.clearing: asyncio.Task[None] | None = None
        """The removal of what earlier agents have left, which may take long."""
        self._watcher = MessageWatcher(self.folders.task, self.folders.control)
        self._shells = set[asyncio.Task[int]]()

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
    async def _clean_up(self, key: TaskKey) -> None:
        """Remove what is left of a task besides its folders, which are removed already."""

    @abstractmethod
    async def _clean_up_lost(self, key: TaskKey) -> None:
        """Remove what is left of a task whose supervisor was lost and whose processes were killed."""

    # --- the port

    async def adopt(self) -> list[Running | Exit]:
        abandoned = await job_files.reading(self.folders.abandoned)
        self.clearing = asyncio.create_task(self.folders.unfinished.remove(*abandoned))
        await self._kill_strays()
        states = []
        for folder in self.folders.tasks():
            state = await self._adopted(folder, read_task_record(folder).key)
            if isinstance(state, Running):
                self._watch(state)
            states.append(state)
        return states

    async def _adopted(self, folder: Path, key: TaskKey) -> Running | Exit:
        """The task's state. The agent does not wait for ever for the end of what a lost supervisor has left."""
        running = read_running(folder, key)
        try:
            async with asyncio.timeout(None if running is None else LEFT_END_WITHIN_S):
                return await self._state(key)
        except TimeoutError:
            logger().error("what a lost supervisor has left does not end when killed", task=str(key), pids=self.pids(key)[:20])
            assert running is not None
            return running

    async def start(self, launch: Launch) -> Running | Exit:
        is_new = await asyncio.to_thread(self._start_once, launch)
        running = read_running(self.folders.task(launch.key), launch.key) if is_new else None
        state = running or await self._state(launch.key)
        if isinstance(state, Running):
            self._watch(state)
        return state

    async def begun(self, key: TaskKey) -> bool:
        folder = self.folders.known(key)
        while self._watched.get(key) is not None:
            running = await asyncio.to_thread(read_running, folder, key)
            if running is not None and running.begun:
                return True
            await asyncio.sleep(BEGUN_POLL_S)
        return False

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        task = self.folders.known(key)
        is_only_task = read_task_record(task).is_only_task
        self._watcher.poll_fast(key)
        folders = str(task), str(self.folders.control(key))
        await asyncio.to_thread(write_notice, *folders, dict(payload), soft_us, hard_us, is_only_task=is_only_task)

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        await asyncio.to_thread(control_dir.write_deadlines, self.folders.known(key), term_us, kill_us)
        self._supervisors.wake(self.folders.task(key))

    async def cancel_eviction(self, key: TaskKey) -> None:
        await asyncio.to_thread(withdraw_notice, str(self.folders.known(key)), str(self.folders.control(key)))
        self._watcher.poll_slowly(key)
        self._supervisors.wake(self.folders.task(key))

    def propose_step(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        self.folders.known(key)
        control_dir.propose_step(self.folders.control(key), step, agreed=agreed)

    def steps(self, key: TaskKey) -> Steps:
        return control_dir.read_steps(self.folders.control(key))

    def messages(self, key: TaskKey, after: int = 0) -> list[JobMessage]:
        return self._watcher.messages(key, after)

    async def wait_message(self) -> TaskKey:
        return await self._watcher.wait(self._watched)

    def renew(self, until_us: int, grace_us: int) -> None:
        self._supervisors.lease = until_us, grace_us
        if self._watched:
            self._supervisors.write_lease()

    async def wait_exit(self) -> Exit:
        return (await self._ended.get()).result()

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes(key))

    def log_path(self, key: TaskKey) -> Path | None:
        try:
            return read_task_record(self.folders.known(key)).log
        except DamagedFile as damage:
            raise UnknownTask(str(damage)) from damage

    def terminal_path(self, key: TaskKey) -> Path | None:
        path = self.folders.known(key) / SOCKET
        return path if path.exists() else None

    async def forget(self, key: TaskKey) -> None:
        task = self.folders.known(key)
        if not (task / "exit.json").exists():
            raise TaskStillRunning(f"{key} has not exited")
        self._unwatch(key)
        self._watcher.forget(key)
        await self.folders.remove(task)
        await self._clean_up(key)

    @property
    def left(self) -> Mapping[Path, str]:
        return self.folders.unfinished.left

    async def _opened_shell(self, program: str, about: Mapping[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to this program, which runs one shell. It is not the agent, so a shell ends also where that is killed."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    *self.shell_flags,
                    "-c",
                    program,
                    json.dumps(about),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                )
            self._shells.add(reaping := asyncio.create_task(process.wait()))
            reaping.add_done_callback(self._shells.discard)
            return await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            raise

    async def close(self) -> None:
        if self._shells:  # they end with their connections
            await asyncio.wait(self._shells, timeout=SHELLS_END_WITHIN_S)
        for key in [*self._watched]:
            self._unwatch(key)
        tasks = [*self._concluding, *([self.clearing] if self.clearing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- starting

    def _start_once(self, launch: Launch) -> bool:
        """Whether it was this call that started the task."""
        control = self.folders.control_of(launch.key, apart=self._has_own_control_dir(launch))
        log = launch.log_dir.absolute() / f"{launch.key}.log" if launch.log_dir else self.folders.task(launch.key) / "log"
        launch_input = json.dumps(self._launch_input(launch, control, log)).encode()
        lock = self.folders.make(launch, control, log)
        if lock is None:
            return False
        try:
            self._supervisors.start(launch_input, self.folders.task(launch.key), lock)
        finally:
            os.close(lock)
        return True

    # --- the state of a task

    async def _state(self, key: TaskKey) -> Running | Exit:
        folder, task = self.folders.task(key), read_task_record(self.folders.task(key))
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
        folder = self.folders.task(running.key)
        if safe_open.exists(str(self.folders.control(running.key)), "notice.json"):
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
        running = read_running(folder, task.key)
        await self.kill(task.key)
        end = {
            "code": -signal.SIGKILL,
            "at_boottime_us": boottime_us(),
            "boot_id": boot_id(),
            "leftovers": 0,
            "error": None,
            "supervisor_lost": True,
            "lease_stages": [],
            "begun": running is None or running.begun,
        }
        await asyncio.to_thread(write_durably, folder / "exit.json", json.dumps(end).encode())
        await self._clean_up_lost(task.key)
        return exit_of(task, end)

    async def _strays(self) -> list[Process]:
        return await looking(stray_processes, *self.folders.parents, self.supervisor[-1])

    async def _kill_strays(self) -> None:
        """Kill tasks whose folder was removed: this agent does not track them any more, and their jobs will run elsewhere."""
        killed: set[Process] = set()
        until = time.monotonic() + LEFT_END_WITHIN_S
        while strays := await self._strays() or [*filter(is_alive, killed)]:
            if time.monotonic() > until:
                logger().error("processes of removed tasks do not end when killed", pids=[each.pid for each in strays[:20]])
                return
            for process in strays:
                send(process, signal.SIGKILL)
            killed.update(strays)  # an exiting process has no environment to identify it, and may still use a GPU
            await asyncio.sleep(POLL_S)


def ids_of(user: User | None) -> dict[str, Any] | None:
    """The user's ids, in the form that supervisors read."""
    return None if user is None else {"uid": user.uid, "gid": user.gid, "groups": user.groups}
