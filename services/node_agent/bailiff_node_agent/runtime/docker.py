"""Tasks as containers of this machine's Docker engine, each under a supervisor that outlives the agent.

The folders, the supervisor's lock and the promises are those of tasks that are processes; `container.py` is the supervisor. A
container belongs to the agent whose folder stands in its labels, and lives no longer than its control directory.
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

from bailiff_bus.logs import logger
from bailiff_node_agent.disk.storage import write_durably
from bailiff_node_agent.runtime.contract import DeviceHolds, Exit, Launch, Running, TaskKey
from bailiff_node_agent.runtime.engine import Engine, EngineAway, EngineRefuses, pids_of
from bailiff_node_agent.runtime.folder import TaskFile, is_supervised, read_json
from bailiff_node_agent.runtime.process import POLL_S, ProcessRuntime, ids_of
from bailiff_node_agent.runtime.supervisor.host import boottime_us
from bailiff_node_agent.runtime.supervisor.processes import Process, read_process, send

ENGINE = "unix:///var/run/docker.sock"
LABEL = "org.bailiff."
INSIDE = "/run/bailiff"
"""Where a container sees its wall: a socket's path must be short."""
LOOK_AT_ENGINE_S = 5.0
LOG = {"Type": "json-file", "Config": {"max-size": "64m", "max-file": "4"}}  # `local` forgets where long lines end, in 20.10
LEAST_MEMORY = 6 << 20
_ROOT = Path(__file__).parents[2]
_GUARD = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from bailiff_node_agent.runtime.container import main; main()"


class DockerRuntime(ProcessRuntime):
    """labels: what containers are marked with beside their task. network: as `docker run --network` has it.

    devices: who is told who uses which device, where these are simulated; such are no devices for the engine.
    """

    _program = ("-c", _GUARD)
    _keeps = ("PATH", "HOME", "DOCKER_CONFIG")

    def __init__(
        self,
        state_dir: Path,
        *,
        devices: DeviceHolds | None = None,
        engine: str = ENGINE,
        network: str = "host",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(state_dir, devices=devices)
        self._url, self._network, self._labels = engine, network, dict(labels or {})
        self._looks: asyncio.Task[None] | None = None
        self._strays_ended = True

    async def adopt(self) -> list[Running | Exit]:
        found = await super().adopt()
        self._looks = asyncio.create_task(self._watch_engine())
        return found

    async def terminate(self, key: TaskKey, grace_s: float = 30.0) -> None:
        control = self._known(key)
        if not (control / "terminating.json").exists():
            until = {"until_boottime_us": boottime_us() + int(grace_s * 1_000_000)}
            await asyncio.to_thread(write_durably, control / "terminating.json", json.dumps(until).encode())
        self._wake(key)

    async def kill(self, key: TaskKey) -> None:
        control = self._known(key)
        asked = {"until_boottime_us": 0, "kill": True}
        await asyncio.to_thread(write_durably, control / "terminating.json", json.dumps(asked).encode())
        self._wake(key)
        again_at = 0.0
        while not is_over(control) and (self._tree(key) or not again_at):
            if time.monotonic() >= again_at:
                again_at = time.monotonic() + 1.0
                await self._labelled(f"control={control}", _kill if is_supervised(control) else Engine.remove)
            for process in self._tree(key):
                with contextlib.suppress(PermissionError):
                    send(process, signal.SIGKILL)
            await asyncio.sleep(POLL_S)

    async def forget(self, key: TaskKey) -> None:
        control = self._known(key)
        await super().forget(key)
        if not await self._remove_container(control):
            self._strays_ended = False

    async def close(self) -> None:
        if self._looks is not None:
            self._looks.cancel()
            await asyncio.gather(self._looks, return_exceptions=True)
        await super().close()

    # --- what the supervisor is told

    def _wall(self, key: TaskKey) -> Path:
        return self._walls / str(key)

    def _is_walled(self, launch: Launch) -> bool:  # noqa: ARG002 - of whatever is launched here
        return True

    def _orders(self, launch: Launch, own_wall: Path, log: Path) -> dict[str, Any]:
        return {
            "engine": self._url,
            "name": _name(launch.key),
            "config": self.config(launch, own_wall),
            "wall": str(own_wall),
            "user": ids_of(launch.user),
            "log": str(log),
            "alone": launch.alone,
        }

    def config(self, launch: Launch, own_wall: Path) -> dict[str, Any]:
        """The container as the engine's API wants it."""
        key, real = launch.key, self._devices is None
        about = {**self._labels, "job": key.job, "attempt": str(key.attempt), "task": key.task}
        about |= {"folder": str(self._tasks), "control": str(self._control(key))}
        devices = [{"Driver": "", "DeviceIDs": [*launch.device_ids], "Capabilities": [["gpu"]]}]
        pinned = [{"Name": "memlock", "Soft": -1, "Hard": -1}]  # GPUs copy from memory that stays where it is
        memory = max(LEAST_MEMORY, launch.memory_bytes) if launch.memory_bytes else 0
        config: dict[str, Any] = {
            "Image": launch.image,
            "Entrypoint": _arguments(launch.command),
            "Cmd": [],
            "Env": [f"{name}={value}" for name, value in self._environment(launch).items()],
            "Labels": {f"{LABEL}{name}": value for name, value in about.items()},
            "StopTimeout": max(1, launch.grace_s),
            "HostConfig": {
                "NetworkMode": self._network,
                "IpcMode": "host" if "CUDA_MPS_PIPE_DIRECTORY" in launch.env else "private",
                "Init": True,  # nobody else would reap what the job leaves behind, and a first process without one ignores TERM
                "Mounts": [_mount(own_wall, INSIDE), *(_mount(each, str(each)) for each in launch.folders)],
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
            # What it writes into the folders is to be its own, and the agent's to remove.
            config["User"] = f"{user.uid}:{user.gid}" if user is not None else f"{os.getuid()}:{os.getgid()}"
            config["HostConfig"]["GroupAdd"] = [str(group) for group in (user.groups if user is not None else os.getgroups())]
        return config

    def _environment(self, launch: Launch) -> dict[str, str]:
        env = {
            "TINI_KILL_PROCESS_GROUP": "1",  # TERM reaches all that the command has started, as it does without a container
            "NVIDIA_VISIBLE_DEVICES": ",".join(launch.device_ids) if self._devices is None and launch.device_ids else "void",
            **launch.env,
            "BAILIFF_TASK": str(launch.key),
            "BAILIFF_CONTROL_DIR": INSIDE,
            "BAILIFF_SOCKET": f"{INSIDE}/socket",
        }
        if "BAILIFF_SCRATCH_DIR" in env and (os.getuid() or launch.user is not None):
            env.setdefault("HOME", env["BAILIFF_SCRATCH_DIR"])  # the image knows nothing of this user
        return env

    # --- what the engine has

    def _tree(self, key: TaskKey) -> list[Process]:
        about = read_json(self._control(key) / "container.json")
        found = map(read_process, pids_of(about["id"]) if about is not None else ())
        return sorted(process for process in found if process is not None)

    async def _conclude_lost(self, task: TaskFile, control: Path) -> Exit:
        end = await super()._conclude_lost(task, control)
        await self._remove_container(control)
        return end

    async def _remove_container(self, control: Path) -> bool:
        """Whether the engine has answered."""
        return await self._labelled(f"control={control}", Engine.remove)

    async def _labelled(self, label: str, do: Callable[[Engine, str], None], *, strays_only: bool = False) -> bool:
        """Do this to every container with this label; whether the engine has answered."""

        def to_each() -> bool:
            engine = Engine(self._url)
            try:
                for each in engine.labelled(f"{LABEL}{label}"):
                    if not (strays_only and Path(each["Labels"][f"{LABEL}control"]).exists()):
                        do(engine, each["Id"])
            except (EngineAway, EngineRefuses):
                return False
            finally:
                engine.close()
            return True

        return await asyncio.to_thread(to_each)

    async def _end_strays(self) -> None:
        await super()._end_strays()
        self._strays_ended = await self._labelled(f"folder={self._tasks}", Engine.remove, strays_only=True)

    async def _watch_engine(self) -> None:
        """Say when it goes and comes. Containers that nobody owns are ended when it is there again."""
        answers = True
        while True:
            problem = await asyncio.to_thread(_trouble, self._url)
            if answers and problem:
                logger().error("containers go on where they can, and none is started", why=problem, running=len(self._watched))
            elif problem is None and not answers:
                logger().info("the Docker engine answers again")
            answers = problem is None
            if answers and not self._strays_ended:
                await self._end_strays()
            await asyncio.sleep(LOOK_AT_ENGINE_S)


def is_over(control: Path) -> bool:
    """Whether its end is written down."""
    return (control / "exit.json").exists()


def _kill(engine: Engine, container: str) -> None:
    engine.signal(container, signal.SIGKILL)


def _trouble(url: str) -> str | None:
    engine = Engine(url)
    try:
        engine.ping()
    except (EngineAway, EngineRefuses) as problem:
        return str(problem)
    finally:
        engine.close()
    return None


def _name(key: TaskKey) -> str:
    """For people; the labels say whose it is."""
    return re.sub(r"[^a-zA-Z0-9_.-]", "-", f"bailiff-{key.job[:100]}-{key.attempt}-{key.task[:20]}-{secrets.token_hex(4)}")


def _arguments(command: list[str] | str) -> list[str]:
    """A shell waits for what it runs before it obeys TERM: it would leave first, and the container end with it."""
    return ["/bin/sh", "-c", f"trap exit TERM\n{command}"] if isinstance(command, str) else command


def _mount(source: Path, target: str) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target}
