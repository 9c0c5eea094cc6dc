"""Placement of gangs, node by node, and the reasons for those that do not fit."""

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.placement_ranges import NodeShare, bits
from bailiff_core.model.policy import DEFAULT_POLICY
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


def places(sketch: Sketch, *groups, steps: int = 1000, **options):
    """(node, devices) per task, and whether it is later; or the reason."""
    cluster = ClusterResources.of(sketch.state)
    found = place_unit(
        cluster, requested_unit(sketch.job(f"new-{len(sketch.state.jobs)}", *groups)), StepBudget(steps), **options
    )
    if isinstance(found, NoFit):
        return f"{found.kind}: {found.why}"
    return [(sketch.state.nodes[task.node].name, bits(task.devices)) for task in found.tasks], found.future


def test_binpack_picks_the_node_with_fewest_free_gpus_that_fits() -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name)
    sketch.running("on-b", "b", range(3))
    sketch.running("on-c", "c", range(6))
    assert places(sketch, group(gpus=4)) == ([("b", [3, 4, 5, 6])], False)
    assert places(sketch, group(4, gpus=1)) == ([("c", [6]), ("c", [7]), ("b", [3]), ("b", [4])], False)


def test_among_equally_full_nodes_takes_the_one_that_stays_unbroken_then_by_name() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=8)
    sketch.running("half", "b", range(4))
    assert places(sketch, group(gpus=2)) == ([("b", [4, 5])], False), "a is whole, b is broken already"
    sketch.node("c", gpus=4)
    assert places(sketch, group(gpus=4))[0][0][0] == "b", "filling b up mends it"


def test_tasks_without_gpus_go_to_nodes_without_gpus() -> None:
    sketch = Sketch()
    sketch.node("gpus")
    sketch.node("plain", gpus=0, cpu=2)
    assert places(sketch, group(3, cpu=1)) == ([("plain", []), ("plain", []), ("gpus", [])], False)


def test_free_resources_are_used_before_releasing_ones_and_a_gang_that_needs_both_is_reserved_whole() -> None:
    sketch = Sketch()
    sketch.node("a")
    sketch.node("b")
    sketch.running("leaving", "a", range(8), phase="evicting")
    assert places(sketch, group(gpus=8)) == ([("b", list(range(8)))], False)
    assert places(sketch, group(2, gpus=8)) == ([("b", list(range(8))), ("a", list(range(8)))], True)


def test_reserved_resources_and_unhealthy_or_quarantined_devices_are_not_allocated() -> None:
    sketch = Sketch()
    node = sketch.node("a", gpus=4)
    sketch.running("promised", "a", [0], phase="reserved")
    node.devices[1].healthy = False
    node.quarantined = 0b100
    assert places(sketch, group(gpus=1)) == ([("a", [3])], False)
    assert places(sketch, group(gpus=2)) == "impossible: needs a node with 2 free GPUs, no node has them"


def test_nothing_is_placed_on_silent_or_lost_nodes() -> None:
    sketch = Sketch()
    sketch.node("a").state = "unreachable"
    sketch.node("b").state = "lost"
    assert places(sketch, group()).startswith("impossible")


def test_labels_models_and_names_are_kept() -> None:
    sketch = Sketch()
    sketch.node("a", labels={"zone": "x"}, models=("a100", "h100"))
    sketch.node("b", labels={"zone": "y"})
    assert places(sketch, group(gpus=2, gpu_models=("h100",), node_labels={"zone": "x"})) == ([("a", [1, 3])], False)
    assert places(sketch, group(gpus=1, nodes=("b",))) == ([("b", [0])], False)


@pytest.mark.parametrize(
    ("need", "why"),
    [
        (group(2, gpus=8), "needs 2 nodes with 8 free GPUs each, 1 has them"),
        (
            group(gpus=8, node_labels={"gpu": "h100"}),
            "needs 1 task of 8 GPUs, no node fits one; 3 nodes lack the label gpu=h100",
        ),
        (
            group(gpus=1, gpu_models=("b200",)),
            "needs 1 task of 1 GPU (b200), no node fits one; 3 nodes have no usable GPU of the model b200",
        ),
        (
            group(gpus=1, nodes=("zz",)),
            "needs 1 task of 1 GPU, no node fits one; 3 nodes are not in the job's node list",
        ),
        (group(30, gpus=1), "needs 30 tasks of 1 GPU each, 14 fit"),
        (group(cpu=5000), "needs 1 task of 5000 CPUs, no node fits one"),
        (group(gib=1001), "needs 1 task of 1001 GiB of memory, no node fits one"),
    ],
)
def test_the_reasons_for_no_placement_are_named(need, why: str) -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name)
    sketch.running("one", "a", [0])
    sketch.running("nine", "b", range(8))
    sketch.state.nodes[1].allocated.devices = 0xFF
    if need.count == 30:
        sketch.running("more", "c", [0])
    assert places(sketch, need) == f"impossible: {why}"


def test_a_gang_of_different_tasks_is_placed_together() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=4)
    sketch.node("b", gpus=2)
    found = places(sketch, group(2, gpus=1), group(gpus=4))
    assert found == ([("b", [0]), ("b", [1]), ("a", [0, 1, 2, 3])], False)
    assert places(sketch, group(3, gpus=1), group(gpus=4)) == ("impossible: needs 7 GPUs in total, 6 are free or releasing")


def test_where_greedy_fails_all_packings_are_tried_and_a_refusal_is_proven() -> None:
    sketch = Sketch()
    sketch.node("a", gpus=6)
    sketch.node("b", gpus=7)
    # Largest first puts 4 on a, and then only two of the 3s fit; 3 + 3 on a and 4 + 3 on b works.
    found, future = places(sketch, group(gpus=4), group(3, gpus=3))
    assert [node for node, _ in found] == ["b", "b", "a", "a"]
    assert not future
    assert places(sketch, group(gpus=5), group(2, gpus=4)) == (
        "impossible: each task type fits on its own, but 1 × (5 GPUs) and 2 × (4 GPUs) do not fit together"
    )
    assert places(sketch, group(gpus=5), group(2, gpus=4), steps=0).startswith("gave-up: found no place")


def test_restoring_the_resources_undoes_each_step() -> None:
    sketch = Sketch()
    sketch.node("a")
    job = sketch.running("x", "a", range(8))
    cluster = ClusterResources.of(sketch.state)
    assert cluster.nodes[0].future.devices == 0
    start = cluster.mark()
    cluster.evict(whole_job(job))
    assert cluster.original_place_is_free(whole_job(job))
    evicted = cluster.mark()
    assert isinstance(place_unit(cluster, requested_unit(sketch.job("y", group(gpus=3))), StepBudget(10)), GangPlacement)
    assert not cluster.original_place_is_free(whole_job(job))
    assert cluster.nodes[0].now().devices == 0
    cluster.rollback(evicted)
    assert cluster.nodes[0].future.devices == 0xFF
    cluster.rollback(start)
    assert cluster.nodes[0].future.devices == 0


def test_could_ever_fit_looks_at_the_empty_pool() -> None:
    sketch = Sketch()
    node = sketch.node("a")
    sketch.running("x", "a", range(8))
    node.quarantined, node.state = 0xF, "unreachable"
    assert could_ever_fit(sketch.state, sketch.job("ok", group(gpus=8)).demand) is None
    never = could_ever_fit(sketch.state, sketch.job("big", group(2, gpus=8)).demand)
    assert never == "even on the empty pool: needs 2 nodes with 8 free GPUs each, 1 has them"


def test_shares_are_compact_and_come_back_as_they_were() -> None:
    job = Sketch().job("x", group(4, gpus=2))
    straight = GangPlacement(tuple(TaskPlacement(index, index // 2, 3 << 2 * (index % 2)) for index in range(4)), False)
    assert encode_placement(straight) == (
        NodeShare(node=0, tasks="0-1", devices="0-3"),
        NodeShare(node=1, tasks="2-3", devices="0-3"),
    )
    crossed = GangPlacement(tuple(TaskPlacement(index, 0, 3 << 2 * (3 - index)) for index in range(4)), False)
    assert len(encode_placement(crossed)) == 4
    for place in (straight, crossed):
        assert tuple(decode_placement(job, encode_placement(place))) == place.tasks


@pytest.mark.parametrize(
    ("shares", "error"),
    [
        ([("0-1", "0-3")], "task 2 of job x has no place"),
        ([("0-2", "0-3")], "need 6 devices on node 0, got 4"),
        ([("0-1", "0-3"), ("1-2", "4-7")], "task 1 is placed twice"),
        ([("0-1", "0-3"), ("2", "3-4")], "device 3 of node 0 is assigned twice"),
        ([("0-3", "0-7")], "job x has 3 tasks, but no task 3"),
        ([("0-2", "60-65")], "node 0 has no device 65"),
        ([("0-2", "a")], "devices 'a'"),
        ([("0,0,1", "0-5")], "not in ascending order"),
        ([("0-2", "0-5"), ("", "")], "has no tasks"),
    ],
)
def test_malformed_shares_are_refused(shares, error: str) -> None:
    job = Sketch().job("x", group(3, gpus=2))
    with pytest.raises(ValueError, match=error):
        decode_placement(job, tuple(NodeShare(node=0, tasks=tasks, devices=devices) for tasks, devices in shares))


def test_spread_picks_the_node_with_most_free_gpus_for_each_task() -> None:
    sketch = Sketch()
    for name, gpus in (("a", 4), ("b", 8), ("c", 8)):
        sketch.node(name, gpus=gpus)
    sketch.running("some", "b", [0])
    spread = {"pack": "spread"}
    job = sketch.job("x", group(4, gpus=2))
    job.demand = job.demand.model_copy(update=spread)
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(job), StepBudget(10))
    assert isinstance(found, GangPlacement)
    assert [sketch.state.nodes[task.node].name for task in found.tasks] == ["c", "b", "c", "b"]
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"packing": "spread"})
    assert places(sketch, group(3, gpus=1))[0] == [("c", [0]), ("b", [1]), ("c", [1])]


def test_tasks_without_gpus_spread_by_free_cpu_and_still_shun_nodes_with_gpus() -> None:
    sketch = Sketch()
    sketch.state.policy = DEFAULT_POLICY.model_copy(update={"packing": "spread"})
    sketch.node("a", gpus=0, cpu=10)
    sketch.node("b", gpus=0, cpu=12)
    sketch.node("gpus", gpus=8, cpu=1000)
    assert [name for name, _ in places(sketch, group(4, cpu=2))[0]] == ["b", "a", "b", "a"]


def test_what_does_not_fit_now_because_of_memory_may_fit_on_a_less_packed_node() -> None:
    sketch = Sketch()
    for name in ("a", "b", "c"):
        sketch.node(name, gib=100)
    sketch.at(sketch.job("x", group(gpus=4, gib=90)), ("b", range(4)))
    assert places(sketch, group(gpus=1, gib=20)) == ([("a", [0])], False)
    assert places(sketch, group(gpus=1, gib=10)) == ([("b", [4])], False)


def test_cluster_resources_follow_the_pool_node_by_node() -> None:
    sketch = Sketch()
    for name in ("a", "b"):
        sketch.node(name, gpus=4)
    cluster = ClusterResources.of(sketch.state)
    assert isinstance(place_unit(cluster, requested_unit(sketch.job("trial", group(gpus=4))), StepBudget(10)), GangPlacement)
    job = sketch.running("x", "a", range(3))
    cluster.refresh(sketch.state, [0])
    assert (cluster.nodes[0].future.devices, cluster.nodes[1].future.devices) == (0b1000, 0b1111), "the trial is taken back"
    assert [room.devices for _, room in cluster.allocation_of(whole_job(job))] == [0b111]
    sketch.state.nodes[1].state = "lost"
    joined = sketch.node("c", gpus=2, labels={"zone": "z"})
    cluster.refresh(sketch.state, [1, joined.number])
    assert list(cluster.nodes) == [0, 2]
    found = place_unit(cluster, requested_unit(sketch.job("y", group(gpus=1, node_labels={"zone": "z"}))), StepBudget(10))
    assert isinstance(found, GangPlacement)
    assert found.tasks[0].node == 2
    cluster.refresh(sketch.state, [])
    sketch.state.nodes[0].quarantined = 0b1000
    cluster.refresh(sketch.state, [0])
    assert isinstance(place_unit(cluster, requested_unit(sketch.job("z", group(3, gpus=1))), StepBudget(10)), NoFit)
