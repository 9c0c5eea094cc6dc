"""How much is remembered decides nothing: with caches of one entry, and logs of changes of none, the same records follow."""

from importlib import import_module
from random import Random

import pytest
from tests.property.busy_stories import Busy
from tests.property.decided import _step
from tests.property.mig_worlds import Partitioned
from tests.property.placement_views import as_computed_anew
from tests.property.random_stories import Chance

SIZES = {
    "placement.cluster_resources": {"ELIGIBLE_CACHE_SIZE": 1, "MAX_CHANGES": 0},
    "placement.feasibility": {"CACHE_SIZE": 1},
    "placement.free_gpu_index": {"CACHE_SIZE": 1},
    "placement.node_index": {"INDEX_CACHE_SIZE": 1, "ORDER_CACHE_SIZE": 1},
    "placement.unschedulable_reasons": {"DIAGNOSTICS_CACHE_SIZE": 1},
    "quota.usage": {"MAX_JOURNAL": 0},
    "scheduling_snapshot.completion_forecast": {"CACHE_SIZE": 1},
}


def histories() -> list[list[object]]:
    """The records of some histories."""
    found = []
    for kind, shared in ((Chance, True), (Chance, False), (Partitioned, True)):
        random, chance = Random(11), kind(lambda story: as_computed_anew(story.state), shared=shared)
        for _ in range(30):
            chance.cycle([_step(random) for _ in range(random.randint(1, 3))])
        found.append(chance.story.records)
    random, busy = Random(12), Busy()
    busy.play([(random.randint(0, 15), random.randint(0, 9), random.randint(0, 7)) for _ in range(40)])
    return [*found, busy.story.records]  # type: ignore[list-item]


def test_small_caches_lead_to_the_same_records(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = histories()
    for name, sizes in SIZES.items():
        module = import_module(f"bailiff_core.{name}")
        for size, value in sizes.items():
            assert getattr(module, size) > value
            monkeypatch.setattr(module, size, value)
    assert histories() == expected
