"""What the agent keeps on disk about each pod: the order to start it, when it ran, and how it ended. It outlives the object."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

from bailiff_node_agent.disk.storage import write_atomically, write_durably
from bailiff_node_agent.runtime.job_files import remove_tree
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
        self.manifest = Kept[dict[str, Any]](self, "manifest")
        """The pod to create, from before the agent was replaced."""
        self.claims = Kept[list[dict[str, Any]]](self, "claims")
        """The claims of exactly its devices; none where the kubelet chooses them."""
        self.stop = Kept[int](self, "stop")
        """That TERM was requested, with its grace, s; `KILL_GRACE_S` for KILL. It is carried out until it has had its effect."""
        self.budget_refusal = Kept[str](self, "budget")
        """That a disruption budget forbade the eviction when it was first requested, with the API server's sentence."""
        self.note = Kept[list[str]](self, "checkpoint")
        """The newest checkpoint that the pod's annotations tell: it is taken once."""
        self.eviction = Kept[dict[str, Any]](self, "eviction")
        """The eviction notice: `payload`, and its deadlines `soft_us`, `hard_us`. The pod may have no control directory yet."""
        self.deadline = Kept[int](self, "deadline")
        """When TERM is due, boot-time µs, even if the agent is down."""
        self.shells = Kept[list[str]](self, "shells")
        """The process ids of the shells beside the task, in its pod, that are not known to have ended."""

    async def off_loop(self, call: Callable[..., T], *arguments: Any) -> T:
        """The result of a call that reads or writes here, without keeping the event loop waiting for the disk."""
        return await asyncio.to_thread(call, *arguments) if self._flushed else call(*arguments)

    def _drop_those_of_earlier_boot(self) -> None:
        mark = self.folder / "boot_id"
        if mark.exists() and mark.read_text() == boot_id():
            return
        for each in self.folder.iterdir():
            if each.is_dir():
                remove_tree(each)
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
            self.manifest.write(order.key, dict(manifest))
        if claims:
            self.claims.write(order.key, [dict(claim) for claim in claims])
        self.write(order.key, "order", asdict(order) | {"key": str(order.key)})

    def order(self, key: TaskKey) -> TaskOrder:
        """The order. Raises `UnknownTask`."""
        content = read_json(self.known(key) / "order.json") or {}
        return TaskOrder(**{**content, "key": key, "devices": tuple(content["devices"])})

    def write_running(self, running: Running) -> None:
        """Once the task counts as started, with the devices that it has."""
        content = {"instance": running.instance, "at": running.started_at, "devices": running.device_ids, "boot_id": boot_id()}
        self.write(running.key, "running", content)

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
        return bool(content.get("boot_id", boot_id()) != boot_id())

    def write_exit(self, end: Exit) -> None:
        """The proven end."""
        self.write(end.key, "exit", asdict(end) | {"key": str(end.key)})

    def exit(self, key: TaskKey) -> Exit | None:
        """The end; None before."""
        content = read_json(self.task_dir(key) / "exit.json")
        if content is None:
            return None
        lists = {name: tuple(content[name]) for name in ("device_ids", "lease_stages", "deadline_stages")}
        return Exit(**{**content, **lists, "key": key})

    def withdraw(self, key: TaskKey) -> None:
        """The eviction was cancelled."""
        for name in ("eviction", "deadline"):
            (self.task_dir(key) / f"{name}.json").unlink(missing_ok=True)

    def write(self, key: TaskKey, name: str, content: dict[str, Any]) -> None:
        path, data = self.task_dir(key) / f"{name}.json", json.dumps(content).encode()
        (write_durably if self._flushed else write_atomically)(path, data)


@dataclass(frozen=True)
class Kept(Generic[T]):
    """A value that is kept about each task, in a file of this name."""

    files: TaskFiles
    name: str

    def write(self, key: TaskKey, value: T) -> None:
        """Keep this value."""
        self.files.write(key, self.name, {"value": value})

    def read(self, key: TaskKey) -> T | None:
        """The value; None where none is kept."""
        return (read_json(self.files.task_dir(key) / f"{self.name}.json") or {}).get("value")


def order_of(launch: Launch, namespace: str, name: str) -> TaskOrder:
    own = launch.workload is None
    part = None if launch.part is None else str(launch.part)
    return TaskOrder(launch.key, namespace, name, own, launch.device_ids, launch.ordered_by, launch.is_only_task, part=part)
