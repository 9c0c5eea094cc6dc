"""Another machine takes a node's name: which quarantines stay, and that a request to clear one is remembered."""

from bailiff_core.fold.log import request_key
from bailiff_core.records import facts


def joins(story, machine, **about):
    story.cycle(story.joined("n1", gpus=3, boot=2, **about).model_copy(update={"machine_id": machine}))
    return story.state.nodes[0].quarantined


def quarantined_node(story):
    story.node("n1", gpus=3)
    story.quarantined("n1", 0)
    story.quarantined("n1", 2)
    assert story.state.nodes[0].quarantined == 0b101


def test_the_same_machine_keeps_its_quarantined_devices_even_those_that_it_does_not_show(story):
    quarantined_node(story)
    assert joins(story, "machine-n1", missing=[2]) == 0b101


def test_of_another_machine_only_devices_that_were_moved_into_it_stay_quarantined(story):
    quarantined_node(story)
    assert joins(story, "machine-other", missing=[2]) == 0b001


def test_another_machine_with_all_of_the_devices_has_all_of_the_quarantines(story):
    quarantined_node(story)
    assert joins(story, "machine-other") == 0b101


def test_a_request_to_clear_a_device_is_stored_and_remembered(story):
    story.node("n1", gpus=2)
    story.quarantined("n1", 1)
    request, node = story.request(), story.state.nodes[0]
    story.cycle(facts.DeviceClearRequested(node="n1", device=node.devices[1].id, request=request, reason="seen free"))
    assert [device.clear_seq is not None for device in node.devices] == [False, True]
    assert request_key(request.source, request.id) in story.state.requests
    story.cleared("n1", 1)
    assert node.devices[1].clear_seq is None
    assert node.quarantined == 0


def test_a_request_to_clear_a_device_that_left_is_remembered_too(story):
    story.node("n1", gpus=2)
    request = story.request()
    story.cycle(facts.DeviceClearRequested(node="n1", device="GPU-gone", request=request, reason="gone"))
    assert request_key(request.source, request.id) in story.state.requests
