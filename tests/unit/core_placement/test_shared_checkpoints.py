"""Whether members of a gang are known to share one checkpoint directory."""

import pytest
from tests.log_builder import Story

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.placement.shared_checkpoints import unshared_checkpoints


@pytest.fixture
def story() -> Story:
    return Story()


def gang(tasks: int = 2, gpus: int = 8, **group: object) -> JobDemand:
    return JobDemand(job="gang", tasks=(TaskGroup(count=tasks, gpu_milli=1000 * gpus, **group),))  # type: ignore[arg-type]


def test_nodes_with_one_directory_share_it(story: Story) -> None:
    story.node("n1", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8, checkpoints="disk")
    assert unshared_checkpoints(story.state, gang()) is None


def test_a_gang_across_nodes_with_local_directories_names_the_nodes(story: Story) -> None:
    story.node("n1", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8)
    problem = unshared_checkpoints(story.state, gang())
    assert problem is not None
    assert "among the nodes that may run it n2 shares none: set BAILIFF_SHARED_CHECKPOINTS" in problem


def test_two_directories_are_not_one(story: Story) -> None:
    story.node("n1", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8, checkpoints="other")
    assert "more than one of them" in (unshared_checkpoints(story.state, gang()) or "")


@pytest.mark.parametrize("demand", [gang(1), gang(2, 4), gang(8, 1)])
def test_a_gang_on_one_node_needs_no_shared_directory(story: Story, demand: JobDemand) -> None:
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    assert unshared_checkpoints(story.state, demand) is None


def test_only_nodes_that_the_gang_may_get_count(story: Story) -> None:
    for name in ("n1", "n2"):
        story.node(name, gpus=8, checkpoints="disk", labels={"disk": "fast"})
    story.node("n3", gpus=8)
    assert unshared_checkpoints(story.state, gang(node_labels={"disk": "fast"})) is None
    assert unshared_checkpoints(story.state, gang(nodes=("n1", "n2"))) is None
    assert unshared_checkpoints(story.state, gang()) is not None


def test_the_next_incarnation_of_an_agent_may_lack_the_shared_directory(story: Story) -> None:
    story.node("n1", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8, checkpoints="disk")
    story.node("n2", gpus=8)
    assert unshared_checkpoints(story.state, gang()) is not None
