"""Whether a gang could ever fit is asked of the nodes that there are now, also after it was asked before."""

from tests.log_builder import Story

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.placement.feasibility import could_ever_fit


def problem(story: Story, gpus: int) -> str | None:
    return could_ever_fit(story.state, JobDemand(job="asks", tasks=(TaskGroup(gpu_milli=1000 * gpus),)))


def test_a_node_that_joins_makes_room_for_what_could_never_fit() -> None:
    story = Story()
    story.node("n1", gpus=4)
    story.runs("there", gpus=4)
    assert problem(story, 4) is None
    assert str(problem(story, 8)).startswith("even on the empty pool: ")
    story.node("n2", gpus=8)
    story.runs("here", gpus=8)
    assert problem(story, 8) is None
    assert str(problem(story, 9)).startswith("even on the empty pool: ")


def test_a_node_that_is_replaced_by_a_smaller_one_takes_its_room_along() -> None:
    story = Story()
    story.node("n1", gpus=8)
    story.runs("there", gpus=1)
    assert problem(story, 8) is None
    story.lost("n1")
    story.node("n1", gpus=4, boot=2)
    story.submit("again", gpus=1)
    assert problem(story, 4) is None
    assert problem(story, 9) is not None
