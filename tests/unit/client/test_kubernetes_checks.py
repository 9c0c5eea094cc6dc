"""`bailiff doctor --kubeconfig`: admission policies, the bridge's Lease, workloads that pay for preemptions with retries."""

from tests.kits.bridge_objects import job_object, plain_pod

from bailiff.doctor.kubernetes_checks import FOREIGN_GPUS, POLICIES, bridge_check, jobs_checks, kinds_checks, policies_check
from bailiff_kubernetes import NotFound
from bailiff_kubernetes.client import Listing


class Cluster:
    """An API server that lists these objects."""

    def __init__(self, **items):
        self.items = items

    async def list(self, resource, labels=""):
        return Listing(list(self.items.get(resource.kind, ())), "1")


async def test_missing_policies_are_named():
    found = await policies_check(Cluster(MutatingAdmissionPolicyBinding=[{"metadata": {"name": "bailiff-gate"}}]))
    assert found["status"] == "wrong"
    assert (
        "bailiff-submitted-by, bailiff-templates, bailiff-cron-jobs, bailiff-identity, bailiff-placement, bailiff-kinds"
        in found["found"]
    )
    items = {resource.kind: [{"metadata": {"name": name}} for name in wanted] for resource, wanted in POLICIES.items()}
    found = await policies_check(Cluster(**items))
    assert (found["status"], found["advice"]) == ("warn", "kubectl apply -f deploy/kubernetes/foreign-gpus.yaml")
    items["ValidatingAdmissionPolicyBinding"].append({"metadata": {"name": FOREIGN_GPUS}})
    assert (await policies_check(Cluster(**items)))["status"] == "ok"


async def test_a_bridge_holds_the_lease():
    lease = {"metadata": {"name": "bailiff-kubernetes-bridge"}, "spec": {"holderIdentity": "bridge-0"}}
    assert (await bridge_check(Cluster(Lease=[lease])))["found"] == "bridge-0 leads"
    assert (await bridge_check(Cluster(Lease=[lease | {"spec": {"holderIdentity": ""}}])))["status"] == "warn"


async def test_no_preemption_counts_as_the_failure_of_a_job():
    (found,) = await jobs_checks(Cluster(Job=[job_object("one"), job_object("two", backoffLimit=0)]))
    assert (found["status"], found["found"]) == ("ok", "2 Jobs in Bailiff's pools")


def workload(name, spec, conditions=(), **status):
    metadata = {"name": name, "namespace": "team-a", "labels": {"bailiff.io/pool": "a"}}
    conditions = [{"type": kind, "status": "True"} for kind in conditions]
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions, **status}}


async def test_workloads_of_other_kinds_whose_preemptions_count_as_failures_are_named():
    torch = {"pytorchReplicaSpecs": {"Master": {"restartPolicy": "OnFailure"}, "Worker": {"restartPolicy": "Never"}}}
    cluster = Cluster(
        PyTorchJob=[workload("torch", torch), workload("over", torch, ["Succeeded"])],
        RayJob=[
            workload("once", {}),
            workload("retried", {"backoffLimit": 3}),
            workload("over", {}, jobDeploymentStatus="Failed"),
        ],
    )
    found = await kinds_checks(cluster)
    assert [each["found"] for each in found] == [
        f"a preemption counts as a failure of the {kind} team-a/{name}"
        for kind, name in (("PyTorchJob", "torch"), ("RayJob", "once"))
    ]
    advice = ("OnFailure", "backoffLimit")
    assert all(word in each["advice"] for word, each in zip(advice, found, strict=True))


async def test_kinds_that_the_cluster_does_not_have_are_no_finding():
    class Bare:
        async def list(self, resource, labels=""):
            raise NotFound(f"no {resource.kind}", 404)

    assert await kinds_checks(Bare()) == []


async def test_pods_without_a_gate_are_named():
    pod = plain_pod("loose")
    pod["spec"]["schedulingGates"] = []
    _, found = await jobs_checks(Cluster(Pod=[pod, plain_pod("gated")]))
    assert found["found"] == "outside of Bailiff, in spite of its label: team-a/loose"
