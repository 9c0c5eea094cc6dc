"""Machines that fall silent, are lost, come back, or come back with less."""

import pytest
from tests.log_builder import MINUTE

from bailiff_core.records.facts import NodeReplaced, NodeReturned, NodesSilent, TaskVanished


def test_nothing_new_is_placed_on_a_silent_node(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=4)
    story.silent("n1")
    story.submit("next", gpus=4)
    story.expect("JobPending", job="next")
    assert story.job("job").phase == "running"
    story.reachable("n1")
    story.expect("JobPlaced", job="next")


def test_jobs_of_a_lost_node_are_requeued(story):
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("one", gpus=8)
    story.runs("two", gpus=8)
    lost = story.state.nodes[story.job("one").tasks[0].node].name
    story.silent(lost)
    story.lost(lost)
    again = story.expect("JobRequeued", job="one", outcome="lost")
    assert again.not_before > story.time
    assert (story.job("one").failures, story.job("one").evictions) == (0, 0)
    story.wait(again.not_before - story.time)
    assert story.job("one").phase == "pending"
    story.node(lost, boot=2)
    story.expect("JobPlaced", job="one", attempt=2)


def test_half_a_gang_on_a_lost_node_stops_the_other_half(story):
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("gang", gpus=8, tasks=2)
    story.lost("n1")
    story.expect("EvictionDecided", job="gang", cause="gang-failure")
    story.begin("gang")
    story.staged("gang", "term_sent")
    story.ends("gang", 143)
    story.expect("JobRequeued", job="gang", outcome="lost")


def test_a_victim_lost_with_its_node(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.begin("low")
    story.lost("n1")
    story.expect("JobRequeued", job="low", outcome="lost", cause="preemption")
    story.expect("ReservationDropped", job="high", reason="resources-lost")
    assert story.job("low").phase == story.job("high").phase == "pending"


def test_tasks_that_the_inventory_lacks_have_ended(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=4)
    gone = TaskVanished(**story.at("job", 0))
    story.cycle(story.joined("n1", boot=2), gone)
    again = story.expect("JobRequeued", job="job", outcome="lost")
    story.wait(again.not_before - story.time)
    story.expect("JobPlaced", job="job", attempt=2)


def test_devices_keep_their_numbers(story):
    story.node("n1", gpus=4)
    story.runs("job", gpus=2)
    story.node("n1", gpus=4, missing=[0, 2], boot=2)
    node = story.state.nodes[0]
    assert [device.id for device in node.devices] == [f"GPU-n1-{n}" for n in range(4)]
    assert [device.healthy for device in node.devices] == [False, True, False, True]
    assert (node.capacity.devices, node.allocated.devices) == (0b1010, 0b11)
    story.node("n1", gpus=4, boot=3)
    story.submit("next", gpus=2)
    assert story.expect("JobPlaced", job="next").placement[0].devices == "2-3"


def test_an_unhealthy_device_is_not_allocated(story):
    story.node("n1", gpus=4, sick=[1])
    story.submit("job", gpus=3)
    assert story.expect("JobPlaced").placement[0].devices == "0,2-3"


def test_another_machine_takes_the_name(story):
    story.node("n1", gpus=8)
    story.cycle(NodeReplaced(request=story.request(), node="n1", machine_id="other"))
    assert story.state.nodes[0].machine_id == "other"


@pytest.mark.parametrize("back", ["reachable", "node"])
def test_silent_nodes_are_recorded_until_they_report(story, back):
    for name in ("n1", "n2", "n3"):
        story.node(name)
    story.cycle(NodesSilent(nodes=("n1", "n2")))
    story.submit("job", gpus=8, tasks=2)
    story.expect("JobPending")
    assert story.state.silent_nodes == ["n1", "n2"]
    getattr(story, back)("n1")
    assert story.state.silent_nodes == ["n2"]
    story.expect("JobPlaced", job="job")
    story.cycle(NodeReturned(request=story.request()), after=MINUTE)
    assert story.state.silent_nodes == []


def test_a_machine_replaced_again_and_again_keeps_small_numbers(story):
    story.node("n1", gpus=8)
    for life in range(2, 12):
        story.node("n1", gpus=8 * life, missing=range(8 * (life - 1)), boot=life)
    assert [device.id for device in story.state.nodes[0].devices] == [f"GPU-n1-{n}" for n in range(80, 88)]
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    assert story.expect("PreemptionDecided").placement[0].devices == "0-7"


def test_the_index_of_an_allocated_device_is_not_reused(story):
    story.node("n1", gpus=4)
    story.runs("job", gpus=2)
    story.node("n1", gpus=8, missing=[0, 1, 2, 3], boot=2)
    node = story.state.nodes[0]
    assert [device.id for device in node.devices] == [f"GPU-n1-{n}" for n in (0, 1, 4, 5, 6, 7)]
    assert node.capacity.devices == 0b111100
    assert node.allocated.devices == 0b11
