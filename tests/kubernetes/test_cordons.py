"""The bridge on a real API server with its own rights: it cordons and uncordons nodes, and changes nothing else of them."""

import asyncio
import time

import pytest
from tests.kits.kubernetes_cluster import Cluster
from tests.kits.system import PATIENCE_S
from tests.kubernetes.bridge_system import MANIFESTS

from bailiff_kubernetes import Api, Conflict
from bailiff_kubernetes.names import CORDONED_BY
from bailiff_kubernetes.resources import NODES, Object, annotations_of
from bailiff_kubernetes_bridge.actions import CordonNode
from bailiff_kubernetes_bridge.carry_out import CarryOut
from bailiff_kubernetes_bridge.cluster import ClusterWatch
from bailiff_node_agent.kubernetes_node import facts_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

BRIDGE = ("--as", "system:serviceaccount:bailiff:bailiff-kubernetes-bridge")
MARK = "drain/pool-a/97"


async def test_a_drained_node_is_cordoned_with_the_drains_mark_and_uncordoned_after_it(
    kubernetes: Cluster, kubernetes_api: Api
) -> None:
    name = kubernetes.fake_nodes[0]
    carry_out = CarryOut(kubernetes_api, ClusterWatch(kubernetes_api, lambda: None), "test")
    before = await node(kubernetes_api, name)
    try:
        await patiently(carry_out, kubernetes_api, name, MARK)
        cordoned = await node(kubernetes_api, name)
        assert cordoned["spec"]["unschedulable"] is True
        assert annotations_of(cordoned)[CORDONED_BY] == MARK
        assert facts_of(cordoned, []).cordon == "", "its agent does not report it as a cordon by somebody else"
        with pytest.raises(Conflict):
            await carry_out(CordonNode(name, before["metadata"]["resourceVersion"], ""))
    finally:
        await patiently(carry_out, kubernetes_api, name, "")
    after = await node(kubernetes_api, name)
    assert "unschedulable" not in after["spec"]
    assert CORDONED_BY not in annotations_of(after)


def test_the_bridge_may_change_neither_labels_nor_taints_of_a_node(kubernetes: Cluster) -> None:
    kubernetes.kubectl("apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"bailiff"}}')
    kubernetes.kubectl("apply", "-f", str(MANIFESTS / "bridge-rbac.yaml"))
    patch = (*BRIDGE, "patch", "node", kubernetes.fake_nodes[0], "--dry-run=server", "-p")
    refused(kubernetes, *patch, '{"metadata":{"labels":{"a":"b"}}}')
    refused(kubernetes, *patch, '{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}')
    kubernetes.kubectl(*patch, '{"spec":{"unschedulable":true}}')
    kubernetes.kubectl(
        "label", "node", kubernetes.fake_nodes[0], "a=b", "--dry-run=server"
    )  # the policy is about the bridge alone


def refused(kubernetes: Cluster, *command: str) -> None:
    """The server refuses it, once it has taken up the policy."""
    deadline, answer = time.monotonic() + PATIENCE_S, ""
    while "change neither labels nor taints" not in answer:
        assert time.monotonic() < deadline, f"the server allows it: {answer}"
        try:
            answer = kubernetes.kubectl(*command)
        except AssertionError as error:
            answer = str(error)


async def node(api: Api, name: str) -> Object:
    return await api.get(NODES, name)


async def patiently(carry_out: CarryOut, api: Api, name: str, mark: str) -> None:
    """Again where the node has changed meanwhile, as the bridge's next round does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await carry_out(CordonNode(name, (await node(api, name))["metadata"]["resourceVersion"], mark))
            except Conflict:
                continue
