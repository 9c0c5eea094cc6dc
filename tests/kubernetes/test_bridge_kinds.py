"""Kinds that are installed while the bridge runs, on a real API server with its admission policies.

The definitions are only as strict as the bridge needs, and the test plays the kinds' controllers: it makes the pods.
"""

import pytest
import yaml
from tests.kubernetes.bridge_system import ARGO, POOL, USER, all_running, attempts_of, is_gated

from bailiff_kubernetes import names
from bailiff_kubernetes.resources import EXPERIMENTS, TRIALS, WORKFLOWS
from bailiff_kubernetes_bridge.workloads.adapters import ADAPTERS

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]
JOBSET = "jobset.sigs.k8s.io/"
SAMPLE = {"name": "sample", "labels": {names.POOL: POOL}}


def definition(resource):
    """A CustomResourceDefinition that keeps every field."""
    group, version = resource.api_version.split("/")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}]
    kinds = {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # group names of Kubernetes' own projects need it
        "metadata": {
            "name": f"{resource.plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {"group": group, "names": kinds, "scope": "Namespaced", "versions": versions},
    }


@pytest.fixture(scope="module")
def kinds(kubernetes):
    """The cluster has the kinds, which takes a moment: every admission policy looks them up for itself."""
    resources = [
        *(adapter.resource for adapter in ADAPTERS if "." in adapter.resource.api_version),
        WORKFLOWS,
        TRIALS,
        EXPERIMENTS,
    ]
    kubernetes.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(map(definition, resources)))
    return resources


@pytest.fixture
async def users(kinds, users, system):
    users.may_use("jobsets", "pytorchjobs")

    async def created():
        samples = [{"apiVersion": each.api_version, "kind": each.kind, "metadata": SAMPLE, "spec": {}} for each in kinds]
        try:
            users.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(samples))
        except AssertionError as refused:
            print(refused)
            return False
        return True

    await users.watch.until_true("objects of these kinds can be created", created)
    return users


def template(gpus):
    container = {"name": "main", "image": "localhost/busybox:1", "resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": "1"}}}
    return {"metadata": {"labels": {names.POOL: POOL}}, "spec": {"containers": [container]}}


def pod(name, gpus, labels, **metadata):
    made = template(gpus)
    made["metadata"] |= {"name": name, "labels": {names.POOL: POOL, **labels}, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", **made}


async def test_a_jobset_is_preempted_and_comes_back(users, system):
    jobs = [
        {"name": "driver", "replicas": 1, "template": {"spec": {"parallelism": 1, "completions": 1, "template": template(1)}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 1, "completions": 1, "template": template(8)}}},
    ]
    metadata = {"name": "run", "labels": {names.POOL: POOL}, "annotations": {names.SUBMITTED_BY: "root"}}
    users.apply(
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": jobs}}
    )
    await users.until_status("jobset", "run", "Incomplete: not submitted: its controller has made 0 of 3 pods")

    def member(role, number, gpus):
        labels = {f"{JOBSET}jobset-name": "run", f"{JOBSET}replicatedjob-name": role, f"{JOBSET}job-index": str(number)}
        return pod(f"run-{role}-{number}", gpus, labels, annotations={"batch.kubernetes.io/job-completion-index": "0"})

    members = [member("driver", 0, 1), member("workers", 0, 8), member("workers", 1, 8)]
    selector = f"{JOBSET}jobset-name=run"
    users.apply(*members)
    job = await users.until_phase("run", "starting", "running")
    assert job.user == f"kubernetes/{USER}"
    assert [(group.count, group.gpu_milli) for group in job.demand.tasks] == [(1, 1000), (2, 8000)]
    found = await users.until_pods(selector, "the set runs", all_running(3))
    tasks = {each["metadata"]["name"]: each["metadata"]["annotations"][names.TASK] for each in found}
    assert tasks == {"run-driver-0": f"{job.id}-1-0", "run-workers-0": f"{job.id}-1-1", "run-workers-1": f"{job.id}-1-2"}

    users.apply(users.job("serve", pods=3, gpus=8, **{names.PRIORITY_CLASS: "inference"}))
    await users.until_pods(selector, "its pods are gone", lambda pods: not pods)
    users.apply(*members)
    await users.until_pods("job-name=serve", "the urgent job runs", all_running(3))
    assert all(map(is_gated, users.pods(selector)))
    users.kubectl("delete", "job", "serve", "--wait=false")
    again = await users.until_pods(selector, "the set runs again", all_running(3))
    (attempt,) = attempts_of(again)
    assert attempt > 1
    assert users.of("run").id == job.id

    system.command(POOL, "cancel", job.id, "--key", str(system.key_file), "--actor", "kubernetes")
    await users.until_phase("run", "cancelled")

    async def suspended():
        return system.cluster.get("jobset", "run", "-n", users.namespace)["spec"].get("suspend") is True

    await users.watch.until_true("the JobSet is suspended", suspended)
    await users.until_status("jobset", "run", f"Cancelled: {job.id} has been cancelled by kubernetes")


async def test_a_pytorchjob(users, system):
    specs = {"Master": {"replicas": 1, "template": template(8)}, "Worker": {"replicas": 1, "template": template(8)}}
    body = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": specs}
    metadata = {"name": "torch", "labels": {names.POOL: POOL}}
    users.apply({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": body})
    uid = system.cluster.get("pytorchjob", "torch", "-n", users.namespace)["metadata"]["uid"]
    users.kubectl("patch", "pytorchjob", "torch", "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":false}}}')
    prefix = "training.kubeflow.org/"
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "torch", "uid": uid, "controller": True}
    for role in ("master", "worker"):
        labels = {f"{prefix}job-name": "torch", f"{prefix}replica-type": role, f"{prefix}replica-index": "0"}
        users.apply(pod(f"torch-{role}-0", 8, labels, ownerReferences=[owner]))
    await users.until_phase("torch", "starting", "running")
    found = await users.until_pods(f"{prefix}job-name=torch", "both run", all_running(2))
    assert not any(map(is_gated, found))
    users.kubectl("delete", "pytorchjob", "torch", "--wait=false")
    await users.until_phase("torch", "cancelled")


async def test_the_user_of_a_workflow_is_the_requester_of_its_pods(users):
    labels, kind = {names.POOL: POOL}, {"apiVersion": WORKFLOWS.api_version, "kind": WORKFLOWS.kind}
    forged = {names.SUBMITTED_BY: "root"}
    users.apply({**kind, "metadata": {"name": "flow", "labels": labels, "annotations": forged}, "spec": {}})
    users.cluster.kubectl("create", "rolebinding", "argo", "--clusterrole=edit", f"--user={ARGO}", "-n", users.namespace)
    found = users.cluster.get("workflow", "flow", "-n", users.namespace)["metadata"]
    owner = {**kind, "name": "flow", "uid": found["uid"], "controller": True}
    step = yaml.safe_dump(pod("step", 1, {}, annotations=forged, ownerReferences=[owner]))
    users.cluster.kubectl("create", "--as", ARGO, "-n", users.namespace, "-f", "-", stdin=step)
    job = await users.until_phase("step", "starting", "running")
    assert job.user == f"kubernetes/{USER}"
    mine = '{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}]}}'
    for kind_of in ("pod/step", "workflow/flow"):
        refused = users.refused("patch", kind_of, "--type=merge", "-p", mine)
        assert "what controls it cannot be changed" in refused, refused
    users.kubectl("delete", "workflow", "flow", "--wait=false")


async def test_the_user_of_an_experiment_is_the_requester_of_its_trials(users):
    """Katib's controller makes the Trial of an Experiment, and its Job."""
    users.cluster.kubectl("create", "rolebinding", "argo", "--role=all", f"--user={ARGO}", "-n", users.namespace)

    def created(kind, name, creator, owner=None):
        owners = [{"name": owner["name"], "uid": owner["uid"], "controller": True, **owner["kind"]}] if owner else []
        metadata = {"name": name, "labels": {names.POOL: POOL}, "ownerReferences": owners}
        words = {"apiVersion": kind.api_version, "kind": kind.kind}
        item = yaml.safe_dump({**words, "metadata": metadata, "spec": {}})
        users.cluster.kubectl("create", "--as", creator, "-n", users.namespace, "-f", "-", stdin=item)
        found = users.cluster.get(kind.plural, name, "-n", users.namespace)["metadata"]
        assert found["annotations"][names.SUBMITTED_BY] == creator
        return {"name": name, "uid": found["uid"], "kind": words}

    trial = created(TRIALS, "sweep-1", ARGO, created(EXPERIMENTS, "sweep", USER))
    job = users.job("sweep-1", pods=1, gpus=1)
    owners = [{"name": trial["name"], "uid": trial["uid"], "controller": True, **trial["kind"]}]
    job = {**job, "metadata": {**job["metadata"], "ownerReferences": owners}}
    users.cluster.kubectl("create", "--as", ARGO, "-n", users.namespace, "-f", "-", stdin=yaml.safe_dump(job))
    assert (await users.until_phase("sweep-1", "starting", "running")).user == f"kubernetes/{USER}"
    users.kubectl("delete", "experiment,trial", "--all", "--wait=false")


@pytest.mark.long
async def test_a_kind_that_is_uninstalled_stops_nothing(kinds, users, system):
    metadata = {"name": "ray", "labels": {names.POOL: POOL}}
    users.apply({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": {"entrypoint": "true"}})

    async def is_followed():
        found = system.cluster.get("rayjob", "ray", "-n", users.namespace)["metadata"]["annotations"]
        return found.get("bailiff.io/status", "").startswith("NotSubmitted: ")

    await users.watch.until_true("the bridge follows RayJobs", is_followed)
    pid = system.stack.processes.pid("kubernetes-bridge")
    system.cluster.kubectl("delete", "customresourcedefinition", "rayjobs.ray.io")
    users.apply(users.job("train", pods=1, gpus=8))
    await users.until_pods("job-name=train", "train runs", all_running(1))
    assert system.stack.processes.pid("kubernetes-bridge") == pid
    again = next(definition(each) for each in kinds if each.kind == "RayJob")
    system.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(again))
