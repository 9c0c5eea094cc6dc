"""What a task requires, from its group: one form for equal requirements, and the resources that it takes of a node."""

from typing import Any

import pytest
from tests.builders import GIB, group
from tests.unit.core_placement.tables import ROOM, need, pool

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.state import Resources
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of

LABELS = {"zone": "x", "disk": "fast"}
SORTED = (("disk", "fast"), ("zone", "x"))


@pytest.mark.parametrize(
    ("asked", "required"),
    [
        ({}, TaskRequirements(0, 0, 0)),
        ({"gpus": 2, "cpu": 1, "gib": 3}, TaskRequirements(2, 1000, 3 * GIB, devices=2)),
        ({"gpus": 1, "gpu_models": ("b", "a", "b")}, TaskRequirements(1, 0, 0, ("a", "b"), devices=1)),
        ({"cpu": 1, "gpu_models": ("a",)}, TaskRequirements(0, 1000, 0)),  # of no matter to a task without GPUs
        ({"node_labels": LABELS}, TaskRequirements(0, 0, 0, (), SORTED)),
        ({"nodes": ("b", "a", "b")}, TaskRequirements(0, 0, 0, nodes=("a", "b"))),
        ({"gpu_share_milli": 500, "gpu_devices": 2}, TaskRequirements(0, 0, 0, devices=2, share_milli=500)),
        ({"gpu_share_bytes": GIB}, TaskRequirements(0, 0, 0, devices=1, share_bytes=GIB)),
        ({"mig_profile": "1g.10gb", "gpu_devices": 2}, TaskRequirements(2, 0, 0, devices=2, profile="1g.10gb")),
    ],
)
def test_requirements_have_one_form(asked: Any, required: TaskRequirements) -> None:
    assert need(**asked) == required


@pytest.mark.parametrize("groups", [(group(3, gpus=1),), (group(2, gpus=1), group(1, cpu=1))])
def test_no_task_has_no_requirements(groups: Any) -> None:
    demand = JobDemand(job="asks", tasks=groups)
    assert requirements_of(demand, []) == {}
    assert sum(map(len, requirements_of(demand).values())) == 3
    assert requirements_of(demand, [1]) == {need(gpus=1): [1]}


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ({"gpus": 2, "cpu": 1}, Resources(0b11, 1000, 0, 1)),
        ({"gpu_share_milli": 250, "gpu_devices": 2, "gib": 1}, Resources(0, 0, GIB, 1, {0: 250 * ROOM, 1: 250 * ROOM})),
        ({"gpu_share_bytes": 3, "gpu_devices": 2}, Resources(0, 0, 0, 1, {0: 3000, 1: 3000})),
    ],
)
def test_what_a_task_takes_of_two_gpus(asked: Any, taken: Resources) -> None:
    assert need(**asked).amount(pool(2).nodes[0].units, 0b11) == taken


@pytest.mark.parametrize(("share", "hosts"), [(ROOM, 2), (ROOM + 1, 0), (1, 2)])
def test_a_gpu_hosts_a_share_of_all_its_memory_and_no_more(share: int, hosts: int) -> None:
    assert need(gpu_share_bytes=share).hosts(pool(2).nodes[0].units, 0b11) == hosts


@pytest.mark.parametrize(
    ("milli", "places"), [(100, {0: 10, 1: 2}), (200, {0: 5, 1: 1}), (201, {0: 4}), (1000, {0: 1}), (250, {0: 4})]
)
def test_gpus_without_room_for_a_share_are_left_out(milli: int, places: dict[int, int]) -> None:
    """One is whole, of one 200 thousandths are free, and one is in use."""
    free = Resources(0b001, shares={1: 200 * ROOM})
    assert need(gpu_share_milli=milli).capacities(free, pool(3).nodes[0].units, 0b111) == places
