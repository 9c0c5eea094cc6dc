"""A node that is cordoned in Kubernetes is drained by record; its end ends that drain, and no other."""

from tests.kits.log_builder import policy

from bailiff_admission.request_handlers.reports import facts_of_report
from bailiff_bus.messages.reports import NodeInventory
from bailiff_core.records.facts import NodeDrained, NodeUndrained, RequestId


def inventory(story, number, cordon):
    node = story.state.nodes[story.state.node_numbers["n1"]]
    return NodeInventory(
        node="n1",
        incarnation=node.incarnation,
        number=number,
        machine_id=node.machine_id,
        boot_id=node.boot_id,
        release="0.1.0",
        cpu_milli=1000,
        memory_bytes=1 << 30,
        cordon=cordon,
    )


def about_drains(facts):
    return [fact for fact in facts if isinstance(fact, NodeDrained | NodeUndrained)]


def test_a_cordon_is_a_drain_and_its_end_ends_it(story):
    [drained] = about_drains(facts_of_report(story.state, inventory(story, 7, "cordoned by kubectl-cordon")))
    assert (drained.node, drained.mode, drained.reason) == (
        "n1",
        "graceful",
        "cordoned in Kubernetes: cordoned by kubectl-cordon",
    )
    story.cycle(drained)
    assert about_drains(facts_of_report(story.state, inventory(story, 8, "cordoned by kubectl-cordon"))) == []
    [undrained] = about_drains(facts_of_report(story.state, inventory(story, 9, "")))
    assert isinstance(undrained, NodeUndrained)
    story.cycle(undrained)
    assert about_drains(facts_of_report(story.state, inventory(story, 10, ""))) == []


def test_the_drain_of_an_operator_stays(story):
    story.apply_policy(policy())
    story.cycle(NodeDrained(request=RequestId(source="ops", id="1", digest="0" * 64), node="n1", reason="repair"))
    assert about_drains(facts_of_report(story.state, inventory(story, 7, ""))) == []
    assert about_drains(facts_of_report(story.state, inventory(story, 8, "cordoned by kubectl-cordon"))) == []


def test_a_node_without_kubernetes_has_no_opinion(story):
    [drained] = about_drains(facts_of_report(story.state, inventory(story, 7, "cordoned")))
    story.cycle(drained)
    assert about_drains(facts_of_report(story.state, inventory(story, 8, None))) == []
