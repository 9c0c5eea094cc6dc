"""The claim of a GPU that several tasks share: one for all of their pods, which each of them owns; it goes with the last."""

import asyncio
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kits.claims_server import ClaimsServer
from tests.unit.node_agent.resource_slices import DRIVER, device, published_by, resource_slice

from bailiff_kubernetes import pod_name, shared_claim_name
from bailiff_kubernetes.names import CLAIMS_GATE, DEVICE
from bailiff_kubernetes.resources import PODS, RESOURCE_CLAIMS
from bailiff_node_agent.kubernetes_settings import KubernetesSettings
from bailiff_node_agent.runtime import Launch, Running, TaskKey
from bailiff_node_agent.runtime.kubernetes.claims import claims_of, difference, own_claim, use_claims
from bailiff_node_agent.runtime.kubernetes.manifest import pod_of
from bailiff_node_agent.runtime.kubernetes.placement import NotStarted, Placement, find_orders
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, order_of

Object = dict[str, Any]
FIRST, SECOND = TaskKey("serve-1", 1, "0"), TaskKey("serve-2", 1, "0")
PUBLISHED = published_by(resource_slice(*map(device, range(3))))
SETTINGS = KubernetesSettings(placement_timeout_s=600)
CLAIM = shared_claim_name("GPU-1")


def launch(*devices: str, key: TaskKey = FIRST) -> Launch:
    return Launch(key, "true", device_ids=devices, image="i", device_resource="nvidia.com/gpu", part=Fraction(1, 2))


def claims(*devices: str, key: TaskKey = FIRST, settings: KubernetesSettings = SETTINGS) -> list[Object]:
    return claims_of(launch(*devices, key=key), "jobs", settings, PUBLISHED)


class Start:
    """One agent's start of a task with a part of GPU-1. bound: once kube-scheduler has bound its pod."""

    def __init__(
        self, cluster: ClaimsServer, folder: Path, key: TaskKey = FIRST, *, is_first_agent: bool = True, patience_s: float = 600
    ) -> None:
        self.cluster, self.key, self.bound = cluster, key, False
        settings = SETTINGS.model_copy(update={"placement_timeout_s": patience_s})
        self.node: Any = SimpleNamespace(
            api=cluster,
            files=TaskFiles(folder),
            settings=settings,
            published=PUBLISHED,
            node="n1",
            find=self._find,
            starting=asyncio.Semaphore(),
        )
        manifest = pod_of(launch("GPU-1", key=key), "n1", "jobs", "nvidia.com/gpu", 10)
        use_claims(manifest, claims("GPU-1", key=key))
        if is_first_agent:
            self.node.files.write_order(order_of(launch("GPU-1", key=key), "jobs", pod_name(str(key))), manifest, claims("GPU-1"))
        order = self.node.files.order(key)
        self.looks = asyncio.Semaphore(0)
        self.placement = Placement(self.node, order, None if order.uid else manifest, self._wait)

    def _find(self, *_: str) -> Object | None:
        return self.cluster.objects[PODS.kind, pod_name(str(self.key))] if self.bound else None

    async def _wait(self, seconds: float) -> None:
        self.looks.release()
        await asyncio.sleep(min(seconds, 0.01))

    async def until_waiting(self) -> None:
        """Until it has looked at everything once more, from the beginning."""
        for _ in range(2):
            await self.looks.acquire()


@pytest.fixture
def cluster() -> ClaimsServer:
    return ClaimsServer()


def test_each_shared_device_has_one_claim_the_same_for_every_task() -> None:
    found = claims("GPU-2", "GPU-1")
    assert found == claims("GPU-2", "GPU-1", key=SECOND)
    assert [each["metadata"]["name"] for each in found] == [shared_claim_name("GPU-2"), CLAIM]
    assert [each["metadata"]["annotations"] for each in found] == [{DEVICE: "GPU-2"}, {DEVICE: "GPU-1"}]
    for claim, name in zip(found, ("GPU-2", "GPU-1"), strict=True):
        [request] = claim["spec"]["devices"]["requests"]
        assert (request["exactly"]["deviceClassName"], request["exactly"]["count"]) == ("gpu.nvidia.com", 1)
        assert request["exactly"]["selectors"][0]["cel"]["expression"].endswith(f'.uuid in ["{name}"]')


def test_a_device_class_of_its_own_carries_the_drivers_configuration_for_shared_devices() -> None:
    [claim] = claims("GPU-1", settings=KubernetesSettings(dra_shared_device_class="time-sliced.example.com"))
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "time-sliced.example.com"


def test_its_pod_uses_all_of_them_and_is_kept_from_the_scheduler() -> None:
    pod = pod_of(launch("GPU-1", "GPU-2"), "n1", "jobs", "nvidia.com/gpu", 10)
    use_claims(pod, claims("GPU-1", "GPU-2"))
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {}, "claims": [{"name": "gpus-0"}, {"name": "gpus-1"}]}
    assert [each["resourceClaimName"] for each in pod["spec"]["resourceClaims"]] == [CLAIM, shared_claim_name("GPU-2")]
    assert pod["spec"]["schedulingGates"] == [{"name": CLAIMS_GATE}]


async def test_the_pod_owns_the_claim_before_the_scheduler_may_have_it(cluster: ClaimsServer, tmp_path: Path) -> None:
    start = Start(cluster, tmp_path)
    placing = asyncio.create_task(start.placement.placed())
    await start.until_waiting()
    assert cluster.log == ["create Pod", "create ResourceClaim", "open the gate"]
    start.bound = True
    assert (await placing)["metadata"]["name"] == pod_name(str(FIRST))


async def test_a_second_pod_joins_the_claim_and_it_stays_until_both_have_gone(cluster: ClaimsServer, tmp_path: Path) -> None:
    for key in (FIRST, SECOND):
        start = Start(cluster, tmp_path, key)
        placing = asyncio.create_task(start.placement.placed())
        await start.until_waiting()
        start.bound = True
        await placing
    assert cluster.owners(CLAIM) == [pod_name(str(FIRST)), pod_name(str(SECOND))]
    assert cluster.log[3:] == ["create Pod", "own ResourceClaim", "open the gate"]
    for key, left in ((FIRST, True), (SECOND, False)):
        del cluster.objects[PODS.kind, pod_name(str(key))]
        cluster.collect()
        assert ((RESOURCE_CLAIMS.kind, CLAIM) in cluster.objects) == left


async def test_a_claim_that_is_being_removed_goes_first_and_then_there_is_a_new_one(
    cluster: ClaimsServer, tmp_path: Path
) -> None:
    first = Start(cluster, tmp_path, SECOND)
    await first.placement._create(first.placement._manifest or {})
    assert await own_claim(first.node, first.placement.order, claims("GPU-1")[0])
    cluster.begin_removal(CLAIM)

    start = Start(cluster, tmp_path)
    placing = asyncio.create_task(start.placement.placed())
    await start.until_waiting()
    assert cluster.gates(pod_name(str(FIRST))) == [CLAIMS_GATE], "the scheduler must not see a pod whose claim is about to go"
    del cluster.objects[RESOURCE_CLAIMS.kind, CLAIM]
    await start.until_waiting()
    assert (cluster.gates(pod_name(str(FIRST))), cluster.owners(CLAIM)) == ([], [pod_name(str(FIRST))])
    start.bound = True
    await placing


async def test_a_claim_that_goes_while_its_pod_waits_for_the_scheduler_is_made_again(
    cluster: ClaimsServer, tmp_path: Path
) -> None:
    start = Start(cluster, tmp_path)
    placing = asyncio.create_task(start.placement.placed())
    await start.until_waiting()
    del cluster.objects[RESOURCE_CLAIMS.kind, CLAIM]  # by a garbage collector that had not seen its new owner
    await start.until_waiting()
    assert cluster.owners(CLAIM) == [pod_name(str(FIRST))]
    start.bound = True
    await placing


async def test_a_claim_that_does_not_go_is_a_start_that_failed_with_that_reason(cluster: ClaimsServer, tmp_path: Path) -> None:
    other = Start(cluster, tmp_path, SECOND)
    await other.placement._create(other.placement._manifest or {})
    await own_claim(other.node, other.placement.order, claims("GPU-1")[0])
    cluster.begin_removal(CLAIM)
    with pytest.raises(NotStarted, match=f"not placed within 0 s: an earlier ResourceClaim {CLAIM} has not gone"):
        await Start(cluster, tmp_path, patience_s=0.05).placement.placed()
    assert (PODS.kind, pod_name(str(FIRST))) not in cluster.objects


@pytest.mark.parametrize("refused", [RESOURCE_CLAIMS.kind, PODS.kind])
async def test_the_next_agent_goes_on_where_the_first_was_killed(cluster: ClaimsServer, tmp_path: Path, refused: str) -> None:
    """Between pod and claim, or between claim and gate: a change that was refused stands for one that was never sent."""
    first = Start(cluster, tmp_path)
    await first.placement._create(first.placement._manifest or {})
    cluster.away.add(refused)
    await first.placement._own_claims()
    assert cluster.gates(pod_name(str(FIRST))) == [CLAIMS_GATE]
    cluster.away.clear()

    second = Start(cluster, tmp_path, is_first_agent=False)
    placing = asyncio.create_task(second.placement.placed())
    await second.until_waiting()
    assert (cluster.gates(pod_name(str(FIRST))), cluster.owners(CLAIM)) == ([], [pod_name(str(FIRST))])
    second.bound = True
    await placing


async def test_kubelet_and_every_claim_must_have_what_was_placed(cluster: ClaimsServer, tmp_path: Path) -> None:
    wanted, order = claims("GPU-1", "GPU-2"), order_of(launch("GPU-1", "GPU-2"), "jobs", pod_name(str(FIRST)))
    node: Any = SimpleNamespace(api=cluster, published=PUBLISHED)
    for claim in wanted:
        assert await own_claim(node, order, claim)
    for claim, name in zip(wanted, ("gpu-1", "gpu-0"), strict=True):
        results = [{"driver": DRIVER, "pool": "n1", "device": name}]
        found = cluster.objects[RESOURCE_CLAIMS.kind, claim["metadata"]["name"]]
        found["status"] = {"allocation": {"devices": {"results": results}}}
    why = await difference(node, order, wanted, ("GPU-1", "GPU-2"))
    assert why == "its ResourceClaim has GPU-0, GPU-1, where it was placed on GPU-1, GPU-2"
    results[0]["device"] = "gpu-2"
    assert await difference(node, order, wanted, ("GPU-1", "GPU-2")) is None
    del cluster.objects[RESOURCE_CLAIMS.kind, CLAIM]
    assert await difference(node, order, wanted, ("GPU-1", "GPU-2")) == "its ResourceClaim was removed before it started"


def test_an_agent_that_lost_its_disk_learns_from_the_pod_how_much_of_its_gpu_it_has(tmp_path: Path) -> None:
    pod = pod_of(launch("GPU-1"), "n1", "jobs", "nvidia.com/gpu", 10)
    pod["metadata"]["uid"] = "u1"
    files = TaskFiles(tmp_path)
    resources = SimpleNamespace(devices_of=lambda *_: ("GPU-1",))
    node: Any = SimpleNamespace(files=files, task_pods=lambda: [pod], resources=resources)
    find_orders(node)
    found = files.running(files.order(FIRST))
    assert isinstance(found, Running)
    assert (found.device_ids, found.part) == (("GPU-1",), Fraction(1, 2))
