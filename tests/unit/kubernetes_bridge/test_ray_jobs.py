"""RayJobs: their pods, which of them Bailiff can place and end, and what a change of their size does."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import POOL, job_object, pod_template

from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.view import cluster_view


def rayjob(status=None, workers=2, hosts=1, **spec):
    group = {"groupName": "gpu", "replicas": workers, "numOfHosts": hosts, "template": pod_template(1)}
    cluster = {"headGroupSpec": {"template": pod_template(0)}, "workerGroupSpecs": [group]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": "run",
            "namespace": "team-a",
            "uid": "0a0a0a0a-run",
            "generation": 1,
            "resourceVersion": "1",
            "labels": {names.POOL: POOL},
            "annotations": {names.SUBMITTED_BY: "ada"},
        },
        "spec": {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster, **spec},
        "status": status or {},
    }


def ray_pod(name, group, cluster="run-x"):
    made = pod_template(0 if group == "headgroup" else 1, {"ray.io/cluster": cluster, "ray.io/group": group})
    owner = {"kind": "RayCluster", "name": cluster, "uid": cluster, "controller": True}
    made["metadata"] |= {
        "name": name,
        "namespace": "team-a",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "annotations": {},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", **made, "status": {"phase": "Pending"}}


def read(item, *pods):
    view = cluster_view(pods, {"RayJob": [item]})
    (workload,) = view.workloads.values()
    return workload, view.pods.get(workload.uid, ())


def test_its_pods_are_those_of_its_present_cluster():
    pods = [ray_pod("h", "headgroup"), ray_pod("w", "gpu"), ray_pod("o", "gpu", "other")]
    workload, found = read(rayjob({"rayClusterName": "run-x"}, hosts=2), *pods)
    assert [(role.name, role.count) for role in workload.roles] == [("headgroup", 1), ("gpu", 4)]
    assert [(each.name, each.role) for each in found] == [("h", "headgroup"), ("w", "gpu")]
    assert not workload.problem


@pytest.mark.parametrize("outcome", ["Failed", "ValidationFailed"])
def test_one_that_kuberay_gives_up_has_failed(outcome):
    workload, _ = read(rayjob({"jobDeploymentStatus": outcome, "message": "no head"}))
    assert (workload.outcome, workload.outcome_reason) == ("failed", "the RayJob has failed: no head")
    assert read(rayjob({"jobDeploymentStatus": "Retrying"}))[0].outcome == ""
    assert read(rayjob({"jobDeploymentStatus": "Complete"}))[0].outcome == "complete"


def test_what_bailiff_cannot_place_or_end_is_not_submitted():
    assert "exists already" in read(rayjob(clusterSelector={"ray.io/cluster": "x"}))[0].problem
    assert "set shutdownAfterJobFinishes" in read(rayjob(shutdownAfterJobFinishes=False))[0].problem
    scaling = rayjob()
    scaling["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True
    assert "autoscaler" in read(scaling)[0].problem


def test_kuberay_ignores_a_change_of_the_size_until_it_makes_another_cluster():
    world = World()
    world.add(
        rayjob({"rayClusterName": "run-x"}), ray_pod("run-h", "headgroup"), ray_pod("run-1", "gpu"), ray_pod("run-2", "gpu")
    )
    world.run("run")
    world.change("run", rayClusterSpec=rayjob(workers=3)["spec"]["rayClusterSpec"])
    world.settle()
    assert world.job("run").size == 3, "a head and two workers run on"

    world.add(job_object("serve", pods=2, gpus=8, labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    world.story.propose()
    world.evicted("run")
    world.add(ray_pod("run-y-h", "headgroup", "run-y"), ray_pod("run-y-1", "gpu", "run-y"), ray_pod("run-y-2", "gpu", "run-y"))
    world.objects["run"]["status"]["rayClusterName"] = "run-y"
    world.settle()
    assert world.job("run").size == 3, "its third worker is not there yet"
    world.add(ray_pod("run-y-3", "gpu", "run-y"))
    world.settle()
    assert world.job("run").size == 4
