"""A drain of Bailiff cordons the node, a cordon of Kubernetes drains it; each end ends the other, and nothing goes in circles."""

import itertools
from typing import Any

import pytest
from tests.kits.bridge import World

from bailiff_admission.request_handlers.cordons import facts_of_cordon
from bailiff_bus.messages.reports import NodeInventory
from bailiff_core.admission import Context, admit
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.state import Node
from bailiff_core.permissions import Requester
from bailiff_core.records.facts import RequestId
from bailiff_core.records.node_requests import DrainNode, UndrainNode
from bailiff_kubernetes.names import CORDONED_BY
from bailiff_kubernetes_bridge.actions import CordonNode
from bailiff_node_agent.kubernetes_node import facts_of

NUMBERS = itertools.count()


class Cluster(World):
    """With operators, people with kubectl, and the nodes' agents."""

    def node(self, name: str = "n1") -> Node:
        return self.story.state.nodes[self.story.state.node_numbers[name]]

    def is_cordoned(self, name: str = "n1") -> bool:
        return bool(self.nodes[name]["spec"].get("unschedulable"))

    def ask(self, body: DrainNode | UndrainNode) -> Rejected | None:
        """An operator's request."""
        request = RequestId(source="test", id=str(next(NUMBERS)), digest="0" * 64)
        found = admit(Context(self.story.state, Requester("root-key", "signed"), request), body)
        if isinstance(found, Rejected):
            return found
        self.story.cycle(found)
        return None

    def kubectl(self, cordon: bool, name: str = "n1") -> None:
        """`kubectl cordon` or `uncordon`."""
        self.nodes[name]["spec"]["unschedulable"] = cordon
        self._touch(self.nodes[name])

    def agents(self) -> None:
        """The nodes' agents announce what they see of their nodes, and admission records it."""
        for name, item in self.nodes.items():
            report = NodeInventory(
                node=name,
                incarnation="i",
                number=next(NUMBERS),
                machine_id="m",
                boot_id="b",
                release="r",
                cpu_milli=1,
                memory_bytes=1,
                cordon=facts_of(item, []).cordon,
            )
            if facts := facts_of_cordon(self.node(name), report):
                self.story.cycle(*facts)

    def cordons(self) -> list[Any]:
        return [action for action in self.due() if isinstance(action, CordonNode)]

    def rest(self) -> None:
        """Agents and bridge act until neither has anything to do."""
        for _ in range(3):
            self.agents()
            self.settle()
        assert not self.cordons()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_drain_cordons_the_node_and_its_end_uncordons_it(cluster: Cluster) -> None:
    cluster.ask(DrainNode(node="n1", reason="new firmware"))
    cluster.rest()
    assert cluster.is_cordoned()
    assert not cluster.is_cordoned("n2")
    drain = cluster.node().drain
    assert drain is not None
    assert drain.reason == "new firmware", "the agent does not report the bridge's own cordon as another drain"
    cluster.ask(UndrainNode(node="n1"))
    cluster.rest()
    assert not cluster.is_cordoned()
    assert cluster.node().drain is None


def test_a_cordon_is_a_drain_and_ends_with_kubectl_uncordon_only(cluster: Cluster) -> None:
    cluster.kubectl(True)
    cluster.rest()
    drain = cluster.node().drain
    assert drain is not None
    assert drain.reason.startswith("cordoned in Kubernetes: ")
    refused = cluster.ask(UndrainNode(node="n1"))
    assert refused is not None
    assert refused.code == "cordoned"
    assert "kubectl uncordon n1" in refused.reason
    cluster.kubectl(False)
    cluster.rest()
    assert cluster.node().drain is None


def test_who_uncordons_a_drained_node_keeps_it_so_and_the_drain_stands(cluster: Cluster) -> None:
    cluster.ask(DrainNode(node="n1"))
    cluster.rest()
    cluster.kubectl(False)
    cluster.rest()
    assert not cluster.is_cordoned()
    assert cluster.node().drain is not None
    cluster.ask(UndrainNode(node="n1"))
    cluster.rest()
    assert CORDONED_BY not in cluster.nodes["n1"]["metadata"]["annotations"]
    cluster.ask(DrainNode(node="n1"))
    cluster.rest()
    assert cluster.is_cordoned(), "another drain cordons again"


def test_a_node_that_somebody_had_cordoned_before_the_drain_stays_cordoned_after_it(cluster: Cluster) -> None:
    cluster.kubectl(True)
    cluster.ask(DrainNode(node="n1", reason="new firmware"))
    cluster.rest()
    cluster.ask(UndrainNode(node="n1"))
    cluster.rest()
    drain = cluster.node().drain
    assert cluster.is_cordoned()
    assert drain is not None
    assert drain.reason.startswith("cordoned in Kubernetes: ")
