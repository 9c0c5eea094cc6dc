"""Where a pod's volumes let it go is known before anybody is evicted for it."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object, plain_pod
from tests.kits.bridge_rounds import Rounds

from bailiff_kubernetes.resources import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from bailiff_kubernetes_bridge.annotations import STATUS
from bailiff_kubernetes_bridge.workloads.volumes import NO_PROVISIONER, SELECTED_NODE

URGENT = {"bailiff.io/priority-class": "inference"}
LATER = "WaitForFirstConsumer"
NOBODY = "NotSubmitted: not submitted to test: no node of the pool would admit its pods: "


def item(resource, name, namespace=None, **fields):
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}


def claim(name="data", storage_class="local", *, volume="", selected="", size="10Gi", **spec):
    wanted = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    found = item(VOLUME_CLAIMS, name, "team-a", spec={**wanted, **spec, **({"volumeName": volume} if volume else {})})
    found["metadata"]["annotations"] = {SELECTED_NODE: selected} if selected else {}
    return found


def volume(name, node, storage_class="local", *, phase="Available", size="20Gi", **spec):
    expression = {"key": "host", "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **spec}
    return item(VOLUMES, name, spec={**spec, "nodeAffinity": affinity}, status={"phase": phase})


def storage_class(name="local", mode=LATER, provisioner=NO_PROVISIONER, **fields):
    return item(STORAGE_CLASSES, name, volumeBindingMode=mode, provisioner=provisioner, **fields)


def of(claim_name="data"):
    return {"name": claim_name, "persistentVolumeClaim": {"claimName": claim_name}}


def made_for_each(class_name="fast"):
    spec = {"storageClassName": class_name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def train(*volumes, name="train"):
    found = job_object(name, gpus=8, labels=URGENT)
    found["spec"]["template"]["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}, *volumes]
    return found


@pytest.fixture
def world():
    found = World()
    for name in ("n1", "n2"):
        found.nodes[name]["metadata"]["labels"] = {"host": name}
    return found


NETWORK = storage_class("fast", provisioner="csi.example")
ZONED = storage_class(
    "fast", provisioner="csi.example", allowedTopologies=[{"matchLabelExpressions": [{"key": "host", "values": ["n2"]}]}]
)
BOUND = volume("pv-1", "n2", phase="Bound")


@pytest.mark.parametrize(
    ("volumes", "storage", "excluded"),
    [
        ([of()], [claim(volume="pv-1"), BOUND], ("n1",)),
        ([of()], [claim(), storage_class(), volume("pv-1", "n2"), volume("pv-2", "n1", phase="Bound")], ("n1",)),
        ([of()], [claim(), storage_class(), volume("pv-1", "n2"), volume("pv-2", "n1", size="5Gi")], ("n1",)),
        ([of()], [claim(), storage_class(), volume("pv-1", "n2"), volume("pv-2", "n1", "other")], ("n1",)),
        ([of()], [claim(), storage_class(), volume("pv-1", "n2"), volume("pv-2", "n1", accessModes=["ReadOnlyMany"])], ("n1",)),
        ([of()], [claim(), storage_class(), volume("pv-1", "n2"), volume("pv-2", "n1", volumeMode="Block")], ("n1",)),
        (
            [of()],
            [claim(), storage_class(), volume("pv-1", "n2"), volume("pv-2", "n1", claimRef={"namespace": "b", "name": "c"})],
            ("n1",),
        ),
        ([of()], [claim(storage_class="fast", selected="n2"), NETWORK], ("n1",)),
        ([of()], [claim(storage_class="fast"), ZONED], ("n1",)),
        ([made_for_each()], [ZONED], ("n1",)),
        ([of()], [claim(storage_class="fast"), NETWORK], ()),
        ([made_for_each()], [NETWORK], ()),
        ([made_for_each()], [storage_class("fast", "Immediate", "csi.example")], ()),
    ],
)
def test_a_job_is_placed_where_its_volumes_let_it_go(world, volumes, storage, excluded):
    world.storage = storage
    world.add(train(*volumes))
    job = world.run("train")
    assert [group.excluded_nodes for group in job.demand.tasks] == [excluded]


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ([], "the claim data does not exist"),
        ([claim(storage_class="fast"), storage_class("fast", "Immediate", "csi.example")], "the claim data is not bound"),
        ([claim(volume="pv-1")], "the volume pv-1 of the claim data does not exist"),
        ([claim(volume="pv-1"), volume("pv-1", "n3")], "the volume of the claim data is at host In [n3]"),
        ([claim(), storage_class()], "no free volume there serves the claim data"),
    ],
)
def test_a_job_whose_volumes_no_node_serves_evicts_nobody_until_one_does(world, storage, why):
    world.add(job_object("first", pods=2, gpus=8))
    world.run("first")
    rounds = Rounds(world)
    world.storage = storage
    world.add(train(of()))
    rounds.round()
    world.settle()
    assert world.objects["train"]["metadata"]["annotations"][STATUS] == NOBODY + why
    assert [job.demand.labels["kubernetes/name"] for job in world.jobs()] == ["first"]
    rounds.round()
    world.storage = [claim(volume="pv-1"), BOUND]
    assert rounds.round() == {world.objects["train"]["metadata"]["uid"]}
    world.settle()
    assert world.job("train").phase == "pending"


def test_pods_of_a_group_with_claims_of_their_own_go_each_to_its_volume(world):
    pods = [plain_pod(f"w-{number}", "ring", size=2, gpus=8) for number in (1, 2)]
    for number, pod in enumerate(pods, 1):
        pod["spec"]["volumes"] = [of(f"data-{number}")]
        world.storage += [claim(f"data-{number}", volume=f"pv-{number}"), volume(f"pv-{number}", f"n{3 - number}", phase="Bound")]
    world.add(*pods)
    world.run("ring")
    assert {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.pods.values()} == {"w-1": "n2", "w-2": "n1"}


def test_of_a_claim_for_one_pod_another_workload_waits_until_it_is_free(world):
    one_pod = claim(volume="v", accessModes=["ReadWriteOncePod"])
    bound = volume("v", "n1", phase="Bound")
    world.storage = [storage_class(), one_pod, bound]
    world.add(train(of(), name="first"))
    world.run("first")
    world.add(train(of()))
    world.settle()
    (pod,) = world.pods_of("first")
    said = f"the claim data is for one pod (ReadWriteOncePod), and {pod['metadata']['name']} uses it"
    assert world.objects["train"]["metadata"]["annotations"][STATUS] == f"NotSubmitted: not submitted to test: {said}"
    world.finish("first", 0)
    world.settle()
    assert world.job("train").phase == "starting"


def test_a_claim_for_one_pod_is_of_no_use_to_two(world):
    world.storage = [storage_class(), claim(volume="v", accessModes=["ReadWriteOncePod"]), volume("v", "n1", phase="Bound")]
    item = train(of())
    item["spec"] |= {"parallelism": 2, "completions": 2}
    world.add(item)
    world.settle()
    assert not world.jobs()
    assert world.objects["train"]["metadata"]["annotations"][STATUS].endswith(
        "the claim data is for one pod (ReadWriteOncePod), and 2 of its pods use it"
    )
