"""A change of one workload costs a look at one workload, however many there are."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object
from tests.kits.bridge_rounds import Rounds

from bailiff_kubernetes_bridge.evaluation import ALL_EVERY_S
from bailiff_kubernetes_bridge.work_queue import NODES

JOBS = [f"job-{number}" for number in range(6)]


@pytest.fixture
def world() -> World:
    world = World()
    for name in JOBS:
        world.add(job_object(name, pods=1, gpus=2))
    world.settle()
    return world


@pytest.fixture
def rounds(world: World) -> Rounds:
    rounds = Rounds(world)
    assert rounds.round() == {*map(uid_in(world), JOBS), NODES}, "the first one looks at everything"
    return rounds


def uid_in(world: World):
    return lambda name: world.objects[name]["metadata"]["uid"]


def test_without_a_change_nothing_is_looked_at(rounds: Rounds) -> None:
    assert rounds.round() == set()


def test_a_pod_that_changes_is_looked_at_with_its_workload(world: World, rounds: Rounds) -> None:
    [pod] = world.pods_of("job-3")
    pod["metadata"]["annotations"]["somebody/else"] = "was here"
    assert rounds.round() == {uid_in(world)("job-3")}


def test_a_record_about_a_job_is_about_its_workload(world: World, rounds: Rounds) -> None:
    world.story.started(world.job("job-2").id)
    assert rounds.round() == {uid_in(world)("job-2")}


def test_a_workload_that_is_new_or_gone_is_looked_at(world: World, rounds: Rounds) -> None:
    gone = uid_in(world)("job-1")
    world.delete("job-1")
    world.add(job_object("another", pods=1, gpus=2))
    assert rounds.round() == {gone, uid_in(world)("another")}


def test_a_drain_is_about_nodes(world: World, rounds: Rounds) -> None:
    world.nodes["n1"]["spec"]["unschedulable"] = True
    assert rounds.round() == {NODES}


def test_from_time_to_time_everything_is_looked_at(world: World, rounds: Rounds) -> None:
    rounds.time += ALL_EVERY_S
    assert rounds.round() == {*map(uid_in(world), JOBS), NODES}
