"""A job with an image that names no runtime runs with the one that its pool has."""

import pytest
from tests.kits.log_builder import Story

from bailiff.client.image_runtime import runtime_for_images, with_runtime
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob


@pytest.mark.parametrize(
    ("offers", "runtime"),
    [((), "docker"), (("docker",), "docker"), (("kubernetes",), "kubernetes"), (("kubernetes", "docker"), "docker")],
)
def test_it_is_dockers_unless_the_nodes_run_pods_only(offers: tuple[str, ...], runtime: str) -> None:
    story = Story()
    for number, offer in enumerate(offers):
        story.node(f"n{number}", gpus=1, labels={f"bailiff.runtime/{offer}": "true"})
    assert runtime_for_images(story.state) == runtime
    demand = JobDemand(job="a", tasks=(TaskGroup(gpu_milli=1000),))
    image = SubmitJob(demand=demand, spec=JobSpec(command="true", image="debian", runtime="docker"))
    plain = SubmitJob(demand=demand, spec=JobSpec(command="true"))
    assert [job.spec.runtime for job in with_runtime([image, plain], story.state)] == [runtime, "process"]


@pytest.mark.parametrize(
    ("offer", "may_lack", "terminal"), [("docker", True, True), ("kubernetes", True, False), ("kubernetes", False, True)]
)
def test_a_terminal_that_only_interactive_asks_for_is_left_out_where_the_runtime_has_none(
    offer: str, may_lack: bool, terminal: bool
) -> None:
    story = Story()
    story.node("n1", gpus=1, labels={f"bailiff.runtime/{offer}": "true"})
    demand = JobDemand(job="a", tasks=(TaskGroup(gpu_milli=1000),))
    image = SubmitJob(demand=demand, spec=JobSpec(command="true", image="debian", runtime="docker", tty=True))
    [job] = with_runtime([image], story.state, may_lack_terminal=may_lack)
    assert job.spec.tty is terminal
