"""Where a pod's node affinity lets it go is known before anybody is evicted for it."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object, plain_pod

from bailiff_kubernetes_bridge.annotations import STATUS
from bailiff_kubernetes_bridge.workloads.node_affinity import NODE_TERMS, meets

NODE = {"metadata": {"name": "n1", "labels": {"zone": "a", "gpus": "8"}}}


def requirement(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("operator", "values", "key", "met"),
    [
        *(("In", ["a", "b"], "zone", True), ("In", ["b"], "zone", False), ("In", ["b"], "rack", False)),
        *(("NotIn", ["b"], "zone", True), ("NotIn", ["a"], "zone", False), ("NotIn", ["a"], "rack", True)),
        *(("Exists", [], "zone", True), ("Exists", [], "rack", False), ("DoesNotExist", [], "rack", True)),
        *(("Gt", ["4"], "gpus", True), ("Gt", ["8"], "gpus", False), ("Lt", ["9"], "gpus", True), ("Lt", ["9"], "zone", False)),
    ],
)
def test_requirements(operator, values, key, met):
    assert meets(NODE, [{"matchExpressions": [requirement(key, operator, *values)]}]) == met


def test_one_term_is_enough_all_requirements_of_it_are_needed_and_an_empty_one_is_met_by_none():
    here, there = requirement("zone", "In", "a"), requirement("zone", "In", "b")
    assert meets(NODE, [{"matchExpressions": [there]}, {"matchExpressions": [here]}])
    assert not meets(NODE, [{"matchExpressions": [here, there]}])
    assert not meets(NODE, [{"matchExpressions": [here], "matchFields": [requirement("metadata.name", "In", "n2")]}])
    assert not meets(NODE, [{}])


@pytest.fixture
def world():
    found = World()
    found.nodes["n1"]["metadata"]["labels"], found.nodes["n2"]["metadata"]["labels"] = {"zone": "a"}, {"zone": "b"}
    return found


def affinity(zone):
    terms = [{"matchExpressions": [requirement("zone", "In", zone)]}]
    return {"affinity": {"nodeAffinity": {NODE_TERMS: {"nodeSelectorTerms": terms}}}}


def test_a_job_is_placed_where_its_affinity_lets_it_go(world):
    item = job_object("train", gpus=4)
    item["spec"]["template"]["spec"] |= affinity("b")
    world.add(item)
    job = world.run("train")
    assert [group.excluded_nodes for group in job.demand.tasks] == [("n1",)]
    assert world.story.state.nodes[job.tasks[0].node].name == "n2"


def test_a_job_that_no_node_would_admit_evicts_nobody(world):
    world.add(job_object("first", pods=2, gpus=8))
    world.run("first")
    item = job_object("train", gpus=4, labels={"bailiff.io/priority-class": "inference"})
    item["spec"]["template"]["spec"] |= affinity("nowhere")
    world.add(item)
    world.settle()
    said = "NotSubmitted: not submitted to test: no node of the pool would admit its pods: node affinity zone In [nowhere]"
    assert world.objects["train"]["metadata"]["annotations"][STATUS] == said
    world.nodes["n2"]["metadata"]["labels"]["zone"] = "nowhere"
    world.settle()
    assert world.job("train").phase == "pending"


def test_pods_of_a_group_with_other_affinities_are_other_roles(world):
    pods = [plain_pod(f"w-{zone}", "ring", size=2, gpus=8) for zone in "ab"]
    for pod in pods:
        pod["spec"] |= affinity(pod["metadata"]["name"][-1])
    world.add(*pods)
    job = world.run("ring")
    assert sorted(group.excluded_nodes for group in job.demand.tasks) == [("n1",), ("n2",)]
