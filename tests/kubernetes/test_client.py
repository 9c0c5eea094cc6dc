"""Requests to a real API server: what is done, and what it answers when it refuses."""

from pathlib import Path
from typing import Any

import pytest
from tests.kits.kubernetes_cluster import IMAGE, Cluster

from bailiff_kubernetes import AlreadyExists, Api, Conflict, Invalid, NotFound, Unreachable, pod_name, task_hash
from bailiff_kubernetes.names import GATE
from bailiff_kubernetes.resources import CONFIG_MAPS, PODS, condition_of, uid_of

pytestmark = pytest.mark.kubernetes


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "300"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "client"}},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


def gated(name: str) -> dict[str, Any]:
    """A pod that no scheduler takes."""
    return pod(name, schedulingGates=[{"name": GATE}])


async def test_an_object_is_created_once_read_and_deleted_by_its_uid(kubernetes_api: Api, kubernetes_namespace: str) -> None:
    api, namespace = kubernetes_api, kubernetes_namespace
    created = await api.create(PODS, gated("one"), namespace)
    with pytest.raises(AlreadyExists):
        await api.create(PODS, gated("one"), namespace)
    assert uid_of(await api.get(PODS, "one", namespace)) == uid_of(created)

    with pytest.raises(Conflict):
        await api.delete(PODS, "one", namespace, uid="0b5c3b84-0000-0000-0000-000000000000", grace_s=1)
    await api.delete(PODS, "one", namespace, uid=uid_of(created), grace_s=1)
    assert await api.find(PODS, "one", namespace) is None
    with pytest.raises(NotFound):
        await api.delete(PODS, "one", namespace)


async def test_a_pod_is_never_deleted_with_grace_0(kubernetes_api: Api, kubernetes_namespace: str) -> None:
    with pytest.raises(ValueError, match="grace 0"):
        await kubernetes_api.delete(PODS, "one", kubernetes_namespace, grace_s=0)


async def test_the_grace_of_a_delete_is_that_of_its_body(
    kubernetes: Cluster, kubernetes_api: Api, kubernetes_namespace: str
) -> None:
    body = pod("slow", nodeName=kubernetes.fake_nodes[0])
    body["metadata"]["finalizers"] = ["bailiff.io/release-proof"]
    created = await kubernetes_api.create(PODS, body, kubernetes_namespace)
    await kubernetes_api.delete(PODS, "slow", kubernetes_namespace, uid=uid_of(created), grace_s=77)
    ending = await kubernetes_api.get(PODS, "slow", kubernetes_namespace)
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 77


async def test_status_conditions_are_merged_by_type_and_only_for_this_pod(kubernetes_api: Api, kubernetes_namespace: str) -> None:
    api, namespace = kubernetes_api, kubernetes_namespace
    created = await api.create(PODS, gated("one"), namespace)
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "both sides"}
    patched = await api.patch_status(PODS, "one", {"conditions": [condition]}, namespace, uid=uid_of(created))
    found = condition_of(patched, "DisruptionTarget")
    assert found is not None
    assert found["message"] == "both sides"
    assert condition_of(patched, "PodScheduled") is not None, "the others are kept"
    with pytest.raises(Conflict):
        await api.patch_status(PODS, "one", {"conditions": [condition]}, namespace, uid="another")


async def test_what_the_server_finds_invalid_is_named(kubernetes_api: Api, kubernetes_namespace: str) -> None:
    with pytest.raises(Invalid, match="containers"):
        await kubernetes_api.create(PODS, {**pod("one"), "spec": {"containers": []}}, kubernetes_namespace)


async def test_a_long_list_comes_in_pages_and_is_whole(
    kubernetes_api: Api, kubernetes_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bailiff_kubernetes.client.PAGE", 2)
    names = {f"m{n}" for n in range(5)}
    for name in names:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": "pages"}}}
        await kubernetes_api.create(CONFIG_MAPS, body, kubernetes_namespace)
    listing = await kubernetes_api.list(CONFIG_MAPS, kubernetes_namespace, labels="test=pages")
    assert {item["metadata"]["name"] for item in listing.items} == names
    assert {item["kind"] for item in listing.items} == {"ConfigMap"}


async def test_no_server_is_unreachable(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: [{name: u, user: {token: t}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
    )
    async with await Api.connect(config) as api:
        with pytest.raises(Unreachable):
            await api.list(PODS)
    with pytest.raises(Unreachable):
        await Api.connect(tmp_path / "missing")


def test_a_task_has_one_pod_name_that_fits() -> None:
    key = "a" * 190 + "-1-0"
    assert len(pod_name(key)) <= 63
    assert pod_name(key) == f"bailiff-{task_hash(key)}"
    assert task_hash("a-1-0") != task_hash("a-1-1")
