"""A node that no job can use changes no share and no quota in force."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.snapshots import snapshot
from tests.property.small_worlds import Fields, memory_world, small_world

from bailiff_core.plan import Planning
from bailiff_core.quota.fair_share import Entitlements
from bailiff_core.scheduling_snapshot import current_snapshot

OTHER = {"name": "zz", "gpus": 8, "gpu_model": "other", "gpu_memory": "8GiB", "cpus": 512, "memory": "4TiB"}


def entitled(document: Fields) -> Entitlements:
    return current_snapshot(Planning(snapshot(document)).state).usage.entitlements


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from([small_world, memory_world]))
def test_a_node_that_no_job_can_use_changes_no_share(seed: int, world: Any) -> None:
    document, waves = world(Random(seed))
    nodes = [{**node, "gpu_model": "asked"} for node in document["nodes"]]
    document |= {"nodes": nodes, "jobs": [{**job, "gpu_models": ["asked"]} for wave in waves for job in wave]}
    assert entitled(document) == entitled({**document, "nodes": [*nodes, OTHER]})
