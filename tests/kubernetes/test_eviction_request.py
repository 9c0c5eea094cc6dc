"""Bailiff as a responder of Kubernetes' EvictionRequest (KEP-4563, alpha in 1.37), on a real API server with the feature gate.

Kubernetes 1.37 has the API and no controller that makes Evictions of EvictionRequests: the test plays it.
"""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.kubernetes.bridge_system import Users, all_running, attempts_of

from bailiff_core.records.facts import JobEvictionRequested
from bailiff_kubernetes import names
from bailiff_kubernetes.client import seconds_time

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

DRAINER, LAST = "acme.io/drainer", "imperative-eviction.k8s.io/evictor"


async def test_whoever_requests_the_eviction_of_a_pod_lets_its_job_save_first(users: Users) -> None:
    if "evictions" not in users.cluster.kubectl("api-resources", "--api-group=lifecycle.k8s.io"):
        pytest.skip("the cluster's API server has no lifecycle.k8s.io/v1alpha1")
    slow = {"offline-kubernetes/stops-after": "4"}
    users.apply(users.job("train", pods=2, gpus=4, annotations={names.GRACE: "30s"}, pod=slow))
    pods = await users.until_pods("job-name=train", "train runs", all_running(2))
    await users.until_phase("train", "running")
    pod = pods[0]
    (responder,) = pod["spec"]["evictionResponders"]
    assert responder["name"] == names.RESPONDER
    users.kubectl("apply", "-f", "-", stdin=json.dumps(request(pod)))
    become_active(users, pod, responder)

    async def answered() -> bool:
        status = users.cluster.get("evictions.lifecycle.k8s.io", pod["metadata"]["uid"], "-n", users.namespace)["status"]
        (answer,) = (each for each in status["responders"] if each["name"] == names.RESPONDER)
        left = all(each["metadata"]["uid"] != pod["metadata"]["uid"] for each in users.pods("job-name=train"))
        return (
            "completionTime" in answer or left
        )  # then there is nothing to complete: its controller sees that the target is gone

    await users.watch.until_true("the pod has ended, and the Eviction says so, or it is gone", answered)
    await users.watch.until("the request is on record", lambda _: bool(users.watch.facts(JobEvictionRequested)))
    (asked,) = users.watch.facts(JobEvictionRequested)
    assert (asked.job, asked.reason) == (users.of("train").id, f"EvictionRequest of {DRAINER}")
    await users.until_pods(
        "job-name=train", "train runs again", lambda found: all_running(2)(found) and attempts_of(found) == {2}
    )
    assert users.cluster.get("job", "train", "-n", users.namespace)["status"].get("failed", 0) == 0
    await users.watch.verify()


def request(pod: dict[str, Any]) -> dict[str, Any]:
    """As the user's drainer makes it."""
    target = {"pod": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}
    spec = {"target": target, "requester": DRAINER, "intent": "Eviction"}
    return {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "EvictionRequest", "metadata": {"name": "drain"}, "spec": spec}


def become_active(users: Users, pod: dict[str, Any], responder: dict[str, Any]) -> None:
    """What the controller does of it: one Eviction of the pod, whose first responder it calls active."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    spec = {"target": {"pod": {"name": name, "uid": uid}}}
    eviction = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "Eviction", "metadata": {"name": uid}, "spec": spec}
    status = {
        "observedGeneration": 1,
        "requesters": [{"name": DRAINER, "intent": "Eviction"}],
        "targetResponders": [{**responder, "state": "Active"}, {"name": LAST, "priority": 100, "state": "Inactive"}],
        "responders": [{"name": names.RESPONDER, "startTime": seconds_time(datetime.now(UTC))}, {"name": LAST}],
    }
    kubectl, where = users.cluster.kubectl, ("-n", users.namespace)
    kubectl("create", *where, "-f", "-", stdin=json.dumps(eviction))
    patch = json.dumps({"status": status})
    kubectl("patch", "evictions.lifecycle.k8s.io", uid, *where, "--subresource=status", "--type=merge", "-p", patch)
