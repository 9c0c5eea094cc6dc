"""A gang over two real kubelets: placed whole, preempted whole for a job that needs one of them, and back."""

from pathlib import Path

import pytest
from tests.kubernetes.bridge_system import Users, all_running, attempts_of, is_gated
from tests.kubernetes.kubelet_jobs import URGENT, runs, using

from bailiff_core.records.facts import TaskReleased

pytestmark = [pytest.mark.kubernetes, pytest.mark.long, pytest.mark.timeout(900)]


async def test_a_gang_over_two_kubelets_is_preempted_whole_and_comes_back(gang_users: Users, tmp_path: Path) -> None:
    users, uses = gang_users, tmp_path / "uses"
    users.apply(using(users, "gang", 8, uses, pods=2))
    gang = await runs(users, "gang", uses, pods=2)
    nodes = {node.name for node in users.cluster.real_nodes}
    assert {pod["spec"]["nodeName"] for pod in users.pods("job-name=gang")} == nodes

    users.apply(using(users, "serve", 8, uses, **URGENT))
    serve = await runs(users, "serve", uses)
    waiting = await users.until_pods("job-name=gang", "the gang is gated", lambda pods: sum(map(is_gated, pods)) == 2)
    assert not any(pod["status"].get("phase") == "Running" for pod in waiting), "neither runs without the other"
    released = [(fact.job, fact.task) for fact in users.watch.facts(TaskReleased) if fact.job in (gang.id, serve.id)]
    assert sorted(released) == [(gang.id, 0), (gang.id, 1)]

    users.kubectl("delete", "job", "serve", "--wait=false")
    await users.until_phase("serve", "cancelled")
    again = await runs(users, "gang", uses, pods=2)
    assert again.id == gang.id
    pods = [pod for pod in users.pods("job-name=gang") if all_running(1)([pod])]
    assert attempts_of(pods) == {again.attempt}
    assert users.cluster.get("job", "gang", "-n", users.namespace)["status"].get("failed", 0) == 0
    await users.watch.verify()
