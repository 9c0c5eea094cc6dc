"""The story of Koordinator's guide, with pods in no pool that wait in kube-scheduler for the very GPUs: no victim leaves in vain.

Every node is full of one preemptible pod; a gang of as many pods is more urgent. kube-scheduler is the real one.
"""

import json
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from tests.kits.kubernetes_cluster import IMAGE
from tests.kubernetes.bridge_system import AGENT, BRIDGE, GANG_POOL, Users, all_running, clear_gpus, is_gated

from bailiff_core.model.state import ENDED
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_kubernetes import names
from bailiff_kubernetes.resources import condition_of
from bailiff_node_agent.runtime.kubernetes.nominations import WAITS

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


async def test_pods_that_wait_in_kube_scheduler_do_not_get_what_victims_release(users: Users) -> None:
    await story(users, "fake", [AGENT], len(users.cluster.fake_nodes), 0)


async def test_nor_do_they_where_the_bridge_learns_of_the_preemption_after_term(users: Users) -> None:
    await story(users, "fake", [AGENT], len(users.cluster.fake_nodes), 1, late_bridge=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_nor_do_they_on_real_kubelets_twenty_times(gang_users: Users) -> None:
    agents = [f"node-agent-{GANG_POOL}-{number}" for number in (1, 2)]
    for repetition in range(20):
        await story(gang_users, "real", agents, 2, repetition, late_bridge=repetition % 2 == 1)


async def story(users: Users, nodes: str, agents: Sequence[str], count: int, number: int, *, late_bridge: bool = False) -> None:
    """nodes: the label of the pool's nodes; count: how many there are. number: of the repetition, in names.

    late_bridge: it is stopped from before the decision until every victim is to end. agents: the nodes' agents.
    """
    system = users.watch.system
    low, high = f"lp-{number}", f"hp-{number}"
    await users.watch.until(
        "all GPUs are clear", lambda state: [clear_gpus(node) for node in state.nodes.values()] == [8] * count
    )
    for at in range(count):
        users.apply(pod(users, f"{low}-{at}", 8, app=low))
    await users.until_pods(f"app={low}", "every node is full", all_running(count))
    for at in range(count):
        await users.until_phase(f"{low}-{at}", "running")
    users.cluster.kubectl("apply", "-n", users.namespace, "-f", "-", stdin=json.dumps(foreign(nodes, count)))
    try:
        await users.until_pods("app=foreign", "foreign pods wait in kube-scheduler", lambda pods: waiting(pods) == count)
        group = {"bailiff.io/pod-group": high, names.GANG_SIZE: str(count), names.PRIORITY_CLASS: "inference"}
        if late_bridge:
            system.signal("victim-selection", signal.SIGSTOP)
        for at in range(count):
            users.apply(pod(users, f"{high}-{at}", 6, app=high, **group))
        if late_bridge:
            await users.until_phase(high, "pending")
            system.signal(BRIDGE, signal.SIGSTOP)
            system.signal("victim-selection", signal.SIGCONT)
            preemptor = users.of(high).id

            async def victims_wait_or_are_gone() -> bool:
                return waits(users, agents, preemptor) == count or not users.pods(f"app={low}")

            await users.watch.until_true("every victim waits with TERM, or is gone", victims_wait_or_are_gone)
            system.signal(BRIDGE, signal.SIGCONT)
        await users.until_pods(f"app={high}", "the gang runs", all_running(count))
        gang = await users.until_phase(high, "running")
        assert gang.attempt == 1, "its first attempt got the GPUs"
        decided = [fact for fact in users.watch.facts(PreemptionDecided) if fact.preemptor.job == gang.id]
        evicted = [victim.job for fact in decided for victim in fact.victims]
        assert sorted(evicted) == sorted(users.of(f"{low}-{at}").id for at in range(count)), "each was evicted once"
        assert waiting(users.pods("app=foreign")) == count, "nobody else got their GPUs"
    finally:
        for service in ("victim-selection", BRIDGE):
            system.signal(service, signal.SIGCONT)
        users.cluster.kubectl("delete", "deployment", "foreign", "-n", users.namespace, "--wait=true", "--cascade=foreground")
    users.delete_everything()
    await users.watch.until("all have ended", lambda state: all(job.phase in ENDED for job in state.jobs.values()))
    await users.until_pods(f"app in ({low},{high})", "their pods are gone", lambda pods: not pods)


def waits(users: Users, agents: Sequence[str], preemptor: str) -> int:
    """How many victims wait with TERM until this preemptor's pods are nominated."""
    lines = (line for agent in agents for line in users.watch.system.log_of(agent).splitlines())
    return sum(WAITS in line and f'"{preemptor}"' in line for line in lines)


def pod(users: Users, name: str, gpus: int, **labels: str) -> dict[str, Any]:
    """A bare pod in the pool."""
    template = users.job(name, pods=1, gpus=gpus)["spec"]["template"]["spec"]
    metadata = {"name": name, "labels": {names.POOL: users.watch.pool, **labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template}


def foreign(nodes: str, count: int) -> dict[str, Any]:
    """A Deployment whose pods are in no pool, and would take all GPUs of each node."""
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "3000"], "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"containers": [container], "nodeSelector": {"offline-kubernetes/node": nodes}, "terminationGracePeriodSeconds": 1}
    labels = {"app": "foreign"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "foreign"},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def waiting(pods: list[dict[str, Any]]) -> int:
    """How many of them kube-scheduler has tried and could not bind."""
    found = [condition_of(pod, "PodScheduled") for pod in pods if not is_gated(pod)]
    return sum(each is not None and each["status"] == "False" for each in found)
