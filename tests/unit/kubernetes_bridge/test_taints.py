"""Where the taints of nodes keep a pod away is known before anybody is evicted for it."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object

from bailiff_kubernetes_bridge.annotations import STATUS
from bailiff_kubernetes_bridge.workloads.taints import untolerated

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def tainted(*taints):
    return {"spec": {"taints": [*taints]}}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "value": "absent"}, False),
        ({"key": "nvidia.com/gpu"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration, tolerated):
    assert untolerated(tainted(TAINT), [toleration]) == ("" if tolerated else "nvidia.com/gpu=present:NoSchedule")


def test_what_keeps_nobody_away_or_does_not_last_is_none():
    passing = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    assert untolerated(tainted({**TAINT, "effect": "PreferNoSchedule"}, passing), []) == ""
    assert untolerated({"spec": {}}, []) == ""


@pytest.fixture
def world():
    found = World()
    found.nodes["n1"]["spec"]["taints"] = [TAINT]
    return found


def test_a_job_is_placed_where_its_pods_tolerate_the_taints(world):
    world.add(job_object("train", gpus=8))
    job = world.run("train")
    assert [group.excluded_nodes for group in job.demand.tasks] == [("n1",)]
    tolerant = job_object("serve", gpus=8)
    tolerant["spec"]["template"]["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    world.add(tolerant)
    job = world.run("serve")
    assert [group.excluded_nodes for group in job.demand.tasks] == [()]
    assert world.story.state.nodes[job.tasks[0].node].name == "n1"


def test_a_job_whose_pods_tolerate_no_node_evicts_nobody(world):
    world.nodes["n2"]["spec"]["taints"] = [TAINT]
    world.add(job_object("train", gpus=4))
    world.settle()
    said = (
        "NotSubmitted: not submitted to test: no node of the pool would admit its pods: taint nvidia.com/gpu=present:NoSchedule"
    )
    assert world.objects["train"]["metadata"]["annotations"][STATUS] == said
    world.nodes["n2"]["spec"].clear()
    world.settle()
    assert [group.excluded_nodes for group in world.job("train").demand.tasks] == [("n1",)]


def test_taints_of_a_node_that_is_drained_for_them_exclude_it_from_no_job(world):
    """They may go while the job waits."""
    world.story.drain("n1")
    world.add(job_object("train", gpus=4))
    world.settle()
    assert [group.excluded_nodes for group in world.job("train").demand.tasks] == [()]
