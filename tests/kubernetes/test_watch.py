"""A local view of a real API server's objects, while the connection is cut, the server pauses, and its history is compacted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kits.kubernetes_cluster import PATIENCE_S, Cluster
from tests.kubernetes.line import Line, port_of, through

from bailiff_kubernetes import Api, Change, Gone, LocalView
from bailiff_kubernetes.resources import CONFIG_MAPS, EVENTS, Object

pytestmark = pytest.mark.kubernetes


@pytest.fixture
async def line(kubernetes: Cluster) -> AsyncIterator[Line]:
    async with Line(port_of(kubernetes)) as line:
        yield line


@pytest.fixture
async def api_on_line(kubernetes: Cluster, line: Line, tmp_path: Path) -> AsyncIterator[Api]:
    async with await Api.connect(through(line, kubernetes.kubeconfig, tmp_path / "config")) as api:
        yield api


@contextlib.asynccontextmanager
async def following(view: LocalView) -> AsyncIterator[asyncio.Queue[Change]]:
    changes: asyncio.Queue[Change] = asyncio.Queue()

    async def follow() -> None:
        async for change in view.changes():
            changes.put_nowait(change)

    task = asyncio.create_task(follow())
    try:
        await asyncio.wait_for(view.synced.wait(), PATIENCE_S)
        yield changes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def next_of(changes: asyncio.Queue[Change]) -> tuple[str, str]:
    change = await asyncio.wait_for(changes.get(), PATIENCE_S)
    return change.kind, change.object["metadata"]["name"]


def config_map(name: str, value: str = "") -> Object:
    metadata = {"name": name, "labels": {"test": "watch"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


async def set_value(api: Api, namespace: str, name: str, value: str) -> None:
    await api.patch(CONFIG_MAPS, name, {"data": {"value": value}}, namespace)


async def until_cut(view: LocalView) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while view.current.is_set():  # noqa: ASYNC110 - an Event has no wait for its clearing
            await asyncio.sleep(0.02)


async def test_the_view_has_what_is_there_and_follows_what_changes(kubernetes_api: Api, kubernetes_namespace: str) -> None:
    api, namespace = kubernetes_api, kubernetes_namespace
    await api.create(CONFIG_MAPS, config_map("old"), namespace)
    view = LocalView(api, CONFIG_MAPS, namespace, labels="test=watch")
    async with following(view) as changes:
        assert await next_of(changes) == ("added", "old")
        await api.create(CONFIG_MAPS, config_map("new"), namespace)
        assert await next_of(changes) == ("added", "new")
        await set_value(api, namespace, "new", "2")
        assert await next_of(changes) == ("modified", "new")
        found = view.get("new", namespace)
        assert found is not None
        assert found["data"]["value"] == "2"
        await api.delete(CONFIG_MAPS, "old", namespace)
        assert await next_of(changes) == ("deleted", "old")
        assert [*view.objects] == [(namespace, "new")]


async def test_after_a_cut_the_watch_continues_without_another_list(
    kubernetes_api: Api, kubernetes_namespace: str, api_on_line: Api, line: Line
) -> None:
    namespace = kubernetes_namespace
    view = LocalView(api_on_line, CONFIG_MAPS, namespace, labels="test=watch")
    async with following(view) as changes:
        await kubernetes_api.create(CONFIG_MAPS, config_map("a"), namespace)
        assert await next_of(changes) == ("added", "a")
        line.cut()
        await until_cut(view)
        assert view.failure
        await set_value(kubernetes_api, namespace, "a", "while it was cut")
        await kubernetes_api.create(CONFIG_MAPS, config_map("b"), namespace)
        await kubernetes_api.delete(CONFIG_MAPS, "b", namespace)
        line.is_cut = False
        assert await next_of(changes) == ("modified", "a")
        assert await next_of(changes) == ("added", "b")
        assert await next_of(changes) == ("deleted", "b")
        assert view.lists == 1
        assert view.current.is_set()


def note(name: str, namespace: str) -> Object:
    """An Event: the server keeps no history of these in memory, so what etcd forgets is gone."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "labels": {"test": "watch"}},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "bailiff.io/test",
        "reportingInstance": "test",
        "action": "Test",
        "reason": "Test",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "any", "namespace": namespace},
    }


async def test_after_a_compaction_it_lists_again_and_finds_what_it_missed(
    kubernetes: Cluster, kubernetes_api: Api, kubernetes_namespace: str, api_on_line: Api, line: Line
) -> None:
    api, namespace = kubernetes_api, kubernetes_namespace
    view = LocalView(api_on_line, EVENTS, namespace, labels="test=watch")
    for name in ("kept", "replaced", "deleted"):
        await api.create(EVENTS, note(name, namespace), namespace)
    async with following(view) as changes:
        assert {await next_of(changes) for _ in range(3)} == {("added", name) for name in ("kept", "replaced", "deleted")}
        line.cut()
        await until_cut(view)
        for name in ("replaced", "deleted"):
            await api.delete(EVENTS, name, namespace)
        await api.create(EVENTS, note("replaced", namespace), namespace)
        await api.patch(EVENTS, "kept", {"metadata": {"labels": {"changed": "yes"}}}, namespace)
        await asyncio.to_thread(kubernetes.compact)
        line.is_cut = False
        got = [await next_of(changes) for _ in range(4)]
        assert sorted(got) == [("added", "replaced"), ("deleted", "deleted"), ("deleted", "replaced"), ("modified", "kept")]
        assert got.index(("deleted", "replaced")) < got.index(("added", "replaced"))
        assert view.lists == 2


async def test_a_version_that_etcd_forgot_is_gone(kubernetes: Cluster, kubernetes_api: Api, kubernetes_namespace: str) -> None:
    await asyncio.to_thread(kubernetes.compact)
    with pytest.raises(Gone):
        async for _ in kubernetes_api.stream(EVENTS, kubernetes_namespace, "1", labels="", fields="", timeout_s=5):
            pass
