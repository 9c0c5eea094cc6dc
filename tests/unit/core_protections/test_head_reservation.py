"""What backfill keeps of one node for the head of the queue: just what leaves of the node's future what the head leaves."""

from tests.builders import Sketch, group

from bailiff_core.model.gpu_shares import units_of
from bailiff_core.model.resources import subtract
from bailiff_core.model.state import Resources
from bailiff_core.placement.cluster_resources import NodeResources
from bailiff_core.queue.backfill import resources_to_reserve
from bailiff_core.scheduling_snapshot import current_snapshot

HALF, PART, REST = 500, 300, 200  # thousandths of a GPU


def one_node(*shares: int, gpus: int = 1) -> NodeResources:
    """A node, on whose first GPU jobs stand with so many thousandths each."""
    sketch = Sketch()
    sketch.node("n", gpus=gpus, cpu=10, gib=10, slots=10)
    for number, share in enumerate(shares):
        sketch.at(sketch.job(f"j{number}", group(gpu_share_milli=share)), ("n", [0]))
    return current_snapshot(sketch.state).cluster.nodes[0]


def units(node: NodeResources, milli: int) -> int:
    return units_of(node.node.devices[0]) * milli // 1000


def kept(node: NodeResources, devices: int, **milli: int) -> Resources:
    """For a head after which these whole devices, and so many thousandths of the first one, stay free."""
    shares = {0: units(node, milli["left"])} if milli else {}
    future = node.future
    after = Resources(devices, future.cpu_milli, future.memory_bytes, future.slots, shares)
    found = resources_to_reserve(node, after)
    remaining = subtract(future, found, node.units)
    assert (remaining.devices, {number: left for number, left in remaining.shares.items() if left}) == (
        devices,
        {number: left for number, left in shares.items() if left},
    ), "what is not kept is what the head leaves"
    return found


def test_nothing_is_kept_where_the_head_takes_nothing() -> None:
    node = one_node(gpus=2)
    assert kept(node, 0b11) == Resources()


def test_of_an_idle_gpu_the_part_that_the_head_takes_is_kept() -> None:
    node = one_node()
    assert kept(node, 0, left=PART) == Resources(shares={0: units(node, 1000 - PART)})


def test_of_a_shared_gpu_the_difference_is_kept() -> None:
    node = one_node(PART)
    assert kept(node, 0, left=HALF) == Resources(shares={0: units(node, REST)})


def test_nothing_is_kept_of_a_shared_gpu_that_will_be_freer_than_the_head_needs() -> None:
    node = one_node(HALF)
    before = node.future.shares[0]
    found = resources_to_reserve(
        node, Resources(0, node.future.cpu_milli, node.future.memory_bytes, node.future.slots, {0: before + 1})
    )
    assert found == Resources()


def test_shares_of_the_second_gpu_are_kept_like_those_of_the_first() -> None:
    sketch = Sketch()
    sketch.node("n", gpus=3, cpu=10, gib=10, slots=10)
    sketch.at(sketch.job("first", group(gpu_share_milli=HALF)), ("n", [0]))
    sketch.at(sketch.job("second", group(gpu_share_milli=PART)), ("n", [1]))
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    shares = {0: future.shares[0], 1: units(node, HALF), 2: units(node, REST)}
    after = Resources(0, future.cpu_milli, future.memory_bytes, future.slots, shares)
    found = resources_to_reserve(node, after)
    assert found == Resources(shares={1: units(node, REST), 2: units(node, 1000 - REST)})


def test_of_a_gpu_that_has_left_the_pool_nothing_is_kept_and_the_others_still_are() -> None:
    node = one_node(PART, gpus=2)
    future = node.future
    after = Resources(0, future.cpu_milli, future.memory_bytes, future.slots, {1: units(node, HALF)})
    node.units = {number: units for number, units in node.units.items() if number}  # the mapping is shared by equal nodes
    assert resources_to_reserve(node, after) == Resources(shares={1: units(node, HALF)})


def test_of_equal_idle_gpus_the_head_gets_those_that_it_was_given() -> None:
    node = one_node(gpus=3)
    future = node.future
    after = Resources(0b101, future.cpu_milli, future.memory_bytes, future.slots)
    assert resources_to_reserve(node, after).devices == 0b010


def test_a_whole_gpu_is_kept_whole_and_so_are_cpus_memory_and_slots() -> None:
    node = one_node(gpus=2)
    future = node.future
    after = Resources(0b10, future.cpu_milli - 3, future.memory_bytes - 5, future.slots - 1)
    assert resources_to_reserve(node, after) == Resources(0b01, 3, 5, 1)


def test_what_will_be_more_than_now_is_not_kept() -> None:
    node = one_node()
    future = node.future
    after = Resources(future.devices, future.cpu_milli + 3, future.memory_bytes + 5, future.slots + 1)
    assert resources_to_reserve(node, after) == Resources()


def test_of_equal_gpus_the_one_in_use_is_kept_for_the_head() -> None:
    sketch = Sketch()
    sketch.node("n", gpus=2)
    sketch.running("leaves", "n", [1], phase="evicting")
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    after = Resources(0b10, future.cpu_milli, future.memory_bytes, future.slots)
    assert resources_to_reserve(node, after).devices == 0b10, "the idle one is left to others, who may start at once"


def test_of_equal_gpus_those_that_others_still_use_are_kept_and_the_idle_ones_stay_free() -> None:
    sketch = Sketch()
    sketch.node("n", gpus=5)
    for number in (0, 3):
        sketch.running(f"leaves-{number}", "n", [number], phase="evicting")
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    after = Resources(0b11001, future.cpu_milli, future.memory_bytes, future.slots)  # the head was placed on 1 and 2
    assert resources_to_reserve(node, after).devices == 0b01001


def test_a_part_of_an_idle_gpu_is_kept_there_and_not_on_a_gpu_that_others_still_use() -> None:
    sketch = Sketch()
    sketch.node("n", gpus=2)
    sketch.running("leaves", "n", [1], phase="evicting")
    node = current_snapshot(sketch.state).cluster.nodes[0]
    future = node.future
    after = Resources(0b10, future.cpu_milli, future.memory_bytes, future.slots, {0: units(node, HALF)})
    assert resources_to_reserve(node, after) == Resources(shares={0: units(node, HALF)})
