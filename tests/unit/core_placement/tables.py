"""What the tables of placement are made of."""

from typing import Any

from tests.builders import GIB, Sketch, group

from bailiff_core.model.state import Job
from bailiff_core.placement import ClusterResources
from bailiff_core.placement.task_requirements import TaskRequirements

ROOM = GIB * 80


def need(**asked: Any) -> TaskRequirements:
    return TaskRequirements.of(group(**asked))


def pool(*sizes: int, **about: Any) -> ClusterResources:
    """Nodes a, b, … with so many GPUs."""
    sketch = Sketch()
    for name, gpus in zip("abcdefgh", sizes, strict=False):
        sketch.node(name, gpus=gpus, **about)
    return ClusterResources.of(sketch.state)


AT_MOST_ONE_WEB = {"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]}
"""Protections of a policy: of the jobs in `two_full_nodes`, one may be disrupted at a time."""


def two_full_nodes() -> Sketch:
    """Two nodes of four GPUs, which `one` and `two` of project `a` hold."""
    made = Sketch()
    for node, name in (("m", "one"), ("n", "two")):
        made.node(node, gpus=4)
        job = made.running(name, node, range(4))
        job.project = "a"
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    return made


def preemptor_of_another_project(sketch: Sketch) -> Job:
    """A job of project `b` that needs one of the nodes."""
    job = sketch.job("preemptor", group(gpus=4), priority=75)
    job.project = "b"
    return job
