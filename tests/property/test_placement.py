"""place_unit against an exhaustive search, and the rules that every placement keeps."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import asking
from tests.property.small_pools import fits, random_pool, tight_pool

from bailiff_core.placement import Budget, GangPlace, NoFit, Rooms, from_shares, place_unit, to_shares

SEEDS = st.integers(0, 2**48)


def check(seed: int) -> None:
    sketch, asker = random_pool(Random(seed))
    pool = sketch.pool
    rooms = Rooms.of(pool)
    before = [(node.unheld, node.later) for node in rooms.nodes.values()]
    found = place_unit(rooms, asking(asker), Budget(20_000))
    if isinstance(found, NoFit):
        assert [(node.unheld, node.later) for node in rooms.nodes.values()] == before
        assert found.why
        if found.kind == "impossible":
            assert not fits(pool, asker, frozenset())
        else:
            assert "found no place" in found.why
        return
    if fits(pool, asker, frozenset(), now=True):
        assert not found.later
    never_overfills(pool, asker, found)
    assert tuple(from_shares(asker, to_shares(found))) == found.tasks
    for node in rooms.nodes.values():
        assert not node.later.devices & ~node.usable
        assert min(node.later.cpu_milli, node.later.slots) >= 0
    rooms.rollback(0)
    assert [(node.unheld, node.later) for node in rooms.nodes.values()] == before


def never_overfills(pool, asker, found: GangPlace, gone=()) -> None:
    """Counted from the jobs, not from the nodes' sums: in the end, and if it starts at once, now."""
    stand_on(pool, asker, found, [job for job in pool.jobs.values() if job.id not in gone and job.phase != "evicting"])
    if not found.later:
        stand_on(pool, asker, found, [job for job in pool.jobs.values() if job.phase != "reserved"])


def stand_on(pool, asker, found: GangPlace, others) -> None:
    assert [task.index for task in found.tasks] == list(range(asker.size))
    for node in pool.nodes.values():
        busy, cpu, slots = 0, 0, 0
        for job in others:
            for task, need in zip(job.tasks, job.groups(), strict=False):
                if task.node == node.number:
                    busy, cpu, slots = busy | task.devices, cpu + need.cpu_milli, slots + 1
        for task, need in zip(found.tasks, asker.groups(), strict=True):
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
def test_a_gang_is_placed_exactly_when_it_can_be(seed: int) -> None:
    check(seed)


@settings(max_examples=600, deadline=None)
@given(seed=SEEDS)
def test_mixed_gangs_are_packed_exactly_when_they_can_be(seed: int) -> None:
    sketch, asker = tight_pool(Random(seed))
    found = place_unit(Rooms.of(sketch.pool), asking(asker), Budget(100_000))
    possible = fits(sketch.pool, asker, frozenset())
    if isinstance(found, NoFit):
        assert found.kind == "impossible"
        assert not possible
    else:
        assert possible
        never_overfills(sketch.pool, asker, found)


@pytest.mark.long
@settings(max_examples=30_000, deadline=None)
@given(seed=SEEDS)
def test_a_gang_is_placed_exactly_when_it_can_be_at_length(seed: int) -> None:
    check(seed)
