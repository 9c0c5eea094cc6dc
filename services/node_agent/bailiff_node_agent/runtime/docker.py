"""The Docker runtime: tasks as containers of this machine's Docker engine, each under a supervisor that outlives the agent.

`container.py` is the supervisor. A container belongs to the agent whose tasks folder is in its labels, and is removed with its
task folder.
"""

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.processes import Process, read_process, send
from bailiff_service.logs import logger

from .docker_engine import Engine, EngineError, EngineUnavailable, pids_of
from .host_processes import looking
from .plugin import NodeParts, RuntimePlugin
from .port import Capabilities, DeviceUsers, Exit, Launch, Running, TaskKey
from .process_tree import resident_bytes
from .supervised import POLL_S, SupervisedRuntime, ids_of
from .task_record import is_supervised, read_json

ENGINE = "unix:///var/run/docker.sock"
LABEL = "org.bailiff."
INSIDE = "/run/bailiff"
"""The control directory inside a container. It is short because a socket's path must be short."""
ENGINE_POLL_S = 5.0
LOG = {"Type": "json-file", "Config": {"max-size": "64m", "max-file": "4"}}  # 20.10's `local` driver splits long lines
MIN_MEMORY = 6 << 20
_ROOT = Path(__file__).parents[2]
_SUPERVISOR = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from bailiff_node_agent.runtime.container import main; main()"
_SHELL = _SUPERVISOR.replace("runtime.container", "runtime.container_shell")


class DockerRuntime(SupervisedRuntime):
    """labels: put on each container besides those of its task. network: as in `docker run --network`.

    devices: records which process uses which device, for simulated ones, which the engine does not have.
    """

    capabilities = Capabilities(images=True)
    shell_flags = ()
    supervisor = ("-c", _SUPERVISOR)
    inherited = ("PATH", "HOME", "DOCKER_CONFIG")

    def __init__(
        self,
        state_dir: Path,
        *,
        devices: DeviceUsers | None = None,
        engine: str = ENGINE,
        network: str = "host",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(state_dir, devices=devices)
        self._url, self._network, self._labels = engine, network, dict(labels or {})
        self._engine_watch: asyncio.Task[None] | None = None
        self._strays_removed = True

    async def adopt(self) -> list[Running | Exit]:
        states = await super().adopt()
        self._engine_watch = asyncio.create_task(self._watch_engine())
        return states

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        task = self.folders.known(key)
        if not (task / "terminating.json").exists():
            until = {"until_boottime_us": boottime_us() + int(grace_s * 1_000_000)}
            await asyncio.to_thread(write_durably, task / "terminating.json", json.dumps(until).encode())
        self._supervisors.wake(task)

    async def kill(self, key: TaskKey) -> None:
        task = self.folders.known(key)
        request = {"until_boottime_us": 0, "kill": True}
        await asyncio.to_thread(write_durably, task / "terminating.json", json.dumps(request).encode())
        self._supervisors.wake(task)
        repeat_at = 0.0
        while not has_exited(task) and ((processes := await looking(self._processes, key)) or not repeat_at):
            if time.monotonic() >= repeat_at:
                repeat_at = time.monotonic() + 1.0
                await self._for_each_container(f"task_dir={task}", _kill if is_supervised(task) else Engine.remove)
            for process in processes:
                with contextlib.suppress(PermissionError):
                    send(process, signal.SIGKILL)
            await asyncio.sleep(POLL_S)

    def has_shell(self, key: TaskKey) -> bool:
        return (self.folders.task(key) / "container.json").exists()

    async def open_shell(self, key: TaskKey) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        container = read_json(self.folders.known(key) / "container.json")
        if container is None:
            raise FileNotFoundError(f"{key} does not run")
        return await self._opened_shell(_SHELL, {"engine": self._url, "container": container["id"]})

    def memory(self, key: TaskKey) -> int:
        return sum(map(resident_bytes, self.pids(key)))

    async def close(self) -> None:
        if self._engine_watch is not None:
            self._engine_watch.cancel()
            await asyncio.gather(self._engine_watch, return_exceptions=True)
        await super().close()

    # --- the supervisor and its container

    def _has_own_control_dir(self, launch: Launch) -> bool:  # noqa: ARG002 - every container is given one
        return True

    def _launch_input(self, launch: Launch, control: Path, log: Path) -> dict[str, Any]:
        return {
            "engine": self._url,
            "name": _name(launch.key),
            "config": self.config(launch, control),
            "control_dir": str(control),
            "user": ids_of(launch.user),
            "log": str(log),
            "is_only_task": launch.is_only_task,
            "tty": launch.tty,
        }

    def config(self, launch: Launch, control: Path) -> dict[str, Any]:
        """The container, in the format of the engine's API."""
        key, real = launch.key, self._devices is None
        labels = {**self._labels, "job": key.job, "attempt": str(key.attempt), "task": key.task}
        labels |= {"folder": str(self.folders.parents[0]), "task_dir": str(self.folders.task(key))}
        devices = [{"Driver": "", "DeviceIDs": [*launch.device_ids], "Capabilities": [["gpu"]]}]
        pinned = [{"Name": "memlock", "Soft": -1, "Hard": -1}]  # GPUs copy from pinned memory
        memory = max(MIN_MEMORY, launch.memory_bytes) if launch.memory_bytes else 0
        config: dict[str, Any] = {
            "Image": launch.image,
            "Entrypoint": _arguments(launch.command),
            "Cmd": [],
            "Tty": launch.tty,
            "OpenStdin": launch.tty,
            "Env": [f"{name}={value}" for name, value in self._environment(launch).items()],
            "Labels": {f"{LABEL}{name}": value for name, value in labels.items()},
            "StopTimeout": max(1, launch.grace_s),
            "HostConfig": {
                "NetworkMode": self._network,
                "IpcMode": "host" if "CUDA_MPS_PIPE_DIRECTORY" in launch.env else "private",
                "Init": True,  # it reaps the job's zombies, and a job that is PID 1 itself would ignore TERM
                "Mounts": [_mount(control, INSIDE), *(_mount(each, str(each)) for each in launch.folders)],
                "NanoCpus": min(launch.cpu_milli, (os.cpu_count() or 1) * 1000) * 1_000_000,
                "Memory": memory,
                "MemorySwap": memory,
                "ShmSize": memory or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2,
                "Ulimits": pinned if real and launch.device_ids else [],
                "SecurityOpt": ["no-new-privileges"],
                "LogConfig": LOG,
                "DeviceRequests": devices if real and launch.device_ids else [],
            },
        }
        if launch.working_dir is not None:
            config["WorkingDir"] = launch.working_dir
        user = launch.user
        if user is not None or os.getuid():
            # The job owns what it writes into the mounted folders, and the agent can remove it.
            config["User"] = f"{user.uid}:{user.gid}" if user is not None else f"{os.getuid()}:{os.getgid()}"
            config["HostConfig"]["GroupAdd"] = [str(group) for group in (user.groups if user is not None else os.getgroups())]
        return config

    def _environment(self, launch: Launch) -> dict[str, str]:
        env = {
            "TINI_KILL_PROCESS_GROUP": "1",  # TERM reaches the command's whole process group, as without a container
            **({"TERM": "xterm"} if launch.tty else {}),
            "NVIDIA_VISIBLE_DEVICES": ",".join(launch.device_ids) if self._devices is None and launch.device_ids else "void",
            **launch.env,
            "BAILIFF_TASK": str(launch.key),
            "BAILIFF_CONTROL_DIR": INSIDE,
            "BAILIFF_SOCKET": f"{INSIDE}/socket",
        }
        if "BAILIFF_SCRATCH_DIR" in env and (os.getuid() or launch.user is not None):
            env.setdefault("HOME", env["BAILIFF_SCRATCH_DIR"])  # the image has no home for this user
        return env

    # --- the engine

    def _processes(self, key: TaskKey) -> list[Process]:
        container = read_json(self.folders.task(key) / "container.json")
        processes = map(read_process, pids_of(container["id"]) if container is not None else ())
        return sorted(process for process in processes if process is not None)

    async def _clean_up_lost(self, key: TaskKey) -> None:
        await self._remove_container(key)

    async def _clean_up(self, key: TaskKey) -> None:
        if not await self._remove_container(key):
            self._strays_removed = False

    async def _remove_container(self, key: TaskKey) -> bool:
        """Whether the engine answered."""
        return await self._for_each_container(f"task_dir={self.folders.task(key)}", Engine.remove)

    async def _for_each_container(self, label: str, act: Callable[[Engine, str], None], *, strays_only: bool = False) -> bool:
        """Call `act` with every container that has this label. Whether the engine answered."""

        def for_each() -> bool:
            engine = Engine(self._url)
            try:
                for each in engine.labelled(f"{LABEL}{label}"):
                    if not (strays_only and Path(each["Labels"][f"{LABEL}task_dir"]).exists()):
                        act(engine, each["Id"])
            except (EngineUnavailable, EngineError):
                return False
            finally:
                engine.close()
            return True

        return await asyncio.to_thread(for_each)

    async def _kill_strays(self) -> None:
        await super()._kill_strays()
        self._strays_removed = await self._for_each_container(
            f"folder={self.folders.parents[0]}", Engine.remove, strays_only=True
        )

    async def _watch_engine(self) -> None:
        """Log when the engine stops and starts answering; remove stray containers once it answers again."""
        answered = True
        while True:
            problem = await asyncio.to_thread(_ping_problem, self._url)
            if answered and problem:
                logger().error("Docker engine unavailable: no container can be started", why=problem, running=len(self._watched))
            elif problem is None and not answered:
                logger().info("Docker engine available again")
            answered = problem is None
            if answered and not self._strays_removed:
                await self._kill_strays()
            await asyncio.sleep(ENGINE_POLL_S)


def has_exited(task_dir: Path) -> bool:
    """Whether the task's exit is on disk."""
    return (task_dir / "exit.json").exists()


def _kill(engine: Engine, container: str) -> None:
    engine.signal(container, signal.SIGKILL)


def _ping_problem(url: str) -> str | None:
    engine = Engine(url)
    try:
        engine.ping()
    except (EngineUnavailable, EngineError) as problem:
        return str(problem)
    finally:
        engine.close()
    return None


def _name(key: TaskKey) -> str:
    """A readable name; the labels identify the task."""
    return re.sub(r"[^a-zA-Z0-9_.-]", "-", f"bailiff-{key.job[:100]}-{key.attempt}-{key.task[:20]}-{secrets.token_hex(4)}")


def _arguments(command: list[str] | str) -> list[str]:
    """A shell handles TERM only after its command has ended: without the trap it would exit first, and the container with it."""
    return ["/bin/sh", "-c", f"trap exit TERM\n{command}"] if isinstance(command, str) else command


def _mount(source: Path, target: str) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target}


def _open(parts: NodeParts) -> DockerRuntime:
    settings = parts.settings
    return DockerRuntime(
        parts.folder / "docker",
        devices=parts.devices,
        engine=settings.docker_engine,
        network=settings.docker_network,
        labels=parts.labels,
    )


PLUGIN = RuntimePlugin("docker", _open)
