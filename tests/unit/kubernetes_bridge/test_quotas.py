"""A set whose controller makes some pods later is not started where a quota would forbid those."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object, message, plain_pod, pod_template

JOBSET = "jobset.sigs.k8s.io"


def replicated(name, pods, gpus):
    return {"name": name, "replicas": 1, "template": {"spec": {"parallelism": pods, "template": pod_template(gpus)}}}


def pod_of(role):
    pod = plain_pod(f"run-{role}", gpus=1)
    pod["metadata"]["labels"] |= {
        f"{JOBSET}/jobset-name": "run",
        f"{JOBSET}/replicatedjob-name": role,
        f"{JOBSET}/job-index": "0",
    }
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": f"run-{role}", "uid": f"uid-{role}", "controller": True}]
    return pod


def quota(hard, used, **spec):
    metadata = {"name": "team", "namespace": "team-a", "uid": "quota", "resourceVersion": "1"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}


def in_order():
    """Its driver is there, and its four workers come later."""
    world = World()
    spec = {
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "replicatedJobs": [replicated("driver", 1, 1), replicated("workers", 4, 2)],
    }
    world.objects["run"] = job_object("run") | {"kind": "JobSet", "spec": spec}
    world.pods["run-driver"] = pod_of("driver")
    return world


@pytest.mark.parametrize(
    ("hard", "used", "said"),
    [
        ({"requests.nvidia.com/gpu": "8"}, {"requests.nvidia.com/gpu": "1"}, "leaves 7 of requests.nvidia.com/gpu, and"),
        ({"cpu": "4500m"}, {"cpu": "1"}, "leaves 3.5 of cpu, and"),
        ({"count/pods": "4"}, {"count/pods": "1"}, "leaves 3 of count/pods, and"),
        ({"pods": "1"}, {"pods": "9"}, "leaves 0 of pods, and"),
    ],
)
def test_it_is_not_submitted_and_says_which_quota_leaves_too_little(hard, used, said):
    world = in_order()
    world.quotas = [quota(hard, used)]
    world.settle()
    assert not world.jobs()
    assert f"not submitted to test: the quota team {said} the pods that it makes later need " in message(world.pods["run-driver"])


@pytest.mark.parametrize(
    "item",
    [
        quota({"requests.nvidia.com/gpu": "9", "pods": "5", "limits.cpu": "1"}, {"requests.nvidia.com/gpu": "1", "pods": "1"}),
        quota({"pods": "1"}, {"pods": "1"}, scopes=["BestEffort"]),
        {**quota({"pods": "1"}, {"pods": "1"}), "metadata": {"name": "other", "namespace": "team-b"}},
    ],
    ids=["there is enough", "it is for other pods", "it is of another namespace"],
)
def test_it_is_submitted_where_no_quota_forbids_its_later_pods(item):
    world = in_order()
    world.quotas = [item]
    world.settle()
    assert [job.size for job in world.jobs()] == [5]


def test_it_is_submitted_once_the_quota_leaves_enough():
    world = in_order()
    world.quotas = [quota({"pods": "4"}, {"pods": "1"})]
    world.settle()
    world.quotas = [quota({"pods": "5"}, {"pods": "1"})]
    world.settle()
    assert [job.phase for job in world.jobs()] == ["starting"]
