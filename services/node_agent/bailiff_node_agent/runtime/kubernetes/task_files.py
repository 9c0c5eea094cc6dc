"""What the agent keeps on disk about each pod: the order to start it, when it ran, and how it ended. It outlives the object."""

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from bailiff_node_agent.disk.storage import write_atomically, write_durably
from bailiff_node_agent.runtime.port import Exit, Launch, Running, TaskKey, UnknownTask
from bailiff_node_agent.runtime.supervisor.host import boot_id
from bailiff_node_agent.runtime.task_record import read_json

T = TypeVar("T")


@dataclass(frozen=True)
class TaskOrder:
    """The order to start a task. uid, name, namespace: of its pod, once that is known. part: of each device, such as `1/2`."""

    key: TaskKey
    namespace: str
    name: str
    own_pod: bool
    devices: tuple[str, ...]
    ordered_by: int | None
    is_only_task: bool
    uid: str = ""
    part: str | None = None


class TaskFiles:
    """One folder for each task.

    flushed: whether what was written survives a power loss. Otherwise it is valid until this machine boots anew, and is dropped
    then: the pods' own annotations have the orders (`placement.find_orders`).
    """

    def __init__(self, folder: Path, *, flushed: bool = True) -> None:
        self.folder, self._flushed = folder, flushed
        folder.mkdir(parents=True, exist_ok=True)
        if not flushed:
            self._drop_those_of_earlier_boot()

    async def off_loop(self, call: Callable[..., T], *arguments: Any) -> T:
        """The result of a call that reads or writes here, without keeping the event loop waiting for the disk."""
        return await asyncio.to_thread(call, *arguments) if self._flushed else call(*arguments)

    def _drop_those_of_earlier_boot(self) -> None:
        mark = self.folder / "boot_id"
        if mark.exists() and mark.read_text() == boot_id():
            return
        for each in self.folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each)
        mark.write_text(boot_id())

    def write_lease(self, lease: tuple[int, int]) -> None:
        """The node's lease: until when, and the grace then. Not durably: after a power loss it applies to no task."""
        new = self.folder / "lease.json.new"
        new.write_text(json.dumps({"lease": lease, "boot_id": boot_id()}))
        new.replace(self.folder / "lease.json")

    def lease(self) -> tuple[int, int] | None:
        """The lease that an earlier agent of this boot had."""
        content = read_json(self.folder / "lease.json")
        if content is None or content["boot_id"] != boot_id():
            return None
        until_us, grace_us = content["lease"]
        return until_us, grace_us

    def task_dir(self, key: TaskKey) -> Path:
        """The task's folder."""
        return self.folder / str(key)

    def tasks(self) -> list[TaskKey]:
        """Every task, sorted."""
        keys = [TaskKey.parse(each.name) for each in self.folder.iterdir() if (each / "order.json").exists()]
        return sorted(key for key in keys if key is not None)

    def known(self, key: TaskKey) -> Path:
        """The task's folder. Raises `UnknownTask`."""
        folder = self.task_dir(key)
        if not (folder / "order.json").exists():
            raise UnknownTask(f"there is no task {key} here")
        return folder

    def write_order(
        self, order: TaskOrder, manifest: Mapping[str, Any] | None = None, claims: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Before the pod is created, with what is to be created, which the next agent uses; and again once its uid is known."""
        folder = self.task_dir(order.key)
        folder.mkdir(mode=0o700, exist_ok=True)
        if manifest is not None:
            self._write(order.key, "manifest", dict(manifest))
        if claims:
            self._write(order.key, "claims", {"claims": claims})
        self._write(order.key, "order", asdict(order) | {"key": str(order.key)})

    def order(self, key: TaskKey) -> TaskOrder:
        """The order. Raises `UnknownTask`."""
        content = read_json(self.known(key) / "order.json") or {}
        return TaskOrder(**{**content, "key": key, "devices": tuple(content["devices"])})

    def write_running(self, running: Running) -> None:
        """Once the task counts as started, with the devices that it has."""
        content = {"instance": running.instance, "at": running.started_at, "devices": running.device_ids, "boot_id": boot_id()}
        self._write(running.key, "running", content)

    def running(self, order: TaskOrder) -> Running | None:
        """The started task; None before."""
        content = read_json(self.task_dir(order.key) / "running.json")
        if content is None:
            return None
        part = None if order.part is None else Fraction(order.part)
        return Running(order.key, content["instance"], content["at"], tuple(content["devices"]), order.ordered_by, part)

    def is_of_earlier_boot(self, key: TaskKey) -> bool:
        """Whether this machine has booted since the task was started."""
        content = read_json(self.task_dir(key) / "running.json") or {}
        return "boot_id" in content and content["boot_id"] != boot_id()

    def write_exit(self, end: Exit) -> None:
        """The proven end."""
        self._write(end.key, "exit", asdict(end) | {"key": str(end.key)})

    def exit(self, key: TaskKey) -> Exit | None:
        """The end; None before."""
        content = read_json(self.task_dir(key) / "exit.json")
        if content is None:
            return None
        lists = {name: tuple(content[name]) for name in ("device_ids", "lease_stages", "deadline_stages")}
        return Exit(**{**content, **lists, "key": key})

    def write_stop(self, key: TaskKey, grace_s: int) -> None:
        """That TERM was requested, with its grace; 1 second for KILL. It is carried out until it has had its effect."""
        self._write(key, "stop", {"grace_s": grace_s})

    def stop(self, key: TaskKey) -> int | None:
        """The grace of the stop that was requested."""
        content = read_json(self.task_dir(key) / "stop.json")
        return None if content is None else int(content["grace_s"])

    def write_budget_refusal(self, key: TaskKey, why: str) -> None:
        """That a disruption budget forbade the eviction, with the API server's sentence."""
        self._write(key, "budget", {"refusal": why})

    def budget_refusal(self, key: TaskKey) -> str | None:
        """Why a disruption budget forbade the eviction when it was first requested; None if none did."""
        return (read_json(self.task_dir(key) / "budget.json") or {}).get("refusal")

    def write_note(self, key: TaskKey, note: tuple[str, str]) -> None:
        """The newest checkpoint that the pod's annotations tell: it is taken once."""
        self._write(key, "checkpoint", {"note": note})

    def note(self, key: TaskKey) -> tuple[str, str] | None:
        """The newest one that was taken."""
        content = read_json(self.task_dir(key) / "checkpoint.json")
        return None if content is None else (content["note"][0], content["note"][1])

    def write_eviction(self, key: TaskKey, payload: Mapping[str, Any], soft_us: int, hard_us: int) -> None:
        """The eviction notice with its deadlines, boot-time µs. The pod may have no control directory yet."""
        self._write(key, "eviction", {"payload": dict(payload), "soft_us": soft_us, "hard_us": hard_us})

    def eviction(self, key: TaskKey) -> dict[str, Any] | None:
        """The notice; None without one."""
        return read_json(self.task_dir(key) / "eviction.json")

    def write_deadline(self, key: TaskKey, term_us: int) -> None:
        """When TERM is due, boot-time µs, even if the agent is down."""
        self._write(key, "deadline", {"term_us": term_us})

    def deadline(self, key: TaskKey) -> int | None:
        """When TERM is due; None without an eviction."""
        return (read_json(self.task_dir(key) / "deadline.json") or {}).get("term_us")

    def withdraw(self, key: TaskKey) -> None:
        """The eviction was cancelled."""
        for name in ("eviction", "deadline"):
            (self.task_dir(key) / f"{name}.json").unlink(missing_ok=True)

    def manifest(self, key: TaskKey) -> dict[str, Any] | None:
        """The pod to create, from before the agent was replaced."""
        return read_json(self.task_dir(key) / "manifest.json")

    def claims(self, key: TaskKey) -> list[dict[str, Any]]:
        """The claims of exactly its devices; none where the kubelet chooses them."""
        claims: list[dict[str, Any]] = (read_json(self.task_dir(key) / "claims.json") or {}).get("claims", [])
        return claims

    def _write(self, key: TaskKey, name: str, content: dict[str, Any]) -> None:
        path, data = self.task_dir(key) / f"{name}.json", json.dumps(content).encode()
        (write_durably if self._flushed else write_atomically)(path, data)


def order_of(launch: Launch, namespace: str, name: str) -> TaskOrder:
    """The order for a launch."""
    own = launch.workload is None
    part = None if launch.part is None else str(launch.part)
    return TaskOrder(launch.key, namespace, name, own, launch.device_ids, launch.ordered_by, launch.is_only_task, part=part)
