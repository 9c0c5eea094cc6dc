"""A node that chooses its tasks' devices by itself, as a kubelet does: the log names the true ones, and no GPU twice."""

import pytest
from tests.kits.log_builder import Story

from bailiff_core.fold.chosen_devices import chosen_mask, conflict
from bailiff_core.model.placement_ranges import bits
from bailiff_core.records.facts import TaskStarted


@pytest.fixture
def story() -> Story:
    story = Story()
    story.node("n1", gpus=4)
    return story


def ids(story: Story, *numbers: int) -> tuple[str, ...]:
    return tuple(story.state.nodes[0].devices[number].id for number in numbers)


def devices_of(story: Story, job: str) -> list[int]:
    return list(bits(story.state.jobs[job].tasks[0].devices))


def started(job: str, devices: tuple[str, ...]) -> TaskStarted:
    return TaskStarted(job=job, attempt=1, task=0, node="n1", devices=devices)


def allocated(story: Story) -> list[int]:
    return list(bits(story.state.nodes[0].allocated.devices))


def test_the_allocation_moves_to_the_devices_that_the_task_got(story):
    story.cycle(story.submitted("a", gpus=2))
    assert devices_of(story, "a") == [0, 1]
    story.cycle(started("a", ids(story, 1, 3)))
    assert devices_of(story, "a") == [1, 3]
    assert allocated(story) == [1, 3]
    story.cycle(story.submitted("b", gpus=2))
    assert devices_of(story, "b") == [0, 2]
    assert allocated(story) == [0, 1, 2, 3]


def test_a_task_that_has_not_started_gets_the_others_in_exchange(story):
    story.cycle(story.submitted("a", gpus=2), story.submitted("b", gpus=2))
    assert (devices_of(story, "a"), devices_of(story, "b")) == ([0, 1], [2, 3])
    story.cycle(started("a", ids(story, 0, 3)))
    assert (devices_of(story, "a"), devices_of(story, "b")) == ([0, 3], [1, 2])
    story.cycle(started("b", ids(story, 1, 2)))
    assert (devices_of(story, "a"), devices_of(story, "b")) == ([0, 3], [1, 2])
    assert allocated(story) == [0, 1, 2, 3]


def test_two_tasks_that_have_not_started_get_one_device_each_in_exchange(story):
    story.cycle(story.submitted("a", gpus=2), story.submitted("b"), story.submitted("c"))
    assert [devices_of(story, job) for job in "abc"] == [[0, 1], [2], [3]]
    story.cycle(started("a", ids(story, 2, 3)))
    assert [devices_of(story, job) for job in "abc"] == [[2, 3], [0], [1]]
    assert allocated(story) == [0, 1, 2, 3]


def test_nothing_moves_onto_a_device_of_a_task_that_runs(story):
    story.cycle(story.submitted("a", gpus=2), story.submitted("b", gpus=2))
    story.cycle(started("b", ()))
    node, task = story.state.nodes[0], story.state.jobs["a"].tasks[0]
    mask = chosen_mask(node, task, ids(story, 0, 3))
    assert mask is not None
    assert conflict(story.state, node, task, mask) == "b"
    story.cycle(started("a", ids(story, 0, 3)))
    assert (devices_of(story, "a"), devices_of(story, "b")) == ([0, 1], [2, 3])


@pytest.mark.parametrize("devices", [("GPU-elsewhere", "GPU-n1-0"), (), None])
def test_devices_that_cannot_be_the_tasks_are_none(story, devices):
    story.cycle(story.submitted("a", gpus=2))
    node, task = story.state.nodes[0], story.state.jobs["a"].tasks[0]
    assert chosen_mask(node, task, ids(story, 0, 1, 2) if devices is None else devices) is None
