"""Each kind of workload: its pods, its ranks, how it is suspended, how it ends."""

import pytest
from tests.kits.bridge_objects import job_object, pod_template

from bailiff_kubernetes_bridge.pods import lacks_pods
from bailiff_kubernetes_bridge.view import cluster_view
from bailiff_kubernetes_bridge.workloads.adapters import BY_KIND
from bailiff_kubernetes_bridge.workloads.model import PodResources
from bailiff_kubernetes_bridge.workloads.quantities import BadPodSpec, pod_resources

META = {"namespace": "ml", "uid": "w1", "resourceVersion": "7", "generation": 2, "labels": {"bailiff.io/pool": "test"}}


def item(kind, spec, status=None, **meta):
    return {
        "apiVersion": BY_KIND[kind].resource.api_version,
        "kind": kind,
        "spec": spec,
        "status": status or {},
        "metadata": {"name": "run", **META, **meta},
    }


def pod(name, labels=None, annotations=None, owner=None):
    template = pod_template(1, labels)
    meta = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": "1", "annotations": annotations or {}}
    owners = [{"kind": owner[0], "uid": owner[1], "name": "x", "controller": True}] if owner else []
    return {
        "kind": "Pod",
        "spec": template["spec"],
        "status": {},
        "metadata": {**template["metadata"], **meta, "ownerReferences": owners},
    }


def replicated(name, replicas, parallelism, gpus):
    job = {"parallelism": parallelism, "completions": parallelism, "template": pod_template(gpus)}
    return {"name": name, "replicas": replicas, "template": {"spec": job}}


JOBSET = {"replicatedJobs": [replicated("driver", 1, 1, 0), replicated("workers", 2, 4, 8)]}


def jobset_pod(name, role, job, index):
    prefix = "jobset.sigs.k8s.io/"
    labels = {f"{prefix}jobset-name": "run", f"{prefix}replicatedjob-name": role, f"{prefix}job-index": str(job)}
    return pod(name, labels, {"batch.kubernetes.io/job-completion-index": str(index)}, ("Job", "child"))


def one(view):
    (workload,) = view.workloads.values()
    return workload, view.pods.get(workload.uid, ())


def test_jobset():
    pods = [jobset_pod("a", "driver", 0, 0), jobset_pod("b", "workers", 1, 3)]
    workload, found = one(cluster_view(pods, {"JobSet": [item("JobSet", JOBSET)]}))
    assert [(role.name, role.count, role.resources.gpus) for role in workload.roles] == [("driver", 1, 0), ("workers", 8, 8)]
    assert [(each.role, each.index) for each in found] == [("driver", 0), ("workers", 7)]


IN_ORDER = {**JOBSET, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
AFTER = {"replicatedJobs": [JOBSET["replicatedJobs"][0], {**JOBSET["replicatedJobs"][1], "dependsOn": [{"name": "driver"}]}]}
TWO = {"pytorchReplicaSpecs": {"Master": {"template": pod_template(1)}, "Worker": {"template": pod_template(2)}}}


@pytest.mark.parametrize(
    ("kind", "spec", "lacks"),
    [("JobSet", JOBSET, "1 of 9 pods"), ("JobSet", IN_ORDER, ""), ("JobSet", AFTER, ""), ("PyTorchJob", TWO, "0 of 2 pods")],
)
def test_pods_are_missed_where_the_controller_makes_all_at_once(kind, spec, lacks):
    assert lacks_pods(*one(cluster_view([jobset_pod("a", "driver", 0, 0)], {kind: [item(kind, spec)]}))) == lacks


def test_the_jobs_of_a_jobset_are_no_workloads_of_their_own():
    child = job_object("run-workers-0")
    child["metadata"]["ownerReferences"] = [{"kind": "JobSet", "uid": "w1", "name": "run", "controller": True}]
    workload, _ = one(cluster_view([], {"JobSet": [item("JobSet", JOBSET)], "Job": [child]}))
    assert workload.resource.kind == "JobSet"


def test_trainjob_has_the_pods_of_its_jobset():
    jobset = item(
        "JobSet", JOBSET, uid="j1", ownerReferences=[{"kind": "TrainJob", "uid": "w1", "name": "run", "controller": True}]
    )
    view = cluster_view([jobset_pod("b", "workers", 0, 2)], {"TrainJob": [item("TrainJob", {})], "JobSet": [jobset]})
    workload, found = one(view)
    assert (workload.resource.kind, workload.size, workload.problem) == ("TrainJob", 9, "")
    assert [each.role for each in found] == ["workers"]
    workload, _ = one(cluster_view([], {"TrainJob": [item("TrainJob", {})]}))
    assert workload.problem == "Kubeflow Trainer has not made its JobSet yet"


def test_pytorchjob():
    spec = {
        "runPolicy": {"suspend": True},
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": pod_template(1)},
            "Worker": {"replicas": 3, "template": pod_template(2)},
        },
    }
    prefix = "training.kubeflow.org/"
    labels = {f"{prefix}job-name": "run", f"{prefix}replica-type": "worker", f"{prefix}replica-index": "2"}
    workload, found = one(
        cluster_view([pod("a", labels, owner=("PyTorchJob", "w1"))], {"PyTorchJob": [item("PyTorchJob", spec)]})
    )
    assert [(role.name, role.count) for role in workload.roles] == [("master", 1), ("worker", 3)]
    assert [(each.role, each.index) for each in found] == [("worker", 2)]
    assert workload.suspended
    assert BY_KIND["PyTorchJob"].suspend(False) == {"spec": {"runPolicy": {"suspend": False}}}


@pytest.mark.parametrize(
    ("kind", "condition", "outcome"),
    [
        *(("Job", "Complete", "complete"), ("Job", "Failed", "failed"), ("JobSet", "Completed", "complete")),
        *(("JobSet", "Failed", "failed"), ("TrainJob", "Complete", "complete"), ("TrainJob", "Failed", "failed")),
        *(("PyTorchJob", "Succeeded", "complete"), ("PyTorchJob", "Failed", "failed"), ("Job", "Suspended", "")),
    ],
)
def test_how_each_kind_ends(kind, condition, outcome):
    status = {"conditions": [{"type": condition, "status": "True"}, {"type": "FailureTarget", "status": "True"}]}
    assert one(cluster_view([], {kind: [item(kind, {"template": pod_template()}, status)]}))[0].outcome == outcome
    status = {"conditions": [{"type": condition, "status": "False"}]}
    assert one(cluster_view([], {kind: [item(kind, {"template": pod_template()}, status)]}))[0].outcome == ""


def container(policy=None, **requests):
    return {"resources": {"requests": requests}, **({"restartPolicy": policy} if policy else {})}


def test_requests_are_counted_as_the_scheduler_does():
    spec = {
        "containers": [container(cpu="500m", memory="1Gi"), {"resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "1.5"}}}],
        "initContainers": [container("Always", cpu="250m"), container(cpu="4", memory="128M")],
        "overhead": {"memory": "1Mi"},
    }
    assert pod_resources(spec) == PodResources(2, 4250, 2**30 + 2**20)


def test_mig_devices_are_a_kind_of_their_own():
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/mig-3g.40gb": "2"}}}]}
    assert pod_resources(spec).mig == ("3g.40gb", 2)
    spec["containers"].append({"resources": {"limits": {"nvidia.com/gpu": 1}}})
    with pytest.raises(BadPodSpec, match="either whole GPUs or MIG devices"):
        pod_resources(spec)


def test_what_the_pod_itself_requests_stands_for_its_containers():
    spec = {"containers": [container(cpu="500m", memory="1Gi", **{"nvidia.com/gpu": 2})]}
    assert pod_resources(spec | {"resources": {"requests": {"cpu": "2"}}}) == PodResources(2, 2000, 2**30)
    assert pod_resources(spec | {"resources": {"limits": {"cpu": "4", "memory": "8Gi"}}}) == PodResources(2, 500, 2**30)
    assert pod_resources({"containers": [{}], "resources": {"limits": {"memory": "8Gi"}}}) == PodResources(0, 0, 2**33)


def test_gpus_of_sidecars_add_up_and_those_of_init_containers_are_used_again():
    gpus = {"nvidia.com/gpu": 1}
    spec = {"containers": [container(**gpus)], "initContainers": [container("Always", **gpus), container(**gpus)]}
    assert pod_resources(spec).gpus == 2


def test_small_quantities_are_rounded_up_together():
    spec = {"containers": [container(cpu="400u"), container(cpu="600000n")]}
    assert pod_resources(spec).cpu_milli == 1


@pytest.mark.parametrize("text", ["", "two", "1.2.3", "5Q", None])
def test_what_is_no_quantity(text):
    with pytest.raises(BadPodSpec, match="is not a quantity"):
        pod_resources({"containers": [container(cpu=text)]})
