"""Parts of placement one by one, as tables: what counts as free, and in which order nodes and devices are taken."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.builders import GIB, Sketch, group, requested_unit
from tests.unit.core_placement.tables import ROOM, need, pool

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import DEFAULT_POLICY, Topology
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Device
from bailiff_core.placement import ClusterResources, TaskPlacement, decode_placement, packing
from bailiff_core.placement.allocation_index import _min_count, _min_taken
from bailiff_core.placement.devices import device_choices, device_class
from bailiff_core.placement.islands import _best_island, _idle_first, islands_used
from bailiff_core.placement.node_scoring import lowest, node_rank, offers_of, shared_gpu_rank
from bailiff_core.placement.packing import ANYWHERE, capacity, has_capacity
from bailiff_core.placement.search import _devices_interchangeable, _interchangeable_before, _packed
from bailiff_core.placement.solve import hardest_first
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of
from bailiff_core.placement.topology_domains import TopologyDomain, key_of, total_requested
from bailiff_core.placement.topology_parts import topology_parts_of

# --- what is requested in total, and how full it makes a domain


@pytest.mark.parametrize(
    ("groups", "total"),
    [
        ((group(3, gpus=2),), (6000, 0, 0)),
        ((group(3, cpu=2),), (0, 6000, 0)),
        ((group(3, gib=2),), (0, 0, 6 * GIB)),
        ((group(2, gpus=1, cpu=1, gib=1), group(1, cpu=4), group(1, gib=5)), (2000, 6000, 7 * GIB)),
        ((group(3, gpu_share_milli=300, gpu_devices=2),), (1800, 0, 0)),
        ((group(3, gpu_share_bytes=20 * GIB, gpu_devices=2),), (1500, 0, 0)),  # a quarter of the largest device
    ],
)
def test_what_tasks_request_in_total(groups: Any, total: tuple[int, int, int]) -> None:
    wanted = requirements_of(JobDemand(job="asks", tasks=groups))
    assert total_requested(wanted, pool(2)) == ResourceVector(*total)


@pytest.mark.parametrize(
    ("requested", "free", "fullness"),
    [
        ((1000, 0, 0), (4000, 0, 0), 250_000_000),
        ((4000, 0, 0), (4000, 0, 0), 1_000_000_000),
        ((4001, 0, 0), (4000, 0, 0), None),
        ((1000, 3000, 0), (4000, 4000, 0), 750_000_000),  # the scarcest counts
        ((0, 0, 1), (4000, 4000, 0), None),
        ((0, 0, 0), (0, 0, 0), 0),
    ],
)
def test_how_full_a_request_makes_a_domain(requested: Any, free: Any, fullness: int | None) -> None:
    assert TopologyDomain(("x",), [], ResourceVector(*free)).fullness(ResourceVector(*requested)) == fullness


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({"zone": "x", "rack": "1"}, ("x", "1")),
        ({"zone": "x"}, ("x",)),
        ({"rack": "1"}, ()),  # below an unknown zone there is no rack
        ({}, ()),
    ],
)
def test_the_domain_of_a_node_ends_at_its_first_missing_label(labels: dict[str, str], key: tuple[str, ...]) -> None:
    assert key_of(labels, ("zone", "rack")) == key


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (TopologyRule(topology="dc", required="zone", preferred="rack"), (0, 1)),
        (TopologyRule(topology="dc", required="rack", preferred="zone"), (1, None)),  # the required one is finer
        (TopologyRule(topology="dc", required="rack", preferred="rack"), (1, None)),
        (TopologyRule(topology="dc", preferred="zone"), (None, 0)),
        (TopologyRule(topology="dc"), None),
        (TopologyRule(topology="other", required="zone"), None),
    ],
)
def test_the_levels_of_a_rule(rule: TopologyRule, expected: Any) -> None:
    policy = DEFAULT_POLICY.model_copy(update={"topologies": (Topology(name="dc", levels=("zone", "rack")),)})
    sketch = Sketch()
    job = sketch.job("asks", group(2, gpus=1))
    job.demand = job.demand.model_copy(update={"topology": rule})
    found = topology_parts_of(requested_unit(job), policy).rule
    assert (None if found is None else (found.required, found.preferred)) == expected
    assert topology_parts_of(requested_unit(job), None).rule is None, "without a policy there is no topology"


# --- the order of nodes


@pytest.mark.parametrize(
    ("asked", "better", "worse", "spread"),
    [
        ({"gpus": 1}, (8, 1), (8, 2), False),  # binpack: the fewest free GPUs
        ({"gpus": 1}, (8, 2), (8, 1), True),
        ({"gpus": 2}, (4, 2), (2, 2), False),  # in partial use now, and full then
        ({"gpus": 2}, (4, 2), (8, 4), False),
        ({"gpus": 1}, (4, 2), (2, 2), False),  # is in partial use already
        ({"cpu": 1}, (0, 0), (8, 8), False),  # no GPUs are left unused by a task without any
        ({"cpu": 1}, (8, 0), (8, 8), False),
    ],
)
def test_which_node_is_better(asked: Any, better: tuple[int, int], worse: tuple[int, int], spread: bool) -> None:
    ranks = [node_rank(need(**asked), devices, free, 0, spread=spread) for devices, free in (better, worse)]
    assert ranks[0] < ranks[1]


@pytest.mark.parametrize(
    ("gpus", "devices", "free", "change"),
    [(2, 4, 4, 1), (4, 4, 4, 0), (2, 4, 2, -1), (1, 4, 2, 0), (1, 1, 1, 0), (0, 4, 4, 0), (0, 4, 0, 0)],
)
def test_a_task_breaks_or_fills_a_node(gpus: int, devices: int, free: int, change: int) -> None:
    assert node_rank(need(gpus=gpus), devices, free, 0, spread=False)[-1] == change


@pytest.mark.parametrize(
    ("mask", "count", "taken"),
    [(0b1011, 1, 0b1), (0b1011, 2, 0b11), (0b1010, 2, 0b1010), (0b1000, 0, 0), (0b110, 1, 0b10), (0b1, 3, 0b1)],
)
def test_the_lowest_devices(mask: int, count: int, taken: int) -> None:
    assert lowest(mask, count) == taken


def partly(*free_milli: int) -> ClusterResources:
    """A node with one GPU for each number: so many thousandths of it are free."""
    sketch = Sketch()
    sketch.node("a", gpus=len(free_milli))
    for number, free in enumerate(free_milli):
        if free < 1000:
            sketch.at(sketch.job(f"part-{number}", group(gpu_share_milli=1000 - free)), ("a", [number]))
    return ClusterResources.of(sketch.state)


@pytest.mark.parametrize(
    ("eligible", "asked", "rank"),
    [
        (0b111, 100, (0, 250_000_000)),  # the fullest that takes it
        (0b101, 100, (0, 750_000_000)),
        (0b110, 250, (0, 250_000_000)),
        (0b110, 251, (0, 750_000_000)),
        (0b010, 251, None),
        (0b001, 100, None),  # it is whole
        (0b111, 751, None),
    ],
)
def test_which_shared_gpu_a_node_offers(eligible: int, asked: int, rank: Any) -> None:
    node = partly(1000, 250, 750).nodes[0]
    found = shared_gpu_rank(need(gpu_share_milli=asked), node, eligible, spread=False)
    assert (found[:2] if found is not None else None) == rank


@pytest.mark.parametrize(
    ("free", "devices", "rank"),
    [
        ((250, 750, 1000), 2, (0, 1_000_000_000)),
        ((250, 1000, 1000), 2, (1, 1_250_000_000)),
        ((250, 750, 1000), 3, (1, 2_000_000_000)),
        ((1000, 1000, 1000), 2, None),  # none is shared already
        ((250, 100, 100), 2, None),  # too few take it
    ],
)
def test_which_shared_gpus_a_node_offers_to_a_task_with_several(free: Any, devices: int, rank: Any) -> None:
    node = partly(*free).nodes[0]
    found = shared_gpu_rank(need(gpu_share_milli=200, gpu_devices=devices), node, 0b111, spread=False)
    assert (found[:2] if found is not None else None) == rank


# --- how many fit


@pytest.mark.parametrize(("wanted", "fits"), [(0, True), (1, True), (3, True), (4, False)])
def test_as_many_fit_as_there_are_places(wanted: int, fits: bool) -> None:
    cluster = pool(4, 3)  # 2 and 1 places of two GPUs
    assert capacity(cluster, need(gpus=2), ANYWHERE, future=False) == 3
    assert has_capacity(cluster, need(gpus=2), wanted, ANYWHERE, future=False) is fits


def test_on_releasing_resources_exactly_as_many_places_are_taken_as_are_wanted() -> None:
    cluster = pool(4, 4)
    chunks = packing._fill_future(cluster, need(gpus=1), 5, ANYWHERE)
    assert [(chunk.node.name, len(chunk.masks)) for chunk in chunks] == [("a", 4), ("b", 1)]
    assert cluster.nodes[1].future.devices.bit_count() == 3


def test_what_a_failed_attempt_took_is_free_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def takes_and_fails(cluster: ClusterResources, asked: TaskRequirements, *_: Any, **__: Any) -> None:
        packing.take_chunk(cluster, asked, cluster.nodes[0], 0b1, 1, future=True)

    monkeypatch.setattr(packing, "_fill_shared", takes_and_fails)
    chunks = packing.fill(pool(1), need(gpu_share_milli=500), 2, future=True)
    assert chunks is not None
    assert sum(len(chunk.masks) for chunk in chunks) == 2
    assert packing.fill(pool(1), need(gpu_share_milli=500), 2, future=False) is None


@pytest.mark.parametrize(("capacities", "count", "packed"), [([2, 3], 4, [2, 2]), ([2, 3], 1, [1, 0]), ([0, 3], 3, [0, 3])])
def test_the_last_kind_of_tasks_is_packed_in_order(capacities: list[int], count: int, packed: list[int]) -> None:
    assert _packed(capacities, count) == packed


@pytest.mark.parametrize(
    ("harder", "easier"),
    [
        ({"gpus": 1, "gpu_models": ("a",)}, {"gpus": 8}),  # fewer models
        ({"gpus": 1, "gpu_models": ("a",)}, {"gpus": 1, "gpu_models": ("a", "b")}),
        ({"gpus": 1}, {"gpu_share_milli": 900}),  # whole devices before shares
        ({"gpus": 4}, {"gpus": 2}),
        ({"gpu_share_milli": 600}, {"gpu_share_milli": 500}),
        ({"gpu_share_bytes": 2 * GIB}, {"gpu_share_bytes": GIB}),
        ({"gpus": 1, "cpu": 4}, {"gpus": 1, "cpu": 2}),
        ({"gpus": 1, "gib": 4}, {"gpus": 1, "gib": 2}),
    ],
)
def test_harder_tasks_are_placed_first(harder: Any, easier: Any) -> None:
    assert hardest_first(need(**harder)) < hardest_first(need(**easier))


@pytest.mark.parametrize(
    ("models", "asked", "interchangeable"),
    [
        (("x", "y"), ({"gpus": 1, "gpu_models": ("x",)}, {"gpus": 1}), True),
        (("x", "y"), ({"gpus": 1, "gpu_models": ("x",)}, {"gpus": 1, "gpu_models": ("x", "y")}), True),  # nested
        (("x", "y"), ({"gpus": 1, "gpu_models": ("x", "z")}, {"gpus": 1, "gpu_models": ("x", "y")}), False),
        (("x",), ({"gpus": 1, "gpu_models": ("x", "z")}, {"gpus": 1, "gpu_models": ("x", "y")}), True),  # of one model
        (("x", "y"), ({"gpus": 1, "gpu_models": ("x",)}, {"gpus": 1, "gpu_models": ("y",)}), True),  # disjoint
        (("x",), ({"gpus": 1}, {"gpu_share_milli": 500}), True),
        (("x", "y"), ({"gpus": 1}, {"gpu_share_milli": 500}), False),
        (("x",), ({"gpu_share_milli": 500}, {"gpus": 1}), False),
        (("x",), ({"gpu_share_milli": 500}, {"gpu_share_milli": 400}), False),
    ],
)
def test_whether_the_choice_of_devices_matters(models: Any, asked: Any, interchangeable: bool) -> None:
    wanted = [(need(**each), 1) for each in asked]
    assert _devices_interchangeable(pool(2, models=models), wanted) is interchangeable


def test_devices_of_two_sizes_are_not_interchangeable_for_shares() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2).devices[1].memory_bytes = ROOM // 2
    wanted = [(need(gpus=1), 1), (need(gpu_share_milli=500), 1)]
    assert not _devices_interchangeable(ClusterResources.of(sketch.state), wanted)


# --- devices of a node


@pytest.mark.parametrize(
    ("asked", "choices"),
    [
        ({"gpus": 1}, [0b0001]),  # the two whole ones are equal
        ({"gpus": 2}, [0b0011]),
        ({"gpus": 3}, []),
        ({"gpu_share_milli": 500}, [0b0100, 0b0001]),
        ({"gpu_share_milli": 501}, [0b0001]),
        ({"gpu_share_milli": 250}, [0b1000, 0b0100, 0b0001]),
        ({"gpu_share_milli": 500, "gpu_devices": 2}, [0b0101, 0b0011]),
    ],
)
def test_of_equal_devices_one_is_tried(asked: Any, choices: list[int]) -> None:
    node = partly(1000, 1000, 500, 250).nodes[0]
    assert list(device_choices(need(**asked), node, 0b1111, future=False)) == choices


def test_what_makes_devices_equal() -> None:
    cluster = partly(1000, 500)
    assert [device_class(cluster.nodes[0], number, future=False) for number in (0, 1)] == [
        (1000 * ROOM, 1000 * ROOM, "h100"),
        (500 * ROOM, 1000 * ROOM, "h100"),
    ]


# --- sums of allocations


@pytest.mark.parametrize("sizes", [[], [1], [2], [4, 2], [1, 1, 3], [2, 2, 8], [3, 5, 5]])
def test_the_fewest_gpus_and_jobs_that_free_a_number_of_gpus(sizes: list[int]) -> None:
    width = 20
    least, fewest = np.zeros(width, np.int64), np.zeros(width, np.int64)
    _min_taken(least, sizes)
    _min_count(fewest, sizes)
    sets = [chosen for count in range(len(sizes) + 1) for chosen in combinations(sizes, count)]
    for gpus in range(width):
        enough = [chosen for chosen in sets if sum(chosen) >= gpus]
        assert least[gpus] == min((sum(chosen) for chosen in enough), default=0), gpus
        assert fewest[gpus] == min((len(chosen) for chosen in enough), default=0), gpus


# --- islands


@pytest.mark.parametrize(
    ("usable", "idle", "gpus", "mask"),
    [
        (0b1111, 0b1100, 1, 0b0100),
        (0b1111, 0b1100, 2, 0b1100),
        (0b1111, 0b1100, 3, 0b1101),
        (0b1010, 0b0101, 2, 0b1010),
        (0b1111, 0b1111, 0, 0),
    ],
)
def test_idle_gpus_are_taken_first(usable: int, idle: int, gpus: int, mask: int) -> None:
    assert _idle_first(usable, idle, gpus) == mask


@pytest.mark.parametrize(
    ("islands", "usable", "idle", "gpus", "mask"),
    [
        ((0b0011, 0b1100), 0b1111, 0b1111, 2, 0b0011),
        ((0b0011, 0b1100), 0b1110, 0b1111, 2, 0b1100),
        ((0b0011, 0b1100), 0b1010, 0b1111, 2, 0),
        ((0b0011, 0b1100), 0b1111, 0b1110, 2, 0b1100),  # fewer are releasing
        ((0b0111, 0b11000), 0b11111, 0b11111, 2, 0b11000),  # the fuller island
        ((0b0110, 0b1001), 0b1111, 0b1111, 2, 0b1001),  # the one with the lowest GPU
        ((), 0b1, 0b1, 1, 0),
    ],
)
def test_the_best_island(islands: Any, usable: int, idle: int, gpus: int, mask: int) -> None:
    assert _best_island(islands, usable, idle, gpus) == mask


@pytest.mark.parametrize(
    ("tasks", "used"),
    [
        (((0, 0b0011),), "a/x"),
        (((0, 0b1100),), "a/y"),
        (((0, 0b0110),), "none"),  # across two islands
        (((0, 0b0001), (0, 0b0010)), "a/x"),
        (((0, 0b0011), (0, 0b1100)), "per task"),
        (((0, 0b0011), (1, 0b0011)), "per task"),
        (((0, 0b0011), (0, 0b0110)), "none"),
        (((0, 0b0001), (0, 0b0100)), "none"),  # one GPU each is no island
        (((0, 0b0001),), ""),
        (((2, 0b0011),), "none"),  # a node without islands
    ],
)
def test_what_came_of_the_wish_for_one_island(tasks: Any, used: str) -> None:
    sketch = Sketch()
    for name, islands in (("a", "xxyy"), ("b", "xxyy"), ("c", "")):
        node = sketch.node(name, gpus=4)
        node.devices = [Device(n, f"{name}{n}", "h100", ROOM, island=islands[n] if islands else "") for n in range(4)]
    groups = [group(gpus=mask.bit_count()) for _, mask in tasks]
    job = sketch.job("asks", *groups)
    places = [TaskPlacement(index, node, mask) for index, (node, mask) in enumerate(tasks)]
    assert islands_used(sketch.state, job, places) == "", "it does not prefer one"
    job.demand = job.demand.model_copy(update={"placement": "prefer nvlink"})
    assert islands_used(sketch.state, job, places) == used


@pytest.mark.parametrize(("asked", "before"), [({"gpus": 1}, [None, 0]), ({"gpu_share_milli": 500}, [None, None])])
def test_which_gpus_are_free_makes_no_difference_to_whole_ones_and_may_to_shares(asked: Any, before: list[Any]) -> None:
    sketch = Sketch()
    for name, taken in (("a", (0, 1)), ("b", (2, 3))):
        sketch.node(name, gpus=4)
        sketch.running(f"on-{name}", name, taken)
    cluster, requirements = ClusterResources.of(sketch.state), need(**asked)
    nodes = list(offers_of(requirements, cluster.eligible_nodes(requirements), future=True, spread=False))
    assert len(nodes) == len(before)
    assert _interchangeable_before(cluster, nodes, [requirements], future=True) == before


# --- what a placement on record may not say


def test_of_several_tasks_that_were_not_to_be_placed_the_first_is_named() -> None:
    job = Sketch().job("asks", group(4, gpus=1))
    with pytest.raises(ValueError, match=r"^task 1 of job asks is not among the tasks to place$"):
        decode_placement(job, (NodeShare(node=0, tasks="0-3", devices="0-3"),), [0, 3])
