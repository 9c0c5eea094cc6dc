"""The process runtime: tasks as processes of this machine, each under a supervisor that outlives the agent."""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.processes import Process, read_process, send
from bailiff_service.logs import logger

from . import criu_requests, gangs, job_files
from .cgroups import Cgroups, mounts
from .connections import Connection, among, let_go_on, unlock
from .freezer import Freezer, GroupFreezer, OldFreezer
from .host_processes import looking
from .plugin import NodeParts, RuntimePlugin
from .port import Capabilities, DeviceUsers, Dumped, Image, Launch, Restored, TaskKey
from .process_tree import resident_bytes, task_environment, task_processes
from .supervised import POLL_S, SupervisedRuntime, ids_of
from .supervisor.isolation import mounts_arrive
from .task_record import read_json

_SUPERVISOR = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); from supervisor.main import main; main()"
"""Only the supervisor package is on its path: importing the whole agent would cost each task tens of megabytes."""
_SHELL = _SUPERVISOR.replace("supervisor.main", "supervisor.shell")
_ISOLATION = _SUPERVISOR.replace("supervisor.main", "supervisor.isolation")
KEPT = ("BAILIFF_CHECKPOINT_DIR", "BAILIFF_SCRATCH_DIR")
"""Variables with the folders of the agent that a task needs, besides its control directory. The agent sets them, not the job."""


class ProcessRuntime(SupervisedRuntime):
    """cgroups: where each task gets a cgroup of its own; None where this host does not permit it. hidden: what tasks that run as
    the agent's own user do not see; empty: they see everything. criu: the program that saves and restores tasks, if there is one.
    freezer: what stops tasks that are parked, if there is one. exposes: as in `Capabilities`.
    """

    supervisor = ("-S", "-c", _SUPERVISOR)

    def __init__(
        self,
        state_dir: Path,
        *,
        devices: DeviceUsers | None = None,
        cgroups: Cgroups | None = None,
        hidden: Sequence[Path] = (),
        criu: str | None = None,
        freezer: Freezer | None = None,
        exposes: str = "",
    ) -> None:
        super().__init__(state_dir, devices=devices)
        self._freezer = freezer
        self._cgroups, self._hidden, self._criu, self._exposes = cgroups, hidden, criu, exposes

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(saves=self._criu is not None, parks=self._freezer is not None, exposes=self._exposes)

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        running = read_json(self.folders.known(key) / "running.json")
        terminating = self.folders.task(key) / "terminating.json"
        request = read_json(terminating) or {}
        if running is None or request.get("by_supervisor"):
            return
        until = {"until_boottime_us": boottime_us() + int(grace_s * 1_000_000)}
        await asyncio.to_thread(write_durably, terminating, json.dumps(until).encode())
        for process in await looking(self._processes, key):
            if process.session == running["pid"]:
                send(process, signal.SIGTERM)

    async def kill(self, key: TaskKey) -> None:
        self.folders.known(key)
        if self._cgroups:
            self._cgroups.kill(key)
        # Killed processes no longer fork, so each round leaves only what was forked during the scan before it.
        while tree := await looking(self._processes, key):
            for process in tree:
                send(process, signal.SIGKILL)
            if self._freezer:
                self._freezer.thaw(key)  # in cgroup v1 what is frozen does not end
            await asyncio.sleep(POLL_S)
        self._supervisors.wake(self.folders.task(key))  # it may have been stopped; it has the exit to record

    async def save(self, key: TaskKey, image: Image, request: str, *, goes_on: bool = False) -> Dumped:
        job = [each for each in self._watched if (each.job, each.attempt) == (key.job, key.attempt)]
        # Connections that go on cannot be brought back: nothing keeps them silent until then.
        connections = [] if goes_on else await looking(self._connections, key, job)
        asked = {"id": request, "criu": self._criu or "", "connections": connections, "goes_on": goes_on}
        task, control = self.folders.known(key), self.folders.control(key)
        return await criu_requests.dumped(task, control, image, asked, self._supervisors.wake)

    async def _unlocked(self, key: TaskKey, call: Callable[..., None], *given: Any) -> None:
        try:
            await looking(call, *given)
        except OSError as problem:
            why = f"its connections may stay locked, see `nft list ruleset`: {problem}"
            self.folders.unfinished.left[self.folders.known(key)] = why  # shown as what a task left is
            logger().error("connections of a task may stay locked", task=str(key), why=why)

    def _connections(self, key: TaskKey, job: Iterable[TaskKey]) -> list[Connection]:
        return among(self.pids(key), [pid for each in job for pid in self.pids(each)])

    async def freeze(self, key: TaskKey) -> None:
        await gangs.freeze(self.folders.known(key), lambda: looking(self._processes, key))

    async def thaw(self, key: TaskKey) -> None:
        task = self.folders.known(key)
        while (task / "save.json").exists() and not (task / "exit.json").exists():  # noqa: ASYNC110 - a file of the supervisor
            await asyncio.sleep(POLL_S)  # CRIU stops again what had been stopped
        saved = read_json(task / "saved.json") or {}
        if saved.get("connections"):
            await self._unlocked(key, lambda: let_go_on(saved["connections"], self.pids(key)))
        await gangs.thaw(self.folders.known(key), lambda: looking(self._processes, key))

    async def park(self, key: TaskKey) -> None:
        self.folders.known(key)
        assert self._freezer is not None
        await looking(self._freezer.freeze, key, lambda: [process.pid for process in self._tree(key)])

    async def unpark(self, key: TaskKey, *, stopped: bool = False) -> None:
        task = self.folders.known(key)
        if self._freezer is None:
            return
        freezer = self._freezer
        if stopped:  # it gets the signal while it is frozen, so that it does not run in between
            await gangs.freeze(task, lambda: looking(self._processes, key), lambda: looking(freezer.thaw, key))
        else:
            if (task / gangs.FROZEN).exists():  # it was to be saved meanwhile
                await gangs.thaw(task, lambda: looking(self._processes, key))
            await looking(freezer.thaw, key)

    def _tree(self, key: TaskKey) -> list[Process]:
        """All of the task, without its supervisor, which must go on."""
        supervisor = (read_json(self.folders.task(key) / "running.json") or {}).get("supervisor_pid")
        return [process for process in self._processes(key) if process.pid != supervisor]

    async def go_on(self, key: TaskKey, *, anew: bool) -> None:
        await gangs.go_on(self.folders.known(key), lambda: looking(self._processes, key), anew=anew)

    async def restored(self, key: TaskKey) -> Restored | None:
        return await criu_requests.restored(self.folders.known(key))

    async def forget(self, key: TaskKey) -> None:
        task = self.folders.known(key)
        asked, saved = read_json(task / "save.json") or {}, read_json(task / "saved.json") or {}
        failed = asked.get("connections") or (saved.get("connections") if saved.get("code") else None)
        if failed and (task / "exit.json").exists():
            await self._unlocked(key, unlock, failed)  # what was saved stays locked until it is restored, or removed
        await super().forget(key)

    def has_shell(self, key: TaskKey) -> bool:
        """Only in a cgroup of the task: without one it would neither have the task's limits nor end with it."""
        return self._cgroups is not None and self._cgroups.folder(key).is_dir()

    async def open_shell(self, key: TaskKey) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        running = read_json(self.folders.known(key) / "running.json")
        if self._cgroups is None or running is None:
            raise FileNotFoundError(f"{key} does not run")
        group = self._cgroups.folder(key)
        owner = self.folders.control(key).stat()  # the agent has made it for the user of the task
        about = {name: running[name] for name in ("pid", "started")}
        about |= {"uid": owner.st_uid, "gid": owner.st_gid, "cgroup": str(group)}
        return await self._opened_shell(_SHELL, about)

    def memory(self, key: TaskKey) -> int:
        if self._cgroups and (charged := self._cgroups.memory(key)):
            return charged
        return sum(map(resident_bytes, self.pids(key)))

    def _has_own_control_dir(self, launch: Launch) -> bool:
        return launch.user is not None or bool(self._hidden)

    def _launch_input(self, launch: Launch, control: Path, log: Path) -> dict[str, Any]:
        group = self._cgroups.make(launch.key, launch.cpu_milli, launch.memory_bytes) if self._cgroups else None
        inherited, user = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, launch.user
        if user is not None:
            inherited |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        return {
            "command": launch.command,
            "env": {
                **inherited,
                **({"TERM": "xterm"} if launch.tty else {}),
                **launch.env,
                **task_environment(launch.key, control),
            },
            "control_dir": str(control),
            "user": ids_of(user),
            "tty": launch.tty,
            "working_dir": launch.working_dir,
            "home": inherited.get("HOME", "/"),
            "log": str(log),
            "is_only_task": launch.is_only_task,
            "saves": launch.saves and self._criu is not None,
            "restore": criu_requests.restore_input(launch.restore, self._criu) if launch.restore and self._criu else None,
            "cgroup": str(group) if group is not None else None,
            "hidden": [str(path.absolute()) for path in self._hidden] if user is None else [],
            "read_only": [str(path) for path in mounts()] if group is not None else [],
            "kept": [str(control), *(launch.env[name] for name in KEPT if launch.env.get(name))],
        }

    def _processes(self, key: TaskKey) -> list[Process]:
        in_group = partial(self._cgroups.pids, key) if self._cgroups else tuple
        return task_processes(key, self.folders.task(key), self.folders.control(key), in_group)

    async def _strays(self) -> list[Process]:
        """With those that only the cgroup of a task knows whose folder is gone."""
        found = await super()._strays()
        return found if self._cgroups is None else [*found, *await looking(self._in_groups, self._cgroups)]

    def _in_groups(self, cgroups: Cgroups) -> list[Process]:
        pids = {pid for name in cgroups.others(self._names()) for pid in cgroups.pids(name)}
        return [process for pid in sorted(pids) if (process := read_process(pid)) is not None]

    async def _kill_strays(self) -> None:
        await super()._kill_strays()
        if self._cgroups:
            for name in self._cgroups.others(self._names()):
                await job_files.removing(self._cgroups.remove, name)

    def _names(self) -> set[str]:
        return {folder.name for folder in self.folders.tasks()}

    async def _clean_up(self, key: TaskKey) -> None:
        if self._cgroups:
            await job_files.removing(self._cgroups.remove, key)
        if self._freezer:
            await job_files.removing(self._freezer.remove, key)

    async def _clean_up_lost(self, key: TaskKey) -> None:
        """Nothing: its cgroup is removed when the task is forgotten."""


def cgroups_of(folder: Path, root: Path | None = None) -> Cgroups | None:
    """Those of the tasks of the node with this state folder."""
    return Cgroups.on_this_host(_own_name(folder), root)


def freezer_of(folder: Path, cgroups: Cgroups | None) -> Freezer | None:
    """What stops the tasks of the node with this state folder; None: this host has no freezer that the agent may use."""
    return GroupFreezer(cgroups) if cgroups is not None else OldFreezer.on_this_host(_own_name(folder))


def _own_name(folder: Path) -> str:
    """One host may have two agents of one name."""
    return f"{folder.name}-{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]}"


def _open(parts: NodeParts) -> ProcessRuntime:
    settings = parts.settings
    cgroups = cgroups_of(parts.folder, settings.cgroup_root) if settings.cgroups and settings.durable else None
    as_agent = settings.run_as == "agent" or os.geteuid() != 0
    why_not = why_not_isolated() if settings.isolate_jobs and settings.durable else "isolation is off"
    hidden = settings.hidden if as_agent and why_not is None else ()
    if exposes := exposure(why_not) if as_agent else "":
        logger().warning("isolation of jobs is not complete", reason=exposes)
    criu = criu_requests.find_criu(settings.criu) if settings.durable else None
    program = criu.program if criu is not None and not criu.why_not else None
    freezer = freezer_of(parts.folder, cgroups) if settings.durable else None
    return ProcessRuntime(
        parts.folder, devices=parts.devices, cgroups=cgroups, hidden=hidden, criu=program, freezer=freezer, exposes=exposes
    )


def exposure(why_not: str | None) -> str:
    """What is in reach of tasks that run as the agent's own user and should not be. why_not: they are not isolated, and why."""
    found = []
    if why_not is not None:
        found.append(f"jobs can read the agent's state folder, keys and environment: they are not isolated ({why_not})")
    elif mounts_arrive():
        found.append("jobs see what is mounted after their start: this machine mounts folders as they are entered (autofs)")
    if os.geteuid() == 0:
        found.append("jobs run as root: they can read disks, and change programs that root runs, such as Bailiff's")
    return "; ".join(found)


@cache
def why_not_isolated() -> str | None:
    """Why this machine does not permit to isolate tasks from an agent of the same user; None: it does."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _ISOLATION], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


PLUGIN = RuntimePlugin("process", _open)
