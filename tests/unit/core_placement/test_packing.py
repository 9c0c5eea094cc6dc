"""Packing tasks onto nodes and devices: what counts as free, in which order, and placements as records have them."""

from itertools import product
from typing import Any

import pytest
from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.kits.searches import ROOM, need, pool

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.placement_ranges import NodeShare, bits
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.placement import ClusterResources, NoFit, StepBudget, decode_placement, packing, place_unit
from bailiff_core.placement.islands import _best_island, _idle_first
from bailiff_core.placement.node_scoring import offers_of, shared_gpu_rank
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, TasksOnNode, _fill_future, fill, offers
from bailiff_core.placement.packing_search import (
    _devices_interchangeable,
    _distributions,
    _interchangeable_before,
    device_choices,
    device_class,
    hardest_first,
)
from bailiff_core.placement.task_requirements import TaskRequirements, requirements_of
from bailiff_core.placement.topology_domains import TopologyDomain, total_requested

# --- parts of placement one by one, as tables: what counts as free, and in which order nodes and devices are taken


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


# --- the order of nodes


def partly(*free_milli: int) -> ClusterResources:
    """A node with one GPU for each number: so many thousandths of it are free."""
    sketch = Sketch(a=len(free_milli))
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


def test_what_a_failed_attempt_took_is_free_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def takes_and_fails(cluster: ClusterResources, asked: TaskRequirements, *_: Any, **__: Any) -> None:
        packing.take_chunk(cluster, asked, cluster.nodes[0], 0b1, 1, future=True)

    monkeypatch.setattr(packing, "_fill_shared", takes_and_fails)
    chunks = packing.fill(pool(1), need(gpu_share_milli=500), 2, future=True)
    assert chunks is not None
    assert sum(len(chunk.masks) for chunk in chunks) == 2
    assert packing.fill(pool(1), need(gpu_share_milli=500), 2, future=False) is None


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


# --- which resources the filling of nodes takes: what is free before what is leaving, and shares of GPUs already shared


SPREAD = PlacementScope(spread=True)


def leaving(*names: str, free: str = "", gpus: int = 1) -> ClusterResources:
    """Nodes from which a job on all GPUs is leaving, and nodes that are free."""
    sketch = Sketch()
    for name in sorted(names + tuple(free)):
        sketch.node(name, gpus=gpus)
        if name in names:
            sketch.running(f"on-{name}", name, range(gpus), phase="evicting")
    return ClusterResources.of(sketch.state)


def placed(chunks: list[TasksOnNode] | None) -> list[tuple[str, int, bool]] | None:
    """The node and the GPUs of each task, and whether it waits."""
    if chunks is None:
        return None
    return [(chunk.node.name, mask, chunk.future) for chunk in chunks for mask in chunk.masks]


@pytest.mark.parametrize("scope", [ANYWHERE, SPREAD])
@pytest.mark.parametrize("asked", [{"gpus": 1}, {"gpu_share_milli": 600}])
def test_what_is_free_is_taken_first_and_what_is_leaving_only_by_tasks_that_may_wait(asked: Any, scope: PlacementScope) -> None:
    wanted = need(**asked)
    assert placed(fill(leaving("a"), wanted, 1, scope, future=False)) is None
    assert placed(fill(leaving("a"), wanted, 1, scope, future=True)) == [("a", 0b1, True)]
    found = placed(fill(leaving("a", free="b"), wanted, 2, scope, future=True))
    assert found == [("b", 0b1, False), ("a", 0b1, True)]
    assert placed(fill(leaving("a", free="b"), wanted, 3, scope, future=True)) is None


def test_a_task_waits_for_a_shared_gpu_even_if_it_need_not() -> None:
    """So the whole gang waits; a GPU that is not shared yet stays whole."""
    sketch = Sketch(a=2)
    sketch.at(sketch.job("stays", group(gpu_share_milli=400)), ("a", [0]))
    sketch.at(sketch.job("goes", group(gpu_share_milli=400)), ("a", [0]), phase="evicting")
    found = fill(ClusterResources.of(sketch.state), need(gpu_share_milli=500), 1, future=False)
    assert placed(found) == [("a", 0b01, True)]


@pytest.mark.parametrize(("wanted", "masks"), [(1, [0b011]), (2, [0b101, 0b110])])
def test_the_fullest_gpus_are_shared_unless_later_tasks_need_them_one_by_one(wanted: int, masks: list[int]) -> None:
    """Each task needs parts of two GPUs. Of the first two GPUs one part is left each, of the third one two."""
    sketch = Sketch(a=3)
    for number, milli in enumerate((800, 700, 500)):
        sketch.at(sketch.job(f"on-{number}", group(gpu_share_milli=milli)), ("a", [number]))
    found = fill(ClusterResources.of(sketch.state), need(gpu_share_milli=200, gpu_devices=2), wanted, future=False)
    assert found is not None
    assert [mask for chunk in found for mask in chunk.masks] == masks


@pytest.mark.parametrize(("wanted", "taken"), [(3, [3]), (4, [4]), (5, [4, 1]), (9, [4, 4, 1])])
def test_no_more_nodes_are_taken_than_are_needed(wanted: int, taken: list[int]) -> None:
    asked = need(gpus=1)
    for chunks in (
        _fill_future(pool(4, 4, 4), asked, wanted, ANYWHERE),
        *(fill(pool(4, 4, 4), asked, wanted, future=f) or [] for f in (0, 1)),
    ):
        assert [len(chunk.masks) for chunk in chunks] == taken


# --- all ways to distribute equal tasks over nodes, of interchangeable nodes only one; and when the choice of devices matters


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
        and all(counts[at] >= counts[at + 1] for at in range(len(sizes) - 1) if sizes[at] == sizes[at + 1])
    ]


# --- which nodes a packing search takes for interchangeable: those that are alike to every kind of tasks, and no others


IN_X = {"zone": "x"}
ONE_CPU = {"cpu": 1}


@pytest.mark.parametrize(
    ("nodes", "asked", "before"),
    [
        pytest.param(({}, {}, {}), (ONE_CPU,), [None, 0, 1], id="equal nodes: the nearest one before"),
        pytest.param(({}, {"gpus": 2}), (ONE_CPU,), [None, None], id="another number of free GPUs"),
        pytest.param(({}, {"cpu": 999}), (ONE_CPU,), [None, None], id="another number of CPUs"),
        pytest.param(({}, {"gib": 999}), (ONE_CPU,), [None, None], id="another amount of memory"),
        pytest.param(({}, {"slots": 999}), (ONE_CPU,), [None, None], id="another number of slots"),
        pytest.param(
            ({"gpus": 2, "models": ("h",)}, {"gpus": 3, "models": ("h", "a", "h")}),
            ({"gpus": 1, "gpu_models": ("h",)},),
            [None, 0],
            id="GPUs of a model that no task accepts make no difference",
        ),
        pytest.param(
            ({"gpus": 2, "models": ("h",)}, {"gpus": 2, "models": ("h", "a")}),
            ({"gpus": 1, "gpu_models": ("h",)},),
            [None, None],
            id="another number of GPUs of the model",
        ),
        pytest.param(
            ({"labels": IN_X}, {}),
            (ONE_CPU, {"cpu": 2, "node_labels": IN_X}),
            [None, None],
            id="one kind of tasks may not use it",
        ),
        pytest.param(
            ({"gpus": 1, "labels": IN_X}, {"gpus": 1}),
            (ONE_CPU, {"cpu": 2, "node_labels": IN_X}),
            [None, None],
            id="one kind of tasks may not use it, although it has as many GPUs",
        ),
    ],
)
def test_nodes_are_interchangeable_if_they_are_alike_to_every_kind_of_tasks(nodes: Any, asked: Any, before: Any) -> None:
    sketch = Sketch()
    for name, about in zip("abc", nodes, strict=False):
        sketch.node(name, **{"gpus": 0, **about})
    cluster, requirements = ClusterResources.of(sketch.state), [need(**each) for each in asked]
    found = list(offers(cluster, requirements[0], ANYWHERE, future=False))
    assert _interchangeable_before(cluster, found, requirements, future=False) == before


# --- placement of gangs, node by node, and the reasons for those that do not fit


def places(sketch: Sketch, *groups, steps: int = 1000, **options):
    """(node, devices) per task, and whether it is later; or the reason."""
    cluster = ClusterResources.of(sketch.state)
    found = place_unit(
        cluster, requested_unit(sketch.job(f"new-{len(sketch.state.jobs)}", *groups)), StepBudget(steps), **options
    )
    if isinstance(found, NoFit):
        return f"{found.kind}: {found.why}"
    return [(sketch.state.nodes[task.node].name, bits(task.devices)) for task in found.tasks], found.future


def test_where_greedy_fails_all_packings_are_tried_and_a_refusal_is_proven() -> None:
    sketch = Sketch(a=6, b=7)
    # Largest first puts 4 on a, and then only two of the 3s fit; 3 + 3 on a and 4 + 3 on b works.
    found, future = places(sketch, group(gpus=4), group(3, gpus=3))
    assert [node for node, _ in found] == ["b", "b", "a", "a"]
    assert not future
    assert places(sketch, group(gpus=5), group(2, gpus=4)) == (
        "impossible: each task type fits on its own, but 1 × (5 GPUs) and 2 × (4 GPUs) do not fit together"
    )
    assert places(sketch, group(gpus=5), group(2, gpus=4), steps=0).startswith("gave-up: found no place")


# --- placements as records have them: every placement is read as it was written, and nothing else is read


@pytest.fixture
def job() -> Job:
    """Two tasks of two GPUs, one without GPUs, and one of a part of a GPU."""
    return Sketch().job("asks", group(2, gpus=2), group(cpu=1), group(gpu_share_milli=500))


def shares(*entries: tuple[int, str, str]) -> tuple[NodeShare, ...]:
    return tuple(NodeShare(node=node, tasks=tasks, devices=devices) for node, tasks, devices in entries)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(0, "", "")], "the entry for node 0 has no tasks"),
        ([(0, "0-4", "0-4")], "job asks has 4 tasks, but no task 4"),
        ([(0, "0", "0-2")], "tasks 0 need 2 devices on node 0, got 3"),
        ([(0, "0", "0-1"), (1, "0-3", "0-4")], "task 0 is placed twice"),
        ([(0, "0", "0-1"), (0, "1-3", "1-3")], "device 1 of node 0 is assigned twice"),
        ([(0, "0-2", "0-3"), (0, "3", "3")], "device 3 of node 0 is assigned twice"),
        ([(0, "3", "3"), (0, "0-2", "0-3")], "device 3 of node 0 is assigned twice"),
        ([(0, "0-2", "0-3")], "task 3 of job asks has no place"),
        ([(0, "0,2,1", "0-3")], "tasks '0,2,1' are not in ascending order"),
        ([(0, "0,0", "0-3")], "tasks '0,0' are not in ascending order"),
        ([(0, "0-1", "0-2,2")], "devices '0-2,2' are not in ascending order"),
        ([(0, "x", "")], "tasks 'x': invalid literal for int() with base 10: 'x'"),
    ],
)
def test_what_a_record_may_not_say(job: Job, entries: list[tuple[int, str, str]], why: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        decode_placement(job, shares(*entries))
    assert str(error.value) == why
