"""Evictions of Kubernetes (KEP-4563): the pod's job saves and leaves before the next responder has its turn."""

from typing import Any

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import job_object, replicas_object
from tests.kits.bridge_rounds import Rounds

from bailiff_core.records.job_requests import EvictJob
from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.responder import TOO_LATE, WITHDRAWN


@pytest.fixture
def world() -> World:
    world = World()
    world.add(job_object("train", pods=2, gpus=4))
    world.run("train")
    return world


def asked_for(pod: dict[str, Any], state: str = "Active") -> dict[str, Any]:
    """An Eviction as its controller leaves it when it is Bailiff's turn."""
    return {
        "metadata": {"name": "e1", "namespace": "team-a", "uid": "e1", "resourceVersion": "1"},
        "spec": {"target": {"pod": {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}},
        "status": {
            "requesters": [{"name": "acme.io/drainer", "intent": "Eviction"}, {"name": "acme.io/not", "intent": "Withdrawn"}],
            "targetResponders": [{"name": names.RESPONDER, "priority": 20000, "state": state}],
            "responders": [{"name": names.RESPONDER}],
        },
    }


def answer(world: World) -> dict[str, Any]:
    return world.evictions[0]["status"]["responders"][0]


def test_the_job_is_evicted_whole_and_the_answer_says_what_becomes_of_it(world: World) -> None:
    pod = world.pods_of("train-0")[0]
    world.evictions = [asked_for(pod)]
    world.settle()
    (asked,) = [send.body for send in world.sent if isinstance(send.body, EvictJob)]
    assert (asked.job, asked.reason) == (world.job("train").id, "EvictionRequest of acme.io/drainer")
    assert world.job("train").phase == "evicting"
    assert "is evicted" in answer(world)["message"]
    assert "EvictionRequest of acme.io/drainer" in answer(world)["message"]
    assert "completionTime" not in answer(world), "it saves"
    pod["status"]["phase"] = "Failed"
    world.settle()
    assert (answer(world)["message"], "completionTime" in answer(world)) == ("its containers have ended", True)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_request_that_everybody_has_withdrawn_evicts_nobody(world: World, is_late: bool) -> None:
    eviction = asked_for(world.pods_of("train-0")[0])
    withdrawn = {"name": "acme.io/drainer", "intent": "Withdrawn"}
    if not is_late:
        eviction["status"]["requesters"][0] = withdrawn
    world.evictions = [eviction]
    world.settle()
    eviction["status"]["requesters"][0] = withdrawn
    world.settle()
    assert answer(world)["message"] == (TOO_LATE if is_late else WITHDRAWN)
    assert "completionTime" not in answer(world)
    assert world.job("train").phase == ("evicting" if is_late else "running")


def test_one_request_evicts_a_job_once(world: World) -> None:
    world.evictions = [asked_for(world.pods_of("train-0")[0])]
    world.settle()
    world.evicted("train")
    world.run("train")
    assert world.job("train").attempt == 2
    assert len([send for send in world.sent if isinstance(send.body, EvictJob)]) == 1


def test_a_pod_that_waits_in_its_gate_has_nothing_to_save(world: World) -> None:
    world.add(job_object("next", pods=2, gpus=8))
    world.settle()
    world.evictions = [asked_for(world.pods_of("next")[0])]
    world.settle()
    assert (answer(world)["message"], "completionTime" in answer(world)) == ("nothing of it runs that could save", True)
    assert not [send for send in world.sent if isinstance(send.body, EvictJob)]


@pytest.mark.parametrize("state", ["Inactive", "Interrupted", "Canceled", "Completed"])
def test_when_it_is_not_its_turn_nothing_happens(world: World, state: str) -> None:
    world.evictions = [asked_for(world.pods_of("train")[0], state)]
    assert world.due() == []


def test_an_eviction_is_looked_at_with_its_pods_workload(world: World) -> None:
    rounds = Rounds(world)
    rounds.round()
    assert rounds.round() == set()
    world.evictions = [asked_for(world.pods_of("train")[0])]
    assert rounds.round() == {world.objects["train"]["metadata"]["uid"]}


def test_of_a_job_that_serves_the_next_responder_ends_the_one_replica() -> None:
    world = World()
    world.add(replicas_object("ReplicaSet", "web", 2))
    job = world.run("web")
    world.evictions = [asked_for(world.pods_of("web")[0])]
    world.settle()
    assert not [send for send in world.sent if isinstance(send.body, EvictJob)]
    assert answer(world)["message"] == "its controller makes it anew, and the other replicas run on"
    assert "completionTime" in answer(world)
    assert job.phase == "running"
