"""Parts of GPUs: thousandths and MiB, exactly, and on which device."""

from itertools import product

import pytest
from tests.builders import GIB, Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.placement_ranges import NodeShare, bits
from bailiff_core.model.resources import free_after_release
from bailiff_core.model.units import whole_job
from bailiff_core.placement import (
    ClusterResources,
    GangPlacement,
    NoFit,
    StepBudget,
    TaskPlacement,
    could_ever_fit,
    decode_placement,
    encode_placement,
    place_unit,
)
from bailiff_core.placement.task_requirements import TaskRequirements

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
    sketch = Sketch()
    sketch.node("a", gpus=3)
    assert places(sketch, part(500, 3)) == ([("a", [0]), ("a", [0]), ("a", [1])], False)
    assert places(sketch, part(600, 4)) == ("impossible: needs 4 tasks of 0.6 of 1 GPU each, 3 fit")


def test_the_fullest_device_that_fits_is_preferred_on_any_node() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    sketch.node("b", gpus=8)
    holding(sketch, "small", "a", 1, 200)
    holding(sketch, "more", "b", 4, 400)
    holding(sketch, "most", "b", 5, 600)
    assert places(sketch, part(400)) == ([("b", [5])], False)
    assert places(sketch, part(500)) == ([("b", [4])], False)
    assert places(sketch, part(700)) == ([("a", [1])], False)
    assert places(sketch, part(900)) == ([("a", [0])], False), "no shared one has that much, and a has fewer free GPUs"


def test_a_shared_device_is_not_free_whole_and_a_whole_one_is_not_shared() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    holding(sketch, "part", "a", 0, 100)
    assert places(sketch, group(gpus=1)) == ([("a", [1])], False)
    assert places(sketch, group(gpus=2)).startswith("impossible")
    sketch.running("whole", "a", [1])
    assert places(sketch, part(1000)).startswith("impossible")
    assert places(sketch, part(900)) == ([("a", [0])], False)


def test_n_fractions_need_n_devices() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    assert places(sketch, part(100, devices=3)).startswith("impossible: needs 1 task of 0.1 of each of 3 GPUs")
    assert places(sketch, part(500, 2, devices=2)) == ([("a", [0, 1]), ("a", [0, 1])], False)
    holding(sketch, "other", "a", 1, 600)
    assert places(sketch, part(500, devices=2)).startswith("impossible")


def test_tasks_on_several_devices_each_do_not_block_one_another() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=3)
    holding(sketch, "one", "a", 1, 500)
    holding(sketch, "two", "a", 2, 500)
    found, future = places(sketch, part(500, 2, devices=2))
    assert sorted(found) == [("a", [0, 1]), ("a", [0, 2])], "taking 1 and 2 together would leave 0 alone"
    assert not future


def test_it_is_reserved_on_a_shared_device_rather_than_placed_on_an_empty_one() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    holding(sketch, "stays", "a", 0, 400)
    holding(sketch, "goes", "a", 0, 400, phase="evicting")
    assert places(sketch, part(500)) == ([("a", [0])], True)
    assert places(sketch, part(200)) == ([("a", [0])], False)
    assert places(sketch, part(700)) == ([("a", [1])], False)


def test_the_fullest_shared_device_is_worth_waiting_for() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    sketch.node("b", gpus=1)
    holding(sketch, "some", "a", 0, 300)
    holding(sketch, "stays", "b", 0, 400)
    holding(sketch, "goes", "b", 0, 400, phase="evicting")
    assert places(sketch, part(500)) == ([("b", [0])], True)
    assert places(sketch, part(650)) == ([("a", [0])], False)


def test_a_unit_with_one_member_on_releasing_resources_is_reserved_whole() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
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
    sketch = Sketch()
    sketch.node("a", gpus=1)
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
    sketch = Sketch()
    sketch.node("a", gpus=2)
    assert places(sketch, part(500, 2), group(gpus=1)) == ([("a", [1]), ("a", [1]), ("a", [0])], False)
    assert places(sketch, part(500, 3), group(gpus=1)).startswith("impossible: each task type fits on its own")


def test_combinations_of_parts_are_searched_and_a_refusal_is_proven() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    assert isinstance(places(sketch, part(700, 2), part(300, 2)), tuple)
    assert places(sketch, part(700, 2), part(400, 1)) == (
        "impossible: each task type fits on its own, but 2 × (0.7 of 1 GPU) and 1 × (0.4 of 1 GPU) do not fit together"
    )
    assert places(sketch, part(700, 2), part(400, 1), steps=3).startswith("gave-up")


def test_a_device_that_is_filled_to_the_last_thousandth() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=2)
    holding(sketch, "one", "a", 0, 500)
    holding(sketch, "two", "a", 1, 350)
    # The largest on the fullest device leaves 0.05 there, and then not all fit: it has to go to the other one.
    assert places(sketch, part(450), part(300), part(200, 2)) == (
        [("a", [1]), ("a", [0]), ("a", [0]), ("a", [1])], False,
    )  # fmt: skip


def test_an_evicted_part_is_restored_to_its_device_only_while_it_fits() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    job = holding(sketch, "x", "a", 0, 600)
    cluster = ClusterResources.of(sketch.state)
    start = cluster.mark()
    cluster.evict(whole_job(job))
    assert cluster.nodes[0].future.devices == 1, "whole again"
    assert cluster.original_place_is_free(whole_job(job))
    cluster.restore(whole_job(job))
    assert cluster.nodes[0].future.shares == {0: 80 * GIB * 400}
    cluster.evict(whole_job(job))
    assert isinstance(place_unit(cluster, requested_unit(sketch.job("y", part(500))), StepBudget(10)), GangPlacement)
    assert not cluster.original_place_is_free(whole_job(job))
    cluster.rollback(start)
    assert cluster.nodes[0].future.shares == {0: 80 * GIB * 400}


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


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"gpu_share_milli": 500, "gpu_share_bytes": 1}, "a share is one or the other"),
        ({"gpu_share_milli": 500, "gpu_milli": 1000}, "leave one out"),
        ({"gpu_devices": 2}, "requests gpu_devices without a share"),
        ({"gpu_milli": 1500}, "a part of one is gpu_share_milli"),
    ],
)
def test_malformed_shares_are_reported(asked, why: str) -> None:
    sketch = Sketch()
    sketch.node("a")
    assert why in (could_ever_fit(sketch.state, JobDemand.model_validate({"job": "x", "tasks": (asked,)})) or "")


def test_the_rest_of_a_device_with_a_reserved_part_is_free() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=1)
    holding(sketch, "next", "a", 0, 600, phase="reserved")
    assert places(sketch, part(400)) == ([("a", [0])], False)
    assert places(sketch, part(500)).startswith("impossible")


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_as_many_tasks_share_devices_as_take_distinct_ones_in_turn(devices: int) -> None:
    """Each task takes the devices with the most shares left: no order of taking fits more."""
    need = TaskRequirements(0, 0, 0, devices=devices, share_milli=100)
    for counts in product(range(1, 5), repeat=4):
        left, tasks = sorted(counts), 0
        while left[-devices] > 0:
            left = sorted([*left[:-devices], *(count - 1 for count in left[-devices:])])
            tasks += 1
        capacities = dict(enumerate(counts))
        assert need.max_sharing_tasks(100, capacities) == tasks, counts
        assert need.max_sharing_tasks(2, capacities) == min(2, tasks), counts
    assert need.max_sharing_tasks(100, {}) == 0
