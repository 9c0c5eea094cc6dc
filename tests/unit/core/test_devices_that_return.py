"""A node that joins again: shares are counted anew, and a device of another identity begins without the faults of the old one."""

import pytest
from tests.log_builder import GIB, Story

from bailiff_core.model.demand import TaskGroup

HALF = TaskGroup(gpu_share_milli=500)


def test_all_shares_of_a_device_are_counted_again() -> None:
    story = Story()
    story.node("n1", gpus=2)
    for name in ("one", "two", "three"):
        story.runs(name, HALF)
    story.node("n1", gpus=2)
    assert story.state.nodes[0].allocated.shares == {0: 1000 * 80 * GIB, 1: 500 * 80 * GIB}


@pytest.mark.parametrize("same", [True, False])
def test_only_the_same_device_keeps_its_fault(same: bool) -> None:
    story = Story()
    story.node("n1", gpus=1)
    story.breaks("n1", 0)
    broken = story.state.nodes[0].devices[0]
    assert broken.fault
    again = story.joined("n1", gpus=1, boot=2, sick=(0,))
    if not same:
        again = again.model_copy(update={"devices": (again.devices[0].model_copy(update={"id": "GPU-new"}),)})
    story.cycle(again, after=1000)
    device = story.state.nodes[0].devices[0]
    assert (device.fault, device.fault_since) == ((broken.fault, broken.fault_since) if same else ("", None))


def test_a_job_of_a_class_that_the_policy_lacks_is_an_error_of_the_log() -> None:
    story = Story()
    with pytest.raises(ValueError, match="job x has the class unheard-of, which the policy lacks"):
        story.submit("x", cls="unheard-of")
