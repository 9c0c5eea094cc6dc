"""Tasks as processes of this machine, each under a supervisor that outlives the agent."""

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import sync_folder, write_durably
from bailiff_node_agent.runtime import wall
from bailiff_node_agent.runtime.cgroups import Cgroups
from bailiff_node_agent.runtime.contract import (
    DeviceHolds,
    Exit,
    Launch,
    Running,
    Said,
    Steps,
    TaskKey,
    TaskStillRuns,
    UnknownTask,
    User,
)
from bailiff_node_agent.runtime.folder import TaskFile, exit_of, is_supervised, read_json, read_running, read_task
from bailiff_node_agent.runtime.supervisor.host import boot_id, boottime_us
from bailiff_node_agent.runtime.supervisor.processes import Process, read_process, send
from bailiff_node_agent.runtime.tree import lives, marks_of, resident, tree_of, without_folder
from bailiff_node_agent.runtime.words import Words

POLL_S = 0.02
_SUPERVISOR = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); from supervisor.main import main; main()"
"""By itself, where nothing else of ours is found: importing us whole would cost each task tens of megabytes."""


class ProcessRuntime:
    """One folder `<state_dir>/tasks/<key>` for each task, the control directory, is all that agents hand on.

    A task that runs as another user has `<state_dir>/walls/<key>` beside it, which is that user's: there is what it and its
    node say to each other, and to it that is the control directory.
    """

    _program: tuple[str, ...] = ("-S", "-c", _SUPERVISOR)
    """The supervisor's, for Python. Its last word is how one is recognised."""
    _keeps: tuple[str, ...] = ()
    """What of the agent's environment the supervisor needs."""

    def __init__(self, state_dir: Path, *, devices: DeviceHolds | None = None, cgroups: Cgroups | None = None) -> None:
        self._tasks = state_dir.absolute() / "tasks"
        self._walls = state_dir.absolute() / "walls"
        self._unfinished = state_dir.absolute() / "unfinished"  # folders being made, or being removed
        self._lease_file = state_dir.absolute() / "lease.json"
        self._tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._unfinished.mkdir(mode=0o700, exist_ok=True)
        self._devices, self._cgroups = devices, cgroups
        self._lease: tuple[int, int] | None = None
        self._watched: dict[TaskKey, int | None] = {}
        """The handle that tells of the supervisor's end; None once it has."""
        self._ended: asyncio.Queue[asyncio.Task[Exit]] = asyncio.Queue()
        self._concluding: set[asyncio.Task[Exit]] = set()
        self._words = Words(self._control, self._wall)

    async def adopt(self) -> list[Running | Exit]:
        for folder in [*self._unfinished.iterdir(), *(each for each in _inside(self._walls) if not self._has_task(each))]:
            shutil.rmtree(folder)
        await self._end_strays()
        found = []
        for folder in sorted(self._tasks.iterdir()):
            state = await self._state(read_task(folder).key)
            if isinstance(state, Running):
                self._watch(state)
            found.append(state)
        return found

    async def start(self, launch: Launch) -> Running | Exit:
        is_new = await asyncio.to_thread(self._start_once, launch)
        running = read_running(self._control(launch.key), launch.key) if is_new else None
        state = running or await self._state(launch.key)
        if isinstance(state, Running):
            self._watch(state)
        return state

    async def notice(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int = 0, hard_us: int = 0) -> None:
        alone = read_task(self._known(key)).alone
        self._words.expect(key)
        await asyncio.to_thread(wall.put_notice, self._control(key), self._wall(key), payload, soft_us, hard_us, alone=alone)

    async def deadlines(self, key: TaskKey, term_us: int, kill_us: int) -> None:
        await asyncio.to_thread(wall.put_deadlines, self._known(key), term_us, kill_us)
        self._wake(key)

    async def spare(self, key: TaskKey) -> None:
        self._known(key)
        await asyncio.to_thread(wall.take_back, self._control(key), self._wall(key))
        self._words.expect_no_more(key)
        self._wake(key)

    def propose(self, key: TaskKey, step: int, *, agreed: bool) -> None:
        self._known(key)
        wall.propose(self._wall(key), step, agreed=agreed)

    def steps(self, key: TaskKey) -> Steps:
        return wall.read_steps(self._wall(key))

    def said(self, key: TaskKey, after: int = 0) -> list[Said]:
        return self._words.said(key, after)

    async def wait_word(self) -> TaskKey:
        return await self._words.wait(self._watched)

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        running = read_json(self._known(key) / "running.json")
        said = read_json(self._control(key) / "terminating.json") or {}
        if running is None or said.get("by_supervisor") or said.get("lease_over"):  # as an earlier release calls it
            return
        until = {"until_boottime_us": boottime_us() + int(grace_s * 1_000_000)}
        await asyncio.to_thread(write_durably, self._control(key) / "terminating.json", json.dumps(until).encode())
        for process in self._tree(key):
            if process.session == running["pid"]:
                send(process, signal.SIGTERM)

    async def kill(self, key: TaskKey) -> None:
        self._known(key)
        if self._cgroups:
            self._cgroups.kill(key)
        # What is killed no longer forks, so each round leaves only what was born during the scan before it.
        while tree := self._tree(key):
            for process in tree:
                send(process, signal.SIGKILL)
            await asyncio.sleep(POLL_S)

    def renew(self, until_boottime_us: int, grace_us: int) -> None:
        self._lease = until_boottime_us, grace_us
        if self._watched:
            self._write_lease()

    async def wait_exit(self) -> Exit:
        return (await self._ended.get()).result()

    def pids(self, key: TaskKey) -> tuple[int, ...]:
        return tuple(process.pid for process in self._tree(key))

    def memory(self, key: TaskKey) -> int:
        if self._cgroups and (charged := self._cgroups.memory(key)):
            return charged
        return sum(map(resident, self.pids(key)))

    async def forget(self, key: TaskKey) -> None:
        control = self._known(key)
        if not (control / "exit.json").exists():
            raise TaskStillRuns(f"{key} has not ended")
        self._unwatch(key)
        self._words.forget(key)
        await asyncio.to_thread(self._remove, control)
        if self._cgroups:
            self._cgroups.remove(key)

    async def close(self) -> None:
        for key in [*self._watched]:
            self._unwatch(key)
        for task in self._concluding:
            task.cancel()
        await asyncio.gather(*self._concluding, return_exceptions=True)

    def control_dir(self, key: TaskKey) -> Path:
        """Where this runtime keeps what it knows of the task, and the log unless the launch named another folder for it."""
        return self._control(key)

    def wall_dir(self, key: TaskKey) -> Path:
        """What the task is told is its control directory: where its notice is."""
        return self._wall(key)

    def log_path(self, key: TaskKey) -> Path:
        return read_task(self._known(key)).log

    # --- one task's folder

    def _control(self, key: TaskKey) -> Path:
        return self._tasks / str(key)

    def _wall(self, key: TaskKey) -> Path:
        own = self._walls / str(key)
        return own if own.exists() else self._control(key)

    def _has_task(self, wall_folder: Path) -> bool:
        return (self._tasks / wall_folder.name).exists()

    def _wake(self, key: TaskKey) -> None:
        """Let the supervisor look at what was written for it."""
        running = read_json(self._control(key) / "running.json")
        process = read_process(running["supervisor_pid"]) if running is not None else None
        if running is not None and process is not None and process.started == running["supervisor_started"]:
            send(process, signal.SIGCHLD)  # which does nothing else, and nothing at all to one of an earlier release

    def _known(self, key: TaskKey) -> Path:
        control = self._control(key)
        if not control.exists():
            raise UnknownTask(f"there is no task {key} here")
        return control

    def _start_once(self, launch: Launch) -> bool:
        """Whether it was this call that started it."""
        control = self._control(launch.key)
        log = launch.log_dir.absolute() / f"{launch.key}.log" if launch.log_dir else control / "log"
        own_wall = self._walls / str(launch.key) if self._is_walled(launch) else control
        orders = json.dumps(self._orders(launch, own_wall, log)).encode()
        new = self._unfinished / f"{launch.key}-{secrets.token_hex(4)}"
        new.mkdir(mode=0o700)
        about = {"device_ids": launch.device_ids, "log": str(log), "alone": launch.alone, "order": launch.order}
        if own_wall == control:
            wall.prepare(new)
        write_durably(new / "task.json", json.dumps({**asdict(launch.key), **about}).encode())
        lock = os.open(new / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Taken before the folder has its name, and handed to the supervisor: from the first moment that others
            # can see the folder, a free lock means that nobody looks after the task.
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                new.rename(control)
            except OSError:
                shutil.rmtree(new)
                if control.exists():
                    return False
                raise
            sync_folder(self._tasks)
            if own_wall != control:
                self._make_wall(own_wall, launch.user)
            self._spawn(orders, control, lock)
            return True
        finally:
            os.close(lock)

    def _is_walled(self, launch: Launch) -> bool:
        """Whether what the task sees lies apart from what only its supervisor and the agent may see."""
        return launch.user is not None

    def _orders(self, launch: Launch, own_wall: Path, log: Path) -> dict[str, Any]:
        """What its supervisor is told on standard input."""
        group = self._cgroups.make(launch.key, launch.cpu_milli, launch.memory_bytes) if self._cgroups else None
        inherited, user = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, launch.user
        if user is not None:
            inherited |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        return {
            "command": launch.command,
            "env": {**inherited, **launch.env, **marks_of(launch.key, own_wall)},
            "wall": str(own_wall),
            "user": ids_of(user),
            "working_dir": launch.working_dir or inherited.get("HOME", "/"),
            "log": str(log),
            "alone": launch.alone,
            "cgroup": str(group) if group is not None else None,
        }

    def _make_wall(self, folder: Path, user: User | None) -> None:
        """The user's own, and nobody else's; who may pass through its parent cannot see what is in it."""
        self._walls.mkdir(exist_ok=True)
        self._walls.chmod(0o711)
        folder.mkdir(mode=0o700)
        wall.prepare(folder, user)
        if user is not None:
            os.chown(folder, user.uid, user.gid)

    def _write_lease(self) -> None:
        """Not durably: after a power loss there is no task left that goes by it."""
        if self._lease is None:
            return
        until_us, grace_us = self._lease
        lease = {"until_boottime_us": until_us, "grace_us": grace_us, "boot_id": boot_id()}
        new = self._lease_file.with_name(f"lease.json.{secrets.token_hex(4)}")  # two threads may write at once
        new.write_text(json.dumps(lease))
        new.replace(self._lease_file)

    def _spawn(self, orders: bytes, control: Path, lock: int) -> None:
        self._write_lease()
        with (control / "supervisor.log").open("ab") as complaints:
            subprocess.run(
                [sys.executable, "-I", *self._program, str(control), str(lock), str(self._lease_file)],
                input=orders,
                stdout=complaints,
                stderr=complaints,
                env={name: os.environ[name] for name in self._keeps if name in os.environ},
                cwd="/",
                pass_fds=(lock,),
                start_new_session=True,
                check=False,  # without a supervisor the lock is free, and the task is found lost
            )

    def _remove(self, control: Path) -> None:
        old = self._unfinished / f"{control.name}-{secrets.token_hex(4)}"
        control.rename(old)
        sync_folder(self._tasks)
        own_wall = self._walls / control.name
        for folder in (old, own_wall) if own_wall.exists() else (old,):
            shutil.rmtree(folder)

    # --- what has become of a task

    async def _state(self, key: TaskKey) -> Running | Exit:
        control, task = self._control(key), read_task(self._control(key))
        while True:
            # The lock is looked at first: what a supervisor has written, it wrote before letting go.
            supervised = is_supervised(control)
            if end := read_json(control / "exit.json"):
                return exit_of(task, end)
            if not supervised:
                return await self._conclude_lost(task, control)
            if running := read_running(control, key):
                return running
            await asyncio.sleep(POLL_S)

    def _watch(self, running: Running) -> None:
        if running.key in self._watched:
            return
        control = self._control(running.key)
        if (self._wall(running.key) / "notice.json").exists():
            self._words.expect(running.key)
        pid = (read_json(control / "running.json") or {})["supervisor_pid"]
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            handle = None
        if handle is not None and not is_supervised(control):
            os.close(handle)  # it may be of another process that has got the pid
            handle = None
        self._watched[running.key] = handle
        if handle is None:
            self._supervisor_ended(running)
        else:
            asyncio.get_running_loop().add_reader(handle, self._supervisor_ended, running)
        if self._devices:
            for device_id in running.device_ids:
                self._devices.hold(device_id, running.pid)

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
        while isinstance(state := await self._state(running.key), Running):  # noqa: ASYNC110 - nobody announces that
            await asyncio.sleep(POLL_S)
        self._words.expect_no_more(running.key)
        if self._devices:
            for device_id in running.device_ids:
                self._devices.let_go(device_id, running.pid)
        return state

    async def _conclude_lost(self, task: TaskFile, control: Path) -> Exit:
        """Nobody will write this exit any more: end what is left, and write it in the supervisor's place."""
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
        await asyncio.to_thread(write_durably, control / "exit.json", json.dumps(end).encode())
        return exit_of(task, end)

    # --- its processes

    def _tree(self, key: TaskKey) -> list[Process]:
        grouped = partial(self._cgroups.pids, key) if self._cgroups else tuple
        return tree_of(key, self._control(key), self._wall(key), grouped)

    async def _strays(self) -> list[Process]:
        return await asyncio.to_thread(without_folder, self._tasks, self._walls, self._program[-1])

    async def _end_strays(self) -> None:
        """End tasks whose folder was taken away: nobody knows of them any more, and their jobs will run elsewhere."""
        killed: set[Process] = set()
        while strays := await self._strays() or [*filter(lives, killed)]:
            for process in strays:
                send(process, signal.SIGKILL)
            killed.update(strays)  # one that dies has no environment to be known by any more, and may still hold a GPU
            await asyncio.sleep(POLL_S)


def ids_of(user: User | None) -> dict[str, Any] | None:
    """The user as supervisors know it."""
    return None if user is None else {"uid": user.uid, "gid": user.gid, "groups": user.groups}


def _inside(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.exists() else []
