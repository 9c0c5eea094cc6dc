"""All ways to distribute equal tasks over nodes, of interchangeable nodes only one; and when the choice of devices matters."""

from itertools import product
from typing import Any

import pytest
from tests.builders import Sketch
from tests.unit.core_placement.tables import need, pool

from bailiff_core.placement import ClusterResources
from bailiff_core.placement.packing import ANYWHERE
from bailiff_core.placement.search import _devices_interchangeable, _distributions

LAST = (need(cpu=1), 1)


@pytest.mark.parametrize("sizes", [(3,), (1, 2), (2, 2), (1, 2, 3), (2, 2, 2), (1, 1, 3), (1, 3, 3), (1, 1, 2, 2), (2, 3, 4)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_every_distribution_once_the_most_packed_first(sizes: tuple[int, ...], count: int) -> None:
    """Nodes are offered by their free GPUs. Of equal ones an earlier one has at least as many tasks."""
    found = [
        tuple(next((offer.count for offer in spread if offer.node.number == number), 0) for number in range(len(sizes)))
        for spread in _distributions(pool(*sizes), [(need(gpus=1), count), LAST], 0, ANYWHERE, future=False)
    ]
    assert found == [
        counts
        for counts in product(*(range(size, -1, -1) for size in sizes))
        if sum(counts) == count
        and all(
            counts[at] >= counts[at + 1] for at in range(len(sizes) - 1) if sizes[at] == sizes[at + 1]
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("models", "asked", "interchangeable"),
    [
        ((("x",),), ({"gpus": 1}, {"gpus": 2}, {"gpu_share_milli": 500}), True),
        ((("x", "y"),), ({"gpus": 1}, {"gpus": 2}, {"gpu_share_milli": 500}), False),
        ((("x",), ("x", "y")), ({"gpus": 1}, {"gpu_share_milli": 500}), False),  # one such node is enough
        ((("x", "y"),), ({"gpus": 1}, {"gpus": 1, "gpu_models": ("x",)}), True),  # one accepts all
    ],
)
def test_devices_matter_where_one_node_has_devices_of_two_kinds(models: Any, asked: Any, interchangeable: bool) -> None:
    sketch = Sketch()
    for name, each in zip("ab", models, strict=False):
        sketch.node(name, gpus=2, models=each)
    wanted = [(need(**about), 1) for about in asked]
    assert _devices_interchangeable(ClusterResources.of(sketch.state), wanted) is interchangeable
