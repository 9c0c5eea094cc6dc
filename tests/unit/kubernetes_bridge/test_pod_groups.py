"""Plain pods with Bailiff's label, alone and in groups."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import gated, job_object, message, plain_pod

from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.actions import Send, SetPodStatus


@pytest.fixture
def world():
    return World()


def test_a_group_is_submitted_once_all_its_pods_are_there(world):
    world.add(plain_pod("w-0", "ring", size=2, gpus=4))
    world.settle()
    assert world.jobs() == []
    assert message(world.pods["w-0"]) == "not submitted to test: 1 of its 2 pods are there"
    world.add(plain_pod("w-1", "ring", size=2, gpus=4))
    world.settle()
    assert world.job("ring").phase == "starting"
    assert world.job("ring").user == "kubernetes/ada"
    assert gated(world.pods.values()) == [False, False]
    assert {pod["metadata"]["annotations"][names.TASK][-4:] for pod in world.pods.values()} == {"-1-0", "-1-1"}
    assert {pod["metadata"]["annotations"][names.JOB] for pod in world.pods.values()} == {world.job("ring").id}


def test_pods_with_other_requests_are_task_groups_of_their_own(world):
    world.add(plain_pod("head", "ring", size=3, gpus=0), *(plain_pod(f"w-{n}", "ring", size=3, gpus=8) for n in range(2)))
    world.settle()
    assert sorted((group.count, group.gpu_milli) for group in world.job("ring").demand.tasks) == [(1, 0), (2, 8000)]
    assert gated(world.pods.values()) == [False] * 3


def test_a_pod_alone_is_a_job(world):
    world.add(plain_pod("debug", gpus=2))
    world.settle()
    assert (world.job("debug").size, world.job("debug").gpus) == (1, 2)
    assert gated(world.pods.values()) == [False]


def test_a_preempted_group_ends_and_is_submitted_anew_when_its_pods_are_made_anew(world):
    world.add(plain_pod("w-0", "ring", size=1, gpus=8))
    first = world.run("ring")
    assert first.demand.on_eviction == "end"
    world.story.evict(first.id)
    world.evicted("ring")
    world.settle()
    assert world.job("ring").id == first.id
    assert world.job("ring").ended_at is not None
    pod = plain_pod("w-0", "ring", size=1, gpus=8)
    pod["metadata"]["uid"] = "uid-again"
    world.add(pod)
    world.settle()
    assert (world.job("ring").id, world.job("ring").phase) == (f"{first.id}-2", "starting")


def test_a_plain_pod_that_fails_ends_its_job_and_asks_for_nothing_again(world):
    world.add(plain_pod("fails", gpus=1))
    first = world.run("fails")
    world.finish("fails", 0, code=1)
    world.settle()
    world.story.wait(600_000_000)
    world.story.submit("other")
    world.settle()
    jobs = world.story.state.jobs
    assert list(jobs) == [first.id, "other"]
    assert (jobs[first.id].phase, jobs[first.id].attempt) == ("failed", 1)


def test_a_group_of_plain_pods_ends_with_the_first_that_fails(world):
    world.add(plain_pod("w-0", "ring", size=2, gpus=4), plain_pod("w-1", "ring", size=2, gpus=4))
    first = world.run("ring")
    world.finish("ring", 0, code=1)
    world.story.begin(first.id)
    world.finish("ring", 1, code=143)
    world.settle()
    assert world.story.state.jobs[first.id].phase == "failed"


def test_a_pod_that_fails_is_made_anew_by_its_controller_for_the_next_attempt(world):
    world.add(controlled("w-0", "ring", 1, "u1"))
    first = world.run("ring")
    world.finish("ring", 0, code=1)
    assert first.phase not in ("failed", "succeeded")


def controlled(name, group, size, uid):
    pod = plain_pod(name, group, size, gpus=8)
    pod["metadata"] |= {"uid": uid, "ownerReferences": [{"kind": "Trainer", "name": "x", "uid": "x", "controller": True}]}
    return pod


def test_a_group_whose_controller_makes_its_pods_anew_keeps_its_place(world):
    world.add(controlled("w-0", "ring", 1, "u1"))
    first = world.run("ring")
    world.story.evict(first.id)
    world.evicted("ring")
    world.settle()
    assert not world.job("ring").cancelled
    world.add(controlled("w-1", "ring", 1, "u2"))
    world.settle()
    assert (world.job("ring").id, world.job("ring").attempt) == (first.id, 2)
    assert gated(world.pods.values()) == [False]


def test_a_group_that_nobody_makes_anew_is_cancelled_after_ten_minutes(world):
    world.add(controlled("w-0", "ring", 1, "u1"))
    first = world.run("ring")
    world.story.pause(first.id)  # so that its next attempt does not start without pods
    world.evicted("ring")
    world.settle()
    assert not world.job("ring").cancelled
    world.story.wait(700_000_000)
    world.story.submit("other")
    world.settle()
    assert world.story.state.jobs[first.id].cancelled


def test_a_deleted_group_is_cancelled(world):
    world.add(plain_pod("w-0", "ring", size=1))
    world.run("ring")
    world.pods.clear()
    world.settle()
    assert world.job("ring").cancelled
    assert world.job("ring").request_reason == "the Pod was deleted"


def test_cancelled_in_bailiff_its_gated_pods_are_deleted(world):
    world.add(plain_pod("w-0", "a", size=1, gpus=8), plain_pod("x-0", "b", size=1, gpus=8))
    world.run("a")
    world.run("b")
    world.add(plain_pod("y-0", "c", size=1, gpus=8))
    world.settle()
    assert gated([world.pods["y-0"]]) == [True]
    world.story.cancel(world.job("c").id)
    world.settle()
    assert "y-0" not in world.pods


def test_pods_of_a_group_are_told_by_whom_they_are_preempted_also_while_they_are_being_deleted(world):
    """They have no object of their own that could have the Event."""
    world.add(*(plain_pod(f"ring-{n}", "ring", size=2, gpus=8) for n in range(2)))
    world.run("ring")
    world.add(job_object("serve", pods=2, gpus=8, labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    world.story.propose()
    first, second = world.pods_of("ring")
    second["metadata"]["deletionTimestamp"] = "now"
    world.settle()
    for pod in (first, second):
        assert f"is preempted by {world.job('serve').id} (class inference, priority" in message(pod)
        assert "; it ends, because nobody makes its pods anew (test#" in message(pod)
        assert [line for uid, line in world.events if uid == pod["metadata"]["uid"] and line.startswith("Preempted")] == [
            f"Preempted: {message(pod)}"
        ]


def test_a_pod_alone_that_waits_names_its_job_in_the_write_that_says_why(world):
    world.add(plain_pod("w-0", gpus=8), plain_pod("x-0", gpus=8), plain_pod("y-0", gpus=8))
    world.step([action for action in world.due() if isinstance(action, Send)])
    (waits,) = [action for action in world.due() if isinstance(action, SetPodStatus)]
    world.step([waits])
    assert world.pods[waits.pod.name]["metadata"]["annotations"][names.JOB] == world.job(waits.pod.name).id


def test_a_pod_alone_whose_job_was_cancelled_at_once_is_deleted_and_not_submitted_again(world):
    world.add(plain_pod("w-0", gpus=8), plain_pod("x-0", gpus=8))
    world.settle()
    world.add(plain_pod("y-0", gpus=8))
    world.step([action for action in world.due() if isinstance(action, Send)])
    world.story.cancel(world.job("y-0").id)
    world.settle()
    assert "y-0" not in world.pods
    assert len(world.jobs()) == 3


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([plain_pod("a", "ring", 2), plain_pod("b", "ring", 2, user="bob")], "its pods were created by several users"),
        ([plain_pod("a", "ring", 2), plain_pod("b", "ring", 3)], "all pods of a group need the same bailiff.io/gang-size"),
        ([plain_pod("a", user="")], "nobody vouches for who created it"),
    ],
)
def test_what_cannot_be_submitted_is_explained(world, pods, reason):
    world.add(*pods)
    world.settle()
    assert world.jobs() == []
    assert reason in message(world.pods["a"])
