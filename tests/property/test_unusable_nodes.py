"""A node that no job can use changes nothing, and one that a job could use lets nobody wait for ever who ran without it."""

from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.snapshots import snapshot
from tests.property.small_worlds import Fields, memory_world, small_world

from bailiff_core.plan import Planning, run
from bailiff_core.quota.fair_share import Entitlements
from bailiff_core.scheduling_snapshot import current_snapshot

OTHER = {"name": "zz", "gpus": 8, "gpu_model": "other", "gpu_memory": "8GiB", "cpus": 512, "memory": "4TiB"}
MINUTE = 60_000_000


def entitled(document: Fields) -> Entitlements:
    return current_snapshot(Planning(snapshot(document)).state).usage.entitlements


def decided(document: Fields) -> Iterator[Any]:
    """What becomes of each task in some rounds, and by which action."""
    for found in run(snapshot(document), rounds=3, step=40 * MINUTE).rounds:
        yield found.tasks, [(line.action, line.job, line.tasks, line.outcome) for line in found.decisions]


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from([small_world, memory_world]))
def test_a_node_that_no_job_can_use_changes_no_share_and_no_decision(seed: int, world: Any) -> None:
    document, waves = world(Random(seed))
    nodes = [{**node, "gpu_model": "asked"} for node in document["nodes"]]
    document |= {"nodes": nodes, "jobs": [{**job, "gpu_models": ["asked"]} for wave in waves for job in wave]}
    assert entitled(document) == entitled({**document, "nodes": [*nodes, OTHER]})
    assert list(decided(document)) == list(decided({**document, "nodes": [*nodes, OTHER]}))


def gets_a_place(document: Fields) -> bool:
    """Whether the pending job is placed, or gets the place of others."""
    return any(line.job == "a1" and line.after.state != "pending" for line in run(snapshot(document)).rounds[0].tasks)


@examples(150)
@given(st.integers(0, 2**32))
def test_a_job_that_reclaims_for_bytes_of_a_device_does_so_beside_smaller_devices_that_are_taken(seed: int) -> None:
    random = Random(seed)
    nodes = [
        {"name": f"n{at}", "gpus": random.choice((1, 2)), "gpu_memory": random.choice(("40GiB", "80GiB"))} for at in range(2)
    ]
    quota = random.choice((0, 0.5, 1, 1.5, 2))
    rest = sum(node["gpus"] for node in nodes) - quota
    projects: list[Fields] = [
        {"name": "a", "quota": {"gpus": quota}, "over_quota_weight": random.choice((0, 0, 1))},
        {"name": "b", "quota": {"gpus": random.choice((0, rest / 2, rest))}},
    ]
    jobs: list[Fields] = [
        {"name": f"b{node['name']}{at}", "project": "b", "gpus": 1, "node": node["name"]}
        for node in nodes
        for at in range(node["gpus"])
    ]
    asks = {
        "name": "a1",
        "project": "a",
        "gpu_memory": random.choice(("10GiB", "20GiB", "40GiB")),
        "tasks": random.choice((1, 2)),
    }
    document: Fields = {"nodes": nodes, "projects": projects, "jobs": [*jobs, asks]}
    taken = {"name": "taken", "gpus": 2, "gpu_memory": random.choice(("16GiB", "24GiB", "40GiB"))}
    keeps = {"name": "keeps", "project": "z", "gpus": 2, "node": "taken", "preemptible": False}
    more = {"nodes": [*nodes, taken], "projects": [*projects, {"name": "z", "quota": {"gpus": 2}}], "jobs": [*jobs, asks, keeps]}
    assert gets_a_place(more) or not gets_a_place(document)
