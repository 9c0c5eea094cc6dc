"""Whether members of a gang are known to share one checkpoint directory."""

import pytest
from tests.builders import Sketch
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


@pytest.mark.parametrize(
    ("sizes", "tasks", "shared"),
    [
        ((8, 8), 9, False),
        ((8, 16), 9, True),  # one node that takes all of it is enough
        ((16, 8), 9, True),
        ((8, 8), 1, True),  # a single task shares nothing
    ],
)
def test_a_gang_that_one_node_takes_may_be_kept_on_it(sizes: tuple[int, ...], tasks: int, shared: bool) -> None:
    sketch = Sketch()
    for name, gpus in zip("ab", sizes, strict=True):
        sketch.node(name, gpus=gpus)
    assert (unshared_checkpoints(sketch.state, gang(tasks, 1)) is None) is shared


def test_a_single_task_shares_nothing_even_if_it_is_too_large_for_every_node() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=8, cpu=4)
    assert unshared_checkpoints(sketch.state, gang(1, 1, cpu_milli=5000)) is None


def test_nodes_with_too_few_gpus_of_the_profile_do_not_count() -> None:
    """Two nodes take the gang, with a shared directory; the third has too few GPUs for a task, and no directory."""
    sketch = Sketch()
    for name in "ab":
        sketch.node(name, gpus=8).checkpoint_store = "disk"
    sketch.node("c", gpus=4)
    assert unshared_checkpoints(sketch.state, gang(2, 8)) is None
    assert "c shares none" in str(unshared_checkpoints(sketch.state, gang(3, 4))), "a task of four fits on it"


def test_nodes_without_a_gpu_of_the_model_do_not_count() -> None:
    sketch = Sketch()
    for name in "ab":
        sketch.node(name, gpus=8, models=("h100", "a100")).checkpoint_store = "disk"
    sketch.node("c", gpus=8, models=("b200",))
    assert unshared_checkpoints(sketch.state, gang(2, 8, gpu_models=("a100",))) is None
    assert "c shares none" in str(unshared_checkpoints(sketch.state, gang(2, 8, gpu_models=("a100", "b200"))))
