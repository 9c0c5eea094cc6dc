"""TERM and KILL of a pod whose disruption budget is respected: asked until it allows it, deleted when the grace is over."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bailiff_kubernetes import BudgetForbids, Forbidden
from bailiff_kubernetes.names import JOB, JOB_TRACKING, POOL
from bailiff_node_agent.runtime.kubernetes.nominations import NOMINATED_WITHIN_S
from bailiff_node_agent.runtime.kubernetes.stopping import KILL_GRACE_S, PodStop
from bailiff_node_agent.runtime.kubernetes.task_files import TaskFiles, TaskOrder
from bailiff_node_agent.runtime.kubernetes.unreached_node import NoProcesses
from bailiff_node_agent.runtime.port import TaskKey

KEY = TaskKey("train", 1, "0")
ORDER = TaskOrder(KEY, "team-a", "pod-1", own_pod=True, devices=(), ordered_by=7, is_only_task=True, uid="u1")
POD: dict[str, Any] = {
    "metadata": {"name": "pod-1", "namespace": "team-a", "uid": "u1"},
    "spec": {},
    "status": {"phase": "Running"},
}
MARKED = "PreemptionByScheduler: preempted by job serve: preemption"
FORBIDS = BudgetForbids("Cannot evict pod as it would violate the pod's disruption budget.", 429)


class Server:
    """An API server whose eviction API answers with these refusals first. nominated: whose pods are, to the pod's node."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals, self.calls, self.finalizers = [*refusals], list[str](), list[Any]()
        self.nominated = list[str]()

    async def list(self, _: object, *, labels: str, fields: str) -> Any:
        assert (labels, fields) == (POOL, "status.nominatedNodeName=n1")
        return SimpleNamespace(items=[{"metadata": {"annotations": {JOB: job}}} for job in self.nominated])

    async def evict(self, pod: dict[str, Any], grace_s: int) -> None:
        self.calls.append(f"evict {pod['metadata']['uid']} {grace_s}")
        if self.refusals:
            raise self.refusals.pop(0)

    async def delete(self, _: object, name: str, __: str, *, uid: str, grace_s: int) -> None:
        self.calls.append(f"delete {name} {uid} {grace_s}")

    async def patch_status(self, _: object, __: str, status: dict[str, Any], ___: str, uid: str, *, metadata: Any) -> None:
        [condition] = status["conditions"]
        self.calls.append(f"{condition.get('reason', 'gone')}: {condition.get('message', '')}")
        self.finalizers.append({name: value for name, value in metadata.items() if "finalizers" in name})


@pytest.fixture
def files(tmp_path: Path) -> TaskFiles:
    files = TaskFiles(tmp_path)
    files.write_order(ORDER)
    return files


def stop_of(files: TaskFiles, server: Server) -> PodStop:
    return PodStop(SimpleNamespace(node="n1", files=files, api=server, processes=NoProcesses()))  # type: ignore[arg-type]


def evicted(files: TaskFiles, grace_s: int, **payload: str) -> None:
    files.eviction.write(KEY, {"payload": {"reason": "preemption", "preemptor": "serve", **payload}})
    files.stop.write(KEY, grace_s)


async def test_a_budget_is_asked_until_it_allows_the_eviction(files: TaskFiles) -> None:
    server = Server(FORBIDS, FORBIDS)
    stop = stop_of(files, server)
    evicted(files, 30, disruption_budgets="respect")
    for asked in range(1, 3):
        await stop.carry_out(ORDER, POD, None)
        assert server.calls == [MARKED, "evict u1 30"] * asked
        assert stop.is_due(ORDER)
    await stop.carry_out(ORDER, POD, None)
    assert server.calls[4:] == [MARKED, "evict u1 30", MARKED], "the eviction API has replaced the condition by its own"
    assert not stop.is_due(ORDER)
    await stop.carry_out(ORDER, POD, None)
    assert len(server.calls) == 7, "what was carried out is not repeated"
    assert stop.budget_note(ORDER) == f"evicted when its disruption budget allowed it; before: {FORBIDS.message}"


@pytest.mark.parametrize(
    "refusal", [FORBIDS, Forbidden('pods "pod-1" is forbidden: cannot create resource "pods/eviction"', 403)]
)
async def test_the_end_of_the_grace_is_the_end_of_the_respect(files: TaskFiles, refusal: Exception) -> None:
    server = Server(refusal)
    evicted(files, 30, disruption_budgets="respect")
    await stop_of(files, server).carry_out(ORDER, POD, None)
    files.stop.write(KEY, KILL_GRACE_S)
    stop = stop_of(files, server)  # another agent
    await stop.carry_out(ORDER, POD, None)
    assert server.calls[-1] == "delete pod-1 u1 1"
    note = stop.budget_note(ORDER)
    assert note is not None
    assert note.startswith("deleted at the end of its grace although its disruption budget forbade it: ")


async def test_nobody_ends_before_the_preemptors_pods_are_nominated_to_the_node(files: TaskFiles) -> None:
    """Or kube-scheduler gives what it releases to any pod that waits. Nominations of others keep no room for it."""
    server = Server()
    stop = stop_of(files, server)
    evicted(files, 30, preemptors_pods="nominated")
    for nominated in ([], ["other"]):
        server.nominated = nominated
        await stop.carry_out(ORDER, POD, None)
        assert (server.calls[1:], stop.waits_for_room) == ([MARKED] * len(nominated), True)
    server.nominated = ["other", "serve"]
    await stop.carry_out(ORDER, POD, None)
    assert (server.calls[-1], stop.waits_for_room) == ("delete pod-1 u1 30", False)


async def test_the_end_of_the_grace_waits_for_no_nomination(files: TaskFiles) -> None:
    server = Server()
    stop = stop_of(files, server)
    evicted(files, 30, preemptors_pods="nominated")
    await stop.carry_out(ORDER, POD, None)
    files.stop.write(KEY, KILL_GRACE_S)
    await stop.carry_out(ORDER, POD, None)
    assert (server.calls[-1], stop.waits_for_room) == ("delete pod-1 u1 1", False)


async def test_a_nomination_is_waited_for_half_of_the_grace_at_most(files: TaskFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    for grace_s, waits_s in ((4, 2.0), (600, NOMINATED_WITHIN_S)):
        server = Server()
        stop = stop_of(files, server)
        evicted(files, grace_s, preemptors_pods="nominated")
        for passed, is_over in ((0.0, False), (waits_s - 0.1, False), (0.2, True)):
            now[0] += passed
            await stop.carry_out(ORDER, POD, None)
            assert any(call.startswith("delete") for call in server.calls) == is_over


async def test_without_respect_no_budget_is_asked(files: TaskFiles) -> None:
    server = Server(FORBIDS)
    evicted(files, 30)
    stop = stop_of(files, server)
    await stop.carry_out(ORDER, POD, None)
    assert server.calls == [MARKED, "delete pod-1 u1 30"]
    assert stop.budget_note(ORDER) is None


@pytest.mark.parametrize(("kind", "restored"), [("Job", {"finalizers": [JOB_TRACKING]}), ("ReplicaSet", {})])
async def test_a_job_counts_no_pod_that_is_evicted_and_those_whose_eviction_is_cancelled(
    files: TaskFiles, kind: str, restored: dict[str, Any]
) -> None:
    server = Server()
    stop = stop_of(files, server)
    owned = {**POD, "metadata": {**POD["metadata"], "ownerReferences": [{"kind": kind, "controller": True}]}}
    files.eviction.write(KEY, {"payload": {"reason": "preemption", "preemptor": "serve"}})
    await stop.mark(ORDER, owned)
    files.withdraw(KEY)
    await stop.carry_out(ORDER, owned, None)
    assert server.calls == [MARKED, "gone: "]
    assert server.finalizers == [{"$deleteFromPrimitiveList/finalizers": [JOB_TRACKING]}, restored]
