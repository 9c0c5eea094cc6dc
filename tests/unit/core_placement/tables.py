"""What the tables of placement are made of."""

from typing import Any

from tests.builders import GIB, Sketch, group

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
