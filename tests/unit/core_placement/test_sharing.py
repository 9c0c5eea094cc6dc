"""Parts of GPUs: thousandths and MiB, exactly, and on which device."""

from collections.abc import Callable

import pytest
from tests.kits.builders import GIB, Sketch, group, requested_unit
from tests.kits.searches import need

from bailiff_core.model.placement_ranges import NodeShare, bits
from bailiff_core.model.resources import free_after_release
from bailiff_core.model.state import Resources
from bailiff_core.placement import (
    ClusterResources,
    GangPlacement,
    NoFit,
    StepBudget,
    TaskPlacement,
    decode_placement,
    encode_placement,
    place_unit,
)
from bailiff_core.placement.node_scoring import choose_devices, shared_gpu_rank
from bailiff_core.placement.packing import ANYWHERE, PlacementScope, _best_shared_gpu_node, capacity
from bailiff_core.placement.task_requirements import TaskRequirements

# --- parts of GPUs: thousandths and MiB, exactly, and on which device


HALF = 80 * GIB * 500


def places(sketch: Sketch, *groups, steps: int = 1000, **options):
    """(node, devices) per task, and whether it is later; or the reason."""
    job = sketch.job(f"new-{len(sketch.state.jobs)}", *groups)
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(job), StepBudget(steps), **options)
    if isinstance(found, NoFit):
        return f"{found.kind}: {found.why}"
    return [(sketch.state.nodes[task.node].name, bits(task.devices)) for task in found.tasks], found.future


def part(milli: int = 0, count: int = 1, devices: int | None = None, mib: int = 0, **rest):
    asked = {"gpu_share_bytes": mib * 2**20} if mib else {"gpu_share_milli": milli}
    return group(count, **asked, **({"gpu_devices": devices} if devices else {}), **rest)


def holding(sketch: Sketch, name: str, node: str, device: int, milli: int, phase: str = "running"):
    return sketch.at(sketch.job(name, part(milli)), (node, [device]), phase=phase)


def test_shared_tasks_fill_one_device_before_the_next() -> None:
    sketch = Sketch(a=3)
    assert places(sketch, part(500, 3)) == ([("a", [0]), ("a", [0]), ("a", [1])], False)
    assert places(sketch, part(600, 4)) == ("impossible: needs 4 tasks of 0.6 of 1 GPU each, 3 fit")


def test_the_fullest_device_that_fits_is_preferred_on_any_node() -> None:
    sketch = Sketch(a=2, b=8)
    holding(sketch, "small", "a", 1, 200)
    holding(sketch, "more", "b", 4, 400)
    holding(sketch, "most", "b", 5, 600)
    assert places(sketch, part(400)) == ([("b", [5])], False)
    assert places(sketch, part(500)) == ([("b", [4])], False)
    assert places(sketch, part(700)) == ([("a", [1])], False)
    assert places(sketch, part(900)) == ([("a", [0])], False), "no shared one has that much, and a has fewer free GPUs"


def test_a_shared_device_is_not_free_whole_and_a_whole_one_is_not_shared() -> None:
    sketch = Sketch(a=2)
    holding(sketch, "part", "a", 0, 100)
    assert places(sketch, group(gpus=1)) == ([("a", [1])], False)
    assert places(sketch, group(gpus=2)).startswith("impossible")
    sketch.running("whole", "a", [1])
    assert places(sketch, part(1000)).startswith("impossible")
    assert places(sketch, part(900)) == ([("a", [0])], False)


def test_n_fractions_need_n_devices() -> None:
    sketch = Sketch(a=2)
    assert places(sketch, part(100, devices=3)).startswith("impossible: needs 1 task of 0.1 of each of 3 GPUs")
    assert places(sketch, part(500, 2, devices=2)) == ([("a", [0, 1]), ("a", [0, 1])], False)
    holding(sketch, "other", "a", 1, 600)
    assert places(sketch, part(500, devices=2)).startswith("impossible")


def test_tasks_on_several_devices_each_do_not_block_one_another() -> None:
    sketch = Sketch(a=3)
    holding(sketch, "one", "a", 1, 500)
    holding(sketch, "two", "a", 2, 500)
    found, future = places(sketch, part(500, 2, devices=2))
    assert sorted(found) == [("a", [0, 1]), ("a", [0, 2])], "taking 1 and 2 together would leave 0 alone"
    assert not future


def test_it_is_reserved_on_a_shared_device_rather_than_placed_on_an_empty_one() -> None:
    sketch = Sketch(a=2)
    holding(sketch, "stays", "a", 0, 400)
    holding(sketch, "goes", "a", 0, 400, phase="evicting")
    assert places(sketch, part(500)) == ([("a", [0])], True)
    assert places(sketch, part(200)) == ([("a", [0])], False)
    assert places(sketch, part(700)) == ([("a", [1])], False)


def test_the_fullest_shared_device_is_worth_waiting_for() -> None:
    sketch = Sketch(a=1, b=1)
    holding(sketch, "some", "a", 0, 300)
    holding(sketch, "stays", "b", 0, 400)
    holding(sketch, "goes", "b", 0, 400, phase="evicting")
    assert places(sketch, part(500)) == ([("b", [0])], True)
    assert places(sketch, part(650)) == ([("a", [0])], False)


def test_a_unit_with_one_member_on_releasing_resources_is_reserved_whole() -> None:
    sketch = Sketch(a=2)
    holding(sketch, "goes", "a", 0, 400, phase="evicting")
    holding(sketch, "stays", "a", 0, 200)
    found, future = places(sketch, part(800), group(gpus=1))
    assert (found, future) == ([("a", [0]), ("a", [1])], True)


def test_a_reservation_of_a_part_uses_releasing_resources_first() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=1)
    holding(sketch, "goes", "a", 0, 500, phase="evicting")
    holding(sketch, "next", "a", 0, 500, phase="reserved")
    assert ClusterResources.of(sketch.state).nodes[node.number].now().shares == {0: HALF}
    assert free_after_release(node).shares == {0: HALF}
    assert places(sketch, part(500)) == ([("a", [0])], False)
    holding(sketch, "more", "a", 0, 300, phase="reserved")
    assert places(sketch, part(300)).startswith("impossible")
    assert ClusterResources.of(sketch.state).nodes[node.number].now().shares == {0: 80 * GIB * 200}


def test_mib_are_exact_and_depend_on_the_device_they_land_on() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=2)
    node.devices[1].memory_bytes = 40 * GIB
    assert places(sketch, part(mib=40 * 1024 + 1)) == ([("a", [0])], False)
    assert places(sketch, part(mib=40 * 1024 + 1, count=2)).startswith("impossible")
    assert places(sketch, part(mib=40 * 1024, count=3)) == ([("a", [0]), ("a", [0]), ("a", [1])], False)
    assert places(sketch, part(mib=80 * 1024 + 1)).startswith("impossible: needs 1 task of 81921 MiB of 1 GPU")


def test_ten_tenths_are_one_and_an_eleventh_does_not_fit() -> None:
    sketch = Sketch(a=1)
    found, _ = places(sketch, part(100, 10))
    assert {tuple(devices) for _, devices in found} == {(0,)}
    assert places(sketch, part(100, 11)).startswith("impossible")
    for number in range(7):
        holding(sketch, f"x{number}", "a", 0, 100)
    assert places(sketch, part(300))[0] == [("a", [0])]
    assert places(sketch, part(301)).startswith("impossible")


def test_models_and_unhealthy_devices_count_for_shared_tasks_too() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=3, models=("h100", "a100"))
    assert places(sketch, part(500, gpu_models=("a100",))) == ([("a", [1])], False)
    holding(sketch, "x", "a", 1, 100)
    node.devices[1].healthy = False
    assert places(sketch, part(500)) == ([("a", [0])], False)
    assert places(sketch, part(500, gpu_models=("a100",))).startswith("impossible")


def test_whole_devices_and_parts_are_packed_together_and_a_refusal_is_proven() -> None:
    sketch = Sketch(a=2)
    assert places(sketch, part(500, 2), group(gpus=1)) == ([("a", [1]), ("a", [1]), ("a", [0])], False)
    assert places(sketch, part(500, 3), group(gpus=1)).startswith("impossible: each task type fits on its own")


def test_combinations_of_parts_are_searched_and_a_refusal_is_proven() -> None:
    sketch = Sketch(a=2)
    assert isinstance(places(sketch, part(700, 2), part(300, 2)), tuple)
    assert places(sketch, part(700, 2), part(400, 1)) == (
        "impossible: each task type fits on its own, but 2 × (0.7 of 1 GPU) and 1 × (0.4 of 1 GPU) do not fit together"
    )
    assert places(sketch, part(700, 2), part(400, 1), steps=3).startswith("gave-up")


def test_a_device_that_is_filled_to_the_last_thousandth() -> None:
    sketch = Sketch(a=2)
    holding(sketch, "one", "a", 0, 500)
    holding(sketch, "two", "a", 1, 350)
    # The largest on the fullest device leaves 0.05 there, and then not all fit: it has to go to the other one.
    assert places(sketch, part(450), part(300), part(200, 2)) == ([("a", [1]), ("a", [0]), ("a", [0]), ("a", [1])], False)


def test_in_records_two_entries_may_name_one_device() -> None:
    job = Sketch().job("x", part(500, 2), group(gpus=1))
    place = GangPlacement((TaskPlacement(0, 0, 1), TaskPlacement(1, 0, 1), TaskPlacement(2, 0, 2)), False)
    assert encode_placement(place) == (NodeShare(node=0, tasks="0", devices="0"), NodeShare(node=0, tasks="1-2", devices="0-1"))
    assert tuple(decode_placement(job, encode_placement(place))) == place.tasks


def test_in_records_a_whole_device_has_one_task() -> None:
    job = Sketch().job("x", part(500), group(gpus=1))
    for shares in ([("0", "0"), ("1", "0")], [("1", "0"), ("0", "0")]):
        with pytest.raises(ValueError, match="device 0 of node 0 is assigned twice"):
            decode_placement(job, tuple(NodeShare(node=0, tasks=tasks, devices=devices) for tasks, devices in shares))


def test_a_placement_of_some_members_is_read_only_where_it_is_expected() -> None:
    job = Sketch().job("x", group(4, gpus=1))
    shares = (NodeShare(node=0, tasks="2-3", devices="0-1"),)
    assert [task.index for task in decode_placement(job, shares, (3, 2))] == [2, 3]
    with pytest.raises(ValueError, match="task 1 of job x has no place"):
        decode_placement(job, shares, (1, 2, 3))
    with pytest.raises(ValueError, match="task 3 of job x is not among the tasks to place"):
        decode_placement(job, shares, (2,))


def test_the_rest_of_a_device_with_a_reserved_part_is_free() -> None:
    sketch = Sketch(a=1)
    holding(sketch, "next", "a", 0, 600, phase="reserved")
    assert places(sketch, part(400)) == ([("a", [0])], False)
    assert places(sketch, part(500)).startswith("impossible")


# --- in which order nodes are offered to a task, whether they are found by the index or looked at one by one


# GPUs of the node, those in use, those that are leaving, and CPUs


# --- shared GPUs


def shared(*parts: tuple[int, int], leaving: int = 0) -> ClusterResources:
    """GPUs of one node: of each so many thousandths stay in use, and so many are leaving; and GPUs that leave as a whole."""
    sketch = Sketch(a=len(parts) + leaving)
    for number, (stays, goes) in enumerate(parts):
        if stays:
            sketch.at(sketch.job(f"stays-{number}", group(gpu_share_milli=stays)), ("a", [number]))
        if goes:
            sketch.at(sketch.job(f"goes-{number}", group(gpu_share_milli=goes)), ("a", [number]), phase="evicting")
    sketch.running("goes", "a", range(len(parts), len(parts) + leaving), phase="evicting")
    return ClusterResources.of(sketch.state)


@pytest.mark.parametrize(
    ("milli", "waits", "free"),
    [
        (300, False, 0),  # it starts now, when no GPU is free
        (600, True, 1),  # it waits, and then one is
    ],
)
def test_a_task_that_waits_finds_what_is_free_then(milli: int, waits: bool, free: int) -> None:
    found = shared_gpu_rank(need(gpu_share_milli=milli), shared((300, 400), leaving=1).nodes[0], 0b11, spread=False)
    assert found is not None
    assert found[:5] == (0, 700_000_000, waits, False, free)


@pytest.mark.parametrize(("milli", "device"), [(300, 0), (301, 1)])
def test_of_equally_full_gpus_the_first_with_exactly_enough_room_now(milli: int, device: int) -> None:
    node = shared((400, 300), (400, 0)).nodes[0]
    asked = need(gpu_share_milli=milli)
    assert choose_devices(asked, node, 0b11, 1, future=True) == [1 << device]
    rank = shared_gpu_rank(asked, node, 0b11, spread=False)
    assert rank is not None
    assert rank[2] is False, "it need not wait"


# --- the index of nodes by free resources: what it offers is what looking at every node would offer, also after changes


@pytest.fixture
def sketch() -> Sketch:
    """Nodes of two GPUs. Of a and d the first one is shared, on b a part is leaving, on c one is reserved; e and f are free."""
    made = Sketch(a=2, b=2, c=2, d=2, e=2, f=2)
    for name, milli, phase in (("a", 300, "running"), ("b", 400, "evicting"), ("c", 200, "reserved"), ("d", 800, "running")):
        made.at(made.job(f"on-{name}", group(gpu_share_milli=milli)), (name, [0]), phase=phase)
    return made


def best(cluster: ClusterResources, asked: TaskRequirements, *, spread: bool, scanned: bool) -> str | None:
    """Where the task would share a GPU: found by the index, or by looking at each node."""
    scope = PlacementScope(within=list(cluster.nodes.values()) if scanned else None, spread=spread)
    found = _best_shared_gpu_node(cluster, asked, scope)
    return None if found is None else found.node.name


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize(("milli", "node"), [(200, "d"), (300, "a"), (700, "a"), (800, "c"), (900, "b"), (1000, "b")])
def test_the_fullest_shared_gpu_that_takes_the_task(sketch: Sketch, milli: int, node: str, scanned: bool, spread: bool) -> None:
    """What leaves b was the only part of that GPU."""
    assert best(ClusterResources.of(sketch.state), need(gpu_share_milli=milli), spread=spread, scanned=scanned) == node


@pytest.mark.parametrize("scanned", [False, True])
def test_where_no_gpu_is_shared_there_is_no_such_node(scanned: bool) -> None:
    sketch = Sketch()
    sketch.node("a")
    assert best(ClusterResources.of(sketch.state), need(gpu_share_milli=500), spread=False, scanned=scanned) is None


def leaves(sketch: Sketch, cluster: ClusterResources) -> None:
    sketch.state.nodes[0].allocated = Resources()
    cluster.refresh(sketch.state, [0])


def is_lost(sketch: Sketch, cluster: ClusterResources) -> None:
    sketch.state.nodes[0].state = "lost"
    cluster.refresh(sketch.state, [0])


def is_filled(sketch: Sketch, cluster: ClusterResources) -> None:
    node = cluster.nodes[0]
    cluster.take(node, need(gpu_share_milli=600).amount(node.units, 0b01), future=False)


def is_shared_more(sketch: Sketch, cluster: ClusterResources) -> None:
    node = cluster.nodes[2]
    cluster.take(node, need(gpu_share_milli=550).amount(node.units, 0b01), future=False)


def is_shared_now(sketch: Sketch, cluster: ClusterResources) -> None:
    node = cluster.nodes[4]
    cluster.take(node, need(gpu_share_milli=720).amount(node.units, 0b01), future=False)


@pytest.mark.parametrize(
    ("change", "node"), [(leaves, "c"), (is_lost, "c"), (is_filled, "c"), (is_shared_more, "c"), (is_shared_now, "e")]
)
def test_the_best_shared_gpu_after_a_change_and_after_it_is_undone(
    sketch: Sketch, change: Callable[[Sketch, ClusterResources], None], node: str
) -> None:
    cluster, asked = ClusterResources.of(sketch.state), need(gpu_share_milli=250)
    assert best(cluster, asked, spread=False, scanned=False) == "a"
    mark = cluster.mark()
    change(sketch, cluster)
    assert best(cluster, asked, spread=False, scanned=False) == best(cluster, asked, spread=False, scanned=True) == node
    if change not in (leaves, is_lost):
        cluster.rollback(mark)
        assert best(cluster, asked, spread=False, scanned=False) == "a"
    places = capacity(cluster, asked, ANYWHERE, future=True)
    assert places == capacity(cluster, asked, PlacementScope(within=list(cluster.nodes.values())), future=True)
