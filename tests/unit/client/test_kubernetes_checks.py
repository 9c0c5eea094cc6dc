"""`bailiff doctor --kubeconfig`: admission policies, the bridge's Lease, Jobs that pay for preemptions with retries."""

import pytest
from tests.kits.bridge_objects import job_object, plain_pod

from bailiff.doctor.kubernetes_checks import (
    FOREIGN_GPUS,
    POLICIES,
    bridge_check,
    ignores_disruptions,
    jobs_checks,
    kinds_checks,
    policies_check,
)
from bailiff_kubernetes import NotFound
from bailiff_kubernetes.client import Listing

IGNORE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


class Cluster:
    """An API server that lists these objects."""

    def __init__(self, **items):
        self.items = items

    async def list(self, resource, labels=""):
        return Listing(list(self.items.get(resource.kind, ())), "1")


async def test_missing_policies_are_named():
    found = await policies_check(Cluster(MutatingAdmissionPolicyBinding=[{"metadata": {"name": "bailiff-gate"}}]))
    assert found["status"] == "wrong"
    assert "bailiff-submitted-by, bailiff-job-pods, bailiff-identity, bailiff-placement" in found["found"]
    items = {resource.kind: [{"metadata": {"name": name}} for name in wanted] for resource, wanted in POLICIES.items()}
    found = await policies_check(Cluster(**items))
    assert (found["status"], found["advice"]) == ("warn", "kubectl apply -f deploy/kubernetes/foreign-gpus.yaml")
    items["ValidatingAdmissionPolicyBinding"].append({"metadata": {"name": FOREIGN_GPUS}})
    assert (await policies_check(Cluster(**items)))["status"] == "ok"


async def test_a_bridge_holds_the_lease():
    lease = {"metadata": {"name": "bailiff-kubernetes-bridge"}, "spec": {"holderIdentity": "bridge-0"}}
    assert (await bridge_check(Cluster(Lease=[lease])))["found"] == "bridge-0 leads"
    assert (await bridge_check(Cluster(Lease=[lease | {"spec": {"holderIdentity": ""}}])))["status"] == "warn"


async def test_jobs_whose_preemptions_count_as_failures_are_named():
    ended = job_object("old")
    ended["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    (found,) = await jobs_checks(Cluster(Job=[job_object("good", podFailurePolicy=IGNORE), ended]))
    assert (found["status"], found["found"]) == ("ok", "2 Jobs in Bailiff's pools")
    (found,) = await jobs_checks(Cluster(Job=[job_object("good", podFailurePolicy=IGNORE), job_object("bad")]))
    assert (found["status"], found["found"]) == ("warn", "a preemption counts as a failure of team-a/bad")
    assert "DisruptionTarget" in found["advice"]


def workload(name, spec, conditions=(), **status):
    metadata = {"name": name, "namespace": "team-a", "labels": {"bailiff.io/pool": "a"}}
    conditions = [{"type": kind, "status": "True"} for kind in conditions]
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions, **status}}


def jobset(name, *policies):
    return workload(name, {"replicatedJobs": [{"template": job_object("x", podFailurePolicy=policy)} for policy in policies]})


async def test_workloads_of_other_kinds_whose_preemptions_count_as_failures_are_named():
    torch = {"pytorchReplicaSpecs": {"Master": {"restartPolicy": "OnFailure"}, "Worker": {"restartPolicy": "Never"}}}
    cluster = Cluster(
        JobSet=[jobset("good", IGNORE, IGNORE), jobset("bad", IGNORE, {})],
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
        for kind, name in (("JobSet", "bad"), ("PyTorchJob", "torch"), ("RayJob", "once"))
    ]
    advice = ("podFailurePolicy", "OnFailure", "backoffLimit")
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


@pytest.mark.parametrize(
    "rule",
    [
        {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]},
        {"action": "Ignore", "onPodConditions": [{"type": "ConfigIssue"}]},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}},
    ],
)
def test_rules_that_do_not_help(rule):
    assert not ignores_disruptions(job_object("a", podFailurePolicy={"rules": [rule]}))
    assert ignores_disruptions(job_object("a", podFailurePolicy={"rules": [rule, *IGNORE["rules"]]}))
