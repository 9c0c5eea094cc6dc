"""Pods of a bench on fake nodes: created, bound, watched until they run, and deleted by this process."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from bailiff_kubernetes import AlreadyExists, Api, Conflict, LocalView, NotFound, TooManyRequests, Unreachable
from bailiff_kubernetes.names import JOB
from bailiff_kubernetes.resources import PODS, Object, annotations_of, without_managed_fields

from .system import wait_until

NAMESPACE = "bench"
AT_ONCE = 64
NOBODY = "nobody"
"""A scheduler that does not exist: this process binds such pods."""


class PodWatch:
    """When each pod of the namespace was first seen, by its job or name: without a gate, bound, running. gone: how many were
    deleted."""

    def __init__(self, api: Api, labels: str) -> None:
        self._view = LocalView(api, PODS, NAMESPACE, labels, trim=without_managed_fields)
        self.stages: dict[str, dict[str, float]] = {stage: {} for stage in ("open", "bound", "running")}
        self.running = self.stages["running"]
        self.gone = 0
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        async for change in self._view.changes():
            if change.kind == "deleted":
                self.gone += 1
            else:
                self._note(change.object)
            self._changed.set()

    def _note(self, item: Object) -> None:
        name, now = annotations_of(item).get(JOB) or item["metadata"]["name"], time.perf_counter()
        reached = {
            "open": not item["spec"].get("schedulingGates"),
            "bound": bool(item["spec"].get("nodeName")),
            "running": item["status"].get("phase") == "Running",
        }
        for stage, is_reached in reached.items():
            if is_reached:
                self.stages[stage].setdefault(name, now)

    async def until(self, what: str, condition: Callable[[], bool], within_s: float) -> None:
        try:
            await wait_until(self._changed, condition, within_s)
        except TimeoutError:
            raise TimeoutError(f"{what}: {len(self.running)} ran, {self.gone} are gone") from None


@contextlib.asynccontextmanager
async def watched(api: Api, labels: str = "") -> AsyncIterator[PodWatch]:
    """A `PodWatch` that is followed while the block lasts."""
    watch = PodWatch(api, labels)
    following = asyncio.ensure_future(watch.follow())
    try:
        yield watch
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def pod(name: str, gpus: int, scheduler: str = "", **metadata: Any) -> Object:
    """A pod that runs until it is deleted."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "100m", "memory": "256Mi"}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    spec: Object = {"restartPolicy": "Never", "nodeSelector": {}, "containers": [container]}
    if scheduler:
        spec["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


async def create_and_bind(api: Api, pods: Iterable[tuple[Object, str]]) -> None:
    """Each on its node. An empty node: a scheduler binds it."""

    async def create(each: tuple[Object, str]) -> None:
        body, node = each
        created = await _until_answered(lambda: api.create(PODS, body, NAMESPACE))
        if node:
            of_name = created or await api.get(PODS, body["metadata"]["name"], NAMESPACE)
            await _until_answered(lambda: _bind(api, of_name, node))

    await _side_by_side(map(create, pods))


async def _bind(api: Api, pod: Object, node: str) -> None:
    """As a scheduler does."""
    metadata = pod["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await api.request("POST", PODS.path(metadata["namespace"], metadata["name"], "binding"), body)


async def delete(api: Api, names: Iterable[str]) -> None:
    async def one(name: str) -> None:
        with contextlib.suppress(NotFound):
            await _until_answered(lambda: api.delete(PODS, name, NAMESPACE, grace_s=1))

    await _side_by_side(map(one, names))


async def _until_answered(request: Callable[[], Awaitable[Any]]) -> Any:
    """None where it was carried out before, and the answer was lost. An overloaded machine is what is measured."""
    while True:
        try:
            return await request()
        except (Unreachable, TooManyRequests):
            continue
        except (AlreadyExists, Conflict):
            return None


async def _side_by_side(calls: Iterable[Awaitable[None]]) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[None]) -> None:
        async with slots:
            await call

    await asyncio.gather(*map(one, calls))
