"""place_unit against an exhaustive search, and the rules that every placement keeps."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import requested_unit
from tests.property.small_pools import fits, random_pool, tight_pool

from bailiff_core.placement import (
    ClusterResources,
    GangPlacement,
    NoFit,
    StepBudget,
    decode_placement,
    encode_placement,
    place_unit,
)

SEEDS = st.integers(0, 2**48)


def check(seed: int) -> None:
    sketch, preemptor = random_pool(Random(seed))
    state = sketch.state
    cluster = ClusterResources.of(state)
    before = [(node.unallocated, node.future) for node in cluster.nodes.values()]
    found = place_unit(cluster, requested_unit(preemptor), StepBudget(20_000))
    if isinstance(found, NoFit):
        assert [(node.unallocated, node.future) for node in cluster.nodes.values()] == before
        assert found.why
        if found.kind == "impossible":
            assert not fits(state, preemptor, frozenset())
        else:
            assert "found no place" in found.why
        return
    if fits(state, preemptor, frozenset(), now=True):
        assert not found.future
    never_overfills(state, preemptor, found)
    assert tuple(decode_placement(preemptor, encode_placement(found))) == found.tasks
    for node in cluster.nodes.values():
        assert not node.future.devices & ~node.usable
        assert min(node.future.cpu_milli, node.future.slots) >= 0
    cluster.rollback(0)
    assert [(node.unallocated, node.future) for node in cluster.nodes.values()] == before


def never_overfills(pool, preemptor, found: GangPlacement, gone=()) -> None:
    """Check capacities from the jobs, not from the nodes' sums: after all evictions, and now if it starts at once."""
    stand_on(pool, preemptor, found, [job for job in pool.jobs.values() if job.id not in gone and job.phase != "evicting"])
    if not found.future:
        stand_on(pool, preemptor, found, [job for job in pool.jobs.values() if job.phase != "reserved"])


def stand_on(pool, preemptor, found: GangPlacement, others) -> None:
    assert [task.index for task in found.tasks] == list(range(preemptor.size))
    for node in pool.nodes.values():
        busy, cpu, slots = 0, 0, 0
        for job in others:
            for task, need in zip(job.tasks, job.groups(), strict=False):
                if task.node == node.number:
                    busy, cpu, slots = busy | task.devices, cpu + need.cpu_milli, slots + 1
        for task, need in zip(found.tasks, preemptor.groups(), strict=True):
            if task.node != node.number:
                continue
            assert task.devices.bit_count() * 1000 == need.gpu_milli
            assert not task.devices & busy
            assert not need.gpu_milli or not task.devices & ~node.capacity.devices
            assert all(node.labels.get(key) == value for key, value in need.node_labels.items())
            assert not need.nodes or node.name in need.nodes
            models = [device.model for device in node.devices if task.devices >> device.number & 1]
            assert not need.gpu_models or all(model in need.gpu_models for model in models)
            busy, cpu, slots = busy | task.devices, cpu + need.cpu_milli, slots + 1
        assert cpu <= node.capacity.cpu_milli
        assert slots <= node.capacity.slots


@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_a_gang_is_placed_exactly_when_a_placement_exists(seed: int) -> None:
    check(seed)


@settings(max_examples=600, deadline=None)
@given(seed=SEEDS)
def test_mixed_gangs_are_placed_exactly_when_a_placement_exists(seed: int) -> None:
    sketch, preemptor = tight_pool(Random(seed))
    found = place_unit(ClusterResources.of(sketch.state), requested_unit(preemptor), StepBudget(100_000))
    possible = fits(sketch.state, preemptor, frozenset())
    if isinstance(found, NoFit):
        assert found.kind == "impossible"
        assert not possible
    else:
        assert possible
        never_overfills(sketch.state, preemptor, found)


@pytest.mark.long
@settings(max_examples=30_000, deadline=None)
@given(seed=SEEDS)
def test_a_gang_is_placed_exactly_when_a_placement_exists_at_length(seed: int) -> None:
    check(seed)
