"""A pod whose containers the kubelet cannot start never counts as started, and does not keep its GPUs."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime.kubernetes import pod_status
from bailiff_node_agent.runtime.kubernetes.follow import PodFollower
from bailiff_node_agent.runtime.kubernetes.runtime import KubernetesRuntime
from bailiff_node_agent.runtime.kubernetes.stopping import KILL_GRACE_S
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.runtime.port import Running, TaskKey

KEY = TaskKey("train", 1, "0")
ORDER = TaskOrder(KEY, "team-a", "pod-1", own_pod=True, devices=("GPU-1",), ordered_by=7, is_only_task=True, uid="u1")
PULLING = {"waiting": {"reason": "ContainerCreating"}}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "no-such:1"'}}
NEVER_STARTED = {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}
WHY = 'ImagePullBackOff: Back-off pulling image "no-such:1"'


class Kubelet:
    """Has given the pod its GPU. The state of its container, `now`, can be changed; each look of the follower is counted."""

    def __init__(self, folder: Path, *, reaches_node: bool, timeout_s: float) -> None:
        self.files = TaskFiles(folder)
        self.files.write_order(ORDER)
        self.now: dict[str, Any] = PULLING
        self.looks = asyncio.Semaphore(0)
        self.deleted: list[int] = []
        self.node: Any = SimpleNamespace(
            files=self.files,
            changed={},
            lease=None,
            reaches_node=reaches_node,
            settings=KubernetesSettings(placement_timeout_s=timeout_s),
            find=lambda *_: self.pod(),
            resources=SimpleNamespace(devices_of=lambda *_: ("GPU-1",)),
            api=SimpleNamespace(delete=self._delete, patch_status=self._patch),
            processes=SimpleNamespace(pids=lambda _: {}),
        )
        self.follower = PodFollower(self.node, ORDER, None, lambda _: None, lambda _: None)
        self.follower._wait = self._wait  # type: ignore[method-assign]
        self.follower._serve = self._nothing  # type: ignore[method-assign]
        self.admission = asyncio.create_task(self.follower._admitted(self.pod()))

    def pod(self) -> dict[str, Any]:
        statuses = [{"state": self.now}]
        return {"metadata": {"uid": "u1"}, "spec": {}, "status": {"phase": "Pending", "containerStatuses": statuses}}

    async def seen(self) -> None:
        """The follower has looked, and looked again."""
        for _ in range(2):
            await self.looks.acquire()

    async def _delete(self, *_: object, grace_s: int, **__: object) -> None:
        self.deleted.append(grace_s)
        self.now = NEVER_STARTED

    async def _patch(self, *_: object, **__: object) -> None: ...

    async def _nothing(self) -> None: ...

    async def _wait(self, _: float) -> None:
        self.looks.release()
        await asyncio.sleep(0)


@pytest.mark.parametrize("reaches_node", [True, False])
async def test_it_is_ended_with_the_kubelets_reason_and_never_started(tmp_path: Path, reaches_node: bool) -> None:
    kubelet = Kubelet(tmp_path, reaches_node=reaches_node, timeout_s=1e-9)
    await kubelet.seen()
    assert not kubelet.follower.settled.is_set(), "an image that is being pulled is neither a start nor a failure"
    assert not kubelet.deleted
    kubelet.now = NO_IMAGE
    await kubelet.admission
    assert kubelet.deleted == [KILL_GRACE_S]
    assert not kubelet.follower.has_started
    end = kubelet.follower._exit_of(kubelet.pod())
    assert (end.error, end.supervisor_lost) == (f"not started within 0 s: {WHY}", True), "no exit of the job"


@pytest.mark.parametrize("reaches_node", [True, False])
async def test_an_image_that_comes_in_the_end_is_a_start(tmp_path: Path, reaches_node: bool) -> None:
    kubelet = Kubelet(tmp_path, reaches_node=reaches_node, timeout_s=1e9)
    kubelet.now = NO_IMAGE
    await kubelet.seen()
    assert not kubelet.follower.settled.is_set()
    kubelet.now = {"running": {}}
    await kubelet.admission
    assert kubelet.follower.has_started
    assert kubelet.follower.settled.is_set()
    assert not kubelet.deleted


async def test_for_the_next_agent_a_pod_whose_image_is_pulled_has_not_begun(tmp_path: Path) -> None:
    """The kubelet has given it its GPU before it pulls the image."""
    kubelet = Kubelet(tmp_path / "kubernetes", reaches_node=True, timeout_s=1e9)
    await kubelet.seen()
    assert kubelet.files.running(ORDER) is not None
    runtime = KubernetesRuntime(tmp_path / "kubernetes", "n1", KubernetesSettings())
    runtime._followers[KEY] = kubelet.follower
    state = runtime._present(kubelet.node, ORDER)
    assert isinstance(state, Running)
    assert (state.begun, state.device_ids) == (False, ("GPU-1",))
    begun = asyncio.create_task(runtime.begun(KEY))
    await kubelet.seen()
    assert not begun.done()
    kubelet.now = {"running": {}}
    assert await begun
    state = runtime._present(kubelet.node, ORDER)
    assert isinstance(state, Running)
    assert state.begun


def test_a_container_that_waits_for_its_next_start_has_started() -> None:
    crashing = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
    pod = {"status": {"containerStatuses": [crashing]}}
    assert pod_status.is_running(pod)
    assert not pod_status.why_not_started(pod)


def test_a_container_that_the_kubelet_starts_again_has_not_ended() -> None:
    ended = {"state": {"terminated": {"exitCode": 1}}}
    pod: dict[str, Any] = {
        "metadata": {},
        "spec": {"restartPolicy": "OnFailure"},
        "status": {"phase": "Running", "containerStatuses": [ended]},
    }
    assert not pod_status.has_ended(pod)
    assert pod_status.has_ended(pod | {"spec": {"restartPolicy": "Never"}})
    assert pod_status.has_ended(pod | {"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}})
    assert pod_status.has_ended(pod | {"status": {"phase": "Failed", "containerStatuses": [ended]}})
    waits = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    assert not pod_status.has_ended(pod | {"status": {"phase": "Failed", "containerStatuses": [waits]}}), "nobody saw its end"


def test_an_init_container_without_its_image_is_why_the_pod_does_not_start() -> None:
    waits = {"state": {"waiting": {"reason": "PodInitializing"}}}
    pod = {"status": {"initContainerStatuses": [{"state": NO_IMAGE}], "containerStatuses": [waits]}}
    assert pod_status.why_not_started(pod) == WHY
