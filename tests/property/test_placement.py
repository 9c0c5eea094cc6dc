"""place_unit against an exhaustive search, and the rules that every placement keeps."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.builders import requested_unit
from tests.kits.examples import examples
from tests.property.placements import never_overfills
from tests.property.small_pools import fits, random_pool, tight_pool

from bailiff_core.placement import ClusterResources, NoFit, StepBudget, decode_placement, encode_placement, place_unit

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


@examples(400)
@given(seed=SEEDS)
def test_a_gang_is_placed_exactly_when_a_placement_exists(seed: int) -> None:
    check(seed)


@examples(600)
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
