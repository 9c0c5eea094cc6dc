"""What `kubectl get bailiffjobs` shows, and how many requests that costs."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object, plain_pod
from tests.kits.bridge_rounds import Rounds

from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.actions import Show
from bailiff_kubernetes_bridge.messages import POSITIONS

URGENT = {names.PRIORITY_CLASS: "inference"}


@pytest.fixture
def world() -> World:
    return World()


def columns(world: World, name: str) -> dict[str, object]:
    """Without the texts."""
    return {key: value for key, value in world.shown[name]["status"].items() if key not in ("message", "pool", "job")}


def test_a_jobs_state_is_in_columns_from_the_queue_to_its_end(world: World) -> None:
    world.add(job_object("train", pods=2, gpus=8))
    world.run("train")
    assert columns(world, "job-train") == {"state": "Placed", "class": "train", "gpus": 16, "node": "n1, n2"}
    world.add(job_object("serve", pods=2, gpus=6, labels=URGENT))
    world.settle()
    assert columns(world, "job-serve") == {"state": "Pending", "position": 1, "class": "inference", "gpus": 12}
    world.story.propose()
    world.settle()
    assert columns(world, "job-serve") == {"state": "Reserved", "class": "inference", "gpus": 12, "reserved": "n1, n2"}
    by = {"preemptedBy": world.job("serve").id}
    assert columns(world, "job-train") == {"state": "Preempted", "class": "train", "gpus": 16, "node": "n1, n2", **by}
    world.evicted("train")
    world.settle()
    assert columns(world, "job-train") == {"state": "Pending", "position": 1, "class": "train", "gpus": 16, **by}
    world.run("serve")
    for index in (0, 1):
        world.finish("serve", index)
    world.run("train")
    assert columns(world, "job-train") == {"state": "Placed", "class": "train", "gpus": 16, "node": "n1, n2"}
    assert columns(world, "job-serve")["state"] == "Succeeded"


def test_it_is_owned_by_the_workload_and_goes_with_it(world: World) -> None:
    world.add(job_object("train"))
    world.settle()
    (owner,) = world.shown["job-train"]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": world.objects["train"]["metadata"]["uid"]}
    world.delete("train")
    world.settle()
    assert not world.shown


def test_that_of_a_pod_group_is_made_anew_for_pods_that_are_made_anew(world: World) -> None:
    world.add(*(plain_pod(f"ring-{n}", "ring", size=2, gpus=4) for n in range(2)))
    world.settle()
    assert columns(world, "podgroup-ring")["gpus"] == 8
    for pod in world.pods_of("ring"):
        del world.pods[pod["metadata"]["name"]]
    world.controllers()
    assert not world.shown
    pods = [plain_pod(f"ring-{n}", "ring", size=2, gpus=4) for n in range(2)]
    for pod in pods:
        pod["metadata"]["uid"] += "-again"
    world.add(*pods)
    world.settle()
    assert {owner["uid"] for owner in world.shown["podgroup-ring"]["metadata"]["ownerReferences"]} == {
        "uid-ring-0-again",
        "uid-ring-1-again",
    }


def test_two_kinds_may_use_one_name(world: World) -> None:
    world.add(job_object("a"), plain_pod("a"))
    world.settle()
    assert sorted(world.shown) == ["job-a", "pod-a"]


def test_two_long_names_that_begin_alike_have_an_object_each(world: World) -> None:
    for last in "ab":
        world.add(plain_pod(252 * "x" + last))
    world.settle()
    assert len(world.shown) == 2
    assert all(len(name) <= 253 for name in world.shown)


def test_a_job_that_leaves_the_queue_costs_a_request_for_each_place_that_is_shown_and_no_more(world: World) -> None:
    world.add(job_object("big", pods=2, gpus=8))
    world.run("big")
    waiting = [f"job-{number:02}" for number in range(POSITIONS + 5)]
    for name in waiting:
        world.add(job_object(name, gpus=8))
    world.settle()
    assert [columns(world, f"job-{name}").get("position") for name in waiting] == [*range(1, POSITIONS + 1), *[None] * 5]
    rounds = Rounds(world)
    rounds.round()
    world.story.cancel(world.job(waiting[0]).id)
    rounds.round()
    due = [action.item["metadata"]["name"] for action in rounds.due() if isinstance(action, Show)]
    assert len(due) == POSITIONS + 1
    world.settle()
    assert columns(world, f"job-{waiting[POSITIONS]}")["position"] == POSITIONS


def test_without_the_kind_in_the_cluster_nothing_is_shown(world: World) -> None:
    view = world.view
    world.view = lambda memo=None: type(view())(view().workloads, view().pods, view().kinds, view().nodes)
    world.add(job_object("train"))
    world.settle()
    assert not world.shown
