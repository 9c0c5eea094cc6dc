"""Devices that several tasks share: never more than all of one, exactly."""

from tests.log_builder import GIB

from bailiff_core.model.demand import TaskGroup

THIRD = TaskGroup(gpu_share_milli=334)
HALF = TaskGroup(gpu_share_milli=500)


def test_two_halves_fill_a_device_and_a_third_waits(story):
    story.node("n1", gpus=1)
    story.runs("one", HALF)
    story.runs("two", HALF)
    assert story.state.nodes[0].allocated.shares == {0: 1000 * 80 * GIB}
    story.submit("three", HALF)
    story.expect("JobPending", job="three")
    story.ends("one")
    story.expect("JobPlaced", job="three")


def test_a_shared_device_is_not_allocated_whole(story):
    story.node("n1", gpus=1)
    story.runs("part", TaskGroup(gpu_share_bytes=GIB))
    story.submit("whole", gpus=1)
    story.expect("JobPending", job="whole")
    story.ends("part")
    assert story.state.nodes[0].allocated.shares == {}
    story.expect("JobPlaced", job="whole")


def test_a_reservation_of_a_share_waits_for_its_release(story):
    story.node("n1", gpus=1)
    story.runs("whole", gpus=1)
    story.submit("part", HALF)
    story.exits("whole")
    story.expect("JobPlaced", job="part", reserved=True)
    assert story.state.nodes[0].reserved.shares == {0: 500 * 80 * GIB}
    story.releases("whole")
    story.expect("JobStarting", job="part")
    assert (story.state.nodes[0].reserved.shares, story.state.nodes[0].allocated.shares) == ({}, {0: 500 * 80 * GIB})


def test_thirds_do_not_add_up_to_more_than_one(story):
    story.node("n1", gpus=1)
    story.runs("one", THIRD)
    story.runs("two", THIRD)
    story.submit("three", THIRD)
    story.expect("JobPending", job="three")


def test_parts_of_several_devices(story):
    story.node("n1", gpus=2)
    story.runs("wide", TaskGroup(gpu_share_milli=500, gpu_devices=2))
    assert story.state.nodes[0].allocated.shares == {0: 500 * 80 * GIB, 1: 500 * 80 * GIB}
    story.submit("whole", gpus=1)
    story.expect("JobPending", job="whole")
