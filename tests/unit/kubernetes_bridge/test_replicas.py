"""ReplicaSets and StatefulSets: their pods are one job, of which any may be missing while its minimum runs."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import budget_object, gated, job_object, message, replicas_object

from bailiff_core.records.job_requests import CancelJob, ScaleJob
from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.annotations import DELETION_COST, POD_GROUP
from bailiff_kubernetes_bridge.workloads.adapters import LWS_NAME


@pytest.fixture
def world():
    return World()


def runs(world, name="web"):
    """All pods whose gates are open run, and their agents have said so."""
    for _ in range(5):
        world.settle()
        for job in world.jobs():
            if any(task.state == "starting" for task in job.tasks):
                world.story.started(job.id)
    world.settle()
    return world.job(name)


def running(job):
    return [task.index for task in job.tasks if task.state == "running"]


def test_the_replicas_are_one_job_of_their_user(world):
    world.add(replicas_object("ReplicaSet", "web", 3, gpus=2))
    job = runs(world)
    assert len(world.jobs()) == 1
    assert (job.user, job.size, job.minimum, job.gpus) == ("kubernetes/ada", 3, 1, 6)
    assert running(job) == [0, 1, 2]
    assert not world.objects["web"]["metadata"]["annotations"], "its Deployment would overwrite it"
    assert message(world.pods_of("web")[0]).startswith(f"task 0 of {job.id}, attempt 1, starts on ")
    assert world.shown["replicaset-web"]["status"]["gpus"] == 6


def test_those_run_for_which_there_is_room_and_the_others_wait(world):
    world.add(replicas_object("ReplicaSet", "web", 5, gpus=4))
    job = runs(world)
    assert running(job) == [0, 1, 2, 3]
    assert sorted(gated(world.pods_of("web"))) == [False] * 4 + [True]


def test_a_preemption_takes_the_last_replicas_first_and_they_come_back_in_the_same_job(world):
    world.add(replicas_object("ReplicaSet", "web", 4, gpus=4))
    job = runs(world)
    world.add(job_object("urgent", gpus=8, labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    world.story.propose()
    world.settle()
    leaving = [task.index for task in job.tasks if task.eviction is not None]
    assert len(leaving) == 2
    assert 0 not in leaving
    assert job.eviction is None
    for pod in [pod for pod in world.pods_of("web") if pod["metadata"]["annotations"][names.TASK][-1] in map(str, leaving)]:
        assert f"is preempted by {world.job('urgent').id}" in message(pod)
        assert "its other pods run on" in message(pod)
        del world.pods[pod["metadata"]["name"]]
    world.controllers()
    world.story.yields(job.id)
    runs(world)
    assert world.job("urgent").phase == "running"
    assert (running(job), job.attempt, job.size) == ([index for index in range(4) if index not in leaving], 1, 4)
    assert gated(world.pods_of("web")).count(True) == 2
    world.finish("urgent", 0)
    world.delete("urgent")
    runs(world)
    assert (world.job("web").id, running(job), job.attempt) == (job.id, [0, 1, 2, 3], 1)


def test_preempted_whole_it_keeps_its_place_before_a_job_that_came_later(world):
    world.budgets = [budget_object("web", minAvailable=2)]
    world.add(replicas_object("ReplicaSet", "web", 2, gpus=8))
    job = runs(world)
    world.add(job_object("later", pods=2, gpus=8), job_object("urgent", gpus=8, labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    world.story.propose()
    world.evicted("web")
    runs(world)
    assert (world.job("urgent").phase, job.phase) == ("running", "pending")
    world.finish("urgent", 0)
    runs(world)
    assert (world.job("web").id, job.attempt, running(job)) == (job.id, 2, [0, 1])
    assert world.job("later").phase == "pending"


def test_it_is_scaled_with_its_object_and_the_replica_that_goes_is_the_last_one(world):
    world.add(replicas_object("ReplicaSet", "web", 2))
    job = runs(world)
    world.change("web", replicas=4)
    runs(world)
    assert (job.size, running(job)) == (4, [0, 1, 2, 3])
    assert [int(pod["metadata"]["annotations"][DELETION_COST]) for pod in world.pods_of("web")] == [0, -1, -2, -3]
    world.change("web", replicas=3)
    runs(world)
    assert (job.size, running(job)) == (3, [0, 1, 2])
    assert len(world.pods) == 3


def test_a_pod_that_is_deleted_is_made_anew_and_stops_no_other(world):
    world.add(replicas_object("ReplicaSet", "web", 3))
    job = runs(world)
    world.delete_pod(world.pods_of("web")[0]["metadata"]["name"], code=0)
    world.controllers()
    runs(world)
    assert (running(job), job.attempt) == ([1, 2], 1)
    world.story.wait(16_000_000)
    runs(world)
    assert (running(job), job.attempt, len(world.jobs())) == ([0, 1, 2], 1, 1)


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_no_pod_takes_the_place_of_one_whose_devices_are_not_proven_free(world, phase):
    world.add(replicas_object("ReplicaSet", "web", 2, gpus=8))
    job = runs(world)
    old = world.pods_of("web")[0]
    old["metadata"] |= {"deletionTimestamp": "now", "finalizers": [names.FINALIZER]}
    old["status"]["phase"] = phase
    world.controllers()
    runs(world)
    assert sorted(gated(world.pods_of("web"))) == [False, False, True]
    del world.pods[old["metadata"]["name"]]
    world.story.ends(job.id, 0, 0)
    world.story.wait(16_000_000)
    assert running(runs(world)) == [0, 1]
    assert gated(world.pods_of("web")) == [False, False]


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        ({"minAvailable": 3}, 3),
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "51%"}, 3),
        ({"maxUnavailable": 1}, 3),
        ({"maxUnavailable": "25%"}, 3),
        ({"maxUnavailable": "100%"}, 1),
        ({"minAvailable": 9}, 4),
    ],
)
def test_its_minimum_is_what_its_disruption_budget_keeps(world, spec, minimum):
    world.budgets = [budget_object("web", **spec), budget_object("other", minAvailable=1)]
    world.add(replicas_object("ReplicaSet", "web", 4))
    assert runs(world).minimum == minimum


def test_its_label_goes_before_its_budget(world):
    world.budgets = [budget_object("web", minAvailable=3)]
    item = replicas_object("ReplicaSet", "web", 4)
    item["metadata"]["labels"][names.MIN_TASKS] = "2"
    world.add(item)
    assert runs(world).minimum == 2


def test_of_a_job_that_runs_a_budget_lowers_the_minimum_and_of_one_that_waits_it_raises_it(world):
    world.budgets = [budget_object("web", minAvailable=3)]
    world.add(replicas_object("ReplicaSet", "web", 4, gpus=4))
    job = runs(world)
    world.budgets = [budget_object("web", minAvailable=2)]
    runs(world)
    assert (job.minimum, running(job)) == (2, [0, 1, 2, 3])
    world.budgets = [budget_object("web", minAvailable=4)]
    runs(world)
    assert job.minimum == 2
    world.story.pause(job.id)
    world.evicted("web")
    world.settle()
    assert (job.phase, job.minimum) == ("paused", 4)


def test_scaled_to_0_its_job_is_cancelled_and_scaled_up_again_it_is_another_one(world):
    world.add(replicas_object("ReplicaSet", "web", 2))
    first = runs(world)
    world.change("web", replicas=0)
    runs(world)
    assert (first.phase, [send.body.reason for send in world.sent if isinstance(send.body, CancelJob)]) == (
        "cancelled",
        ["it was scaled to 0"],
    )
    world.change("web", replicas=1)
    again = runs(world)
    assert (again.id, running(again)) == (f"{first.id}-2", [0])


def test_cancelled_in_bailiff_its_pods_are_another_job_as_its_controller_makes_them_anew(world):
    world.add(replicas_object("ReplicaSet", "web", 1))
    first = runs(world)
    world.story.cancel(first.id)
    world.evicted("web")
    again = runs(world)
    assert (first.phase, again.id, running(again)) == ("cancelled", f"{first.id}-2", [0])


def test_nothing_is_reserved_for_replicas_that_a_quota_forbids(world):
    item = replicas_object("ReplicaSet", "web", 3, gpus=8)
    world.objects["web"] = item
    world._make_replica(item, "web-a")
    made, world.controllers = world.controllers, lambda: None
    job = runs(world)
    assert (job.size, running(job)) == (1, [0])
    world.controllers = made
    world.controllers()
    runs(world)
    assert (job.size, running(job)) == (3, [0, 1])


def test_a_stateful_set_that_makes_one_pod_after_the_other_grows_with_them(world):
    world.add(replicas_object("StatefulSet", "db", 3))
    job = runs(world, "db")
    assert (job.size, job.minimum, running(job)) == (3, 1, [0, 1, 2])
    assert [send.body.tasks for send in world.sent if isinstance(send.body, ScaleJob)] == [2, 3]
    for index, pod in enumerate(world.pods_of("db")):
        assert pod["metadata"]["annotations"][names.TASK] == f"{job.id}-1-{index}"


def test_of_its_pods_none_has_a_place_before_it_is_there_again(world):
    world.add(replicas_object("StatefulSet", "db", 2, gpus=8))
    job = runs(world, "db")
    world.story.evict(job.id)
    made, world.controllers = world.controllers, lambda: None
    world.settle()
    world.pods.clear()
    world.settle()
    world.story.yields(job.id)
    world.settle()
    assert (job.phase, job.size) == ("paused", 1)
    world.controllers = made
    world.controllers()
    assert (running(runs(world, "db")), job.size, job.attempt) == ([0, 1], 2, 2)


def test_a_stateful_set_cannot_have_pods_at_once_that_it_makes_one_after_the_other(world):
    item = replicas_object("StatefulSet", "db", 3)
    item["metadata"]["labels"][names.MIN_TASKS] = "2"
    world.add(item)
    world.settle()
    assert not world.jobs()
    assert "set podManagementPolicy: Parallel to have 2 at once" in message(world.pods["db-0"])
    world.change("db", podManagementPolicy="Parallel")
    assert runs(world, "db").minimum == 2


def test_the_stateful_sets_of_a_leader_worker_set_are_no_jobs_of_their_own(world):
    """Their controller makes them, with the labels of its pods."""
    item = replicas_object("StatefulSet", "serve", 1)
    item["spec"]["template"]["metadata"]["labels"] |= {LWS_NAME: "serve"}
    world.add(item)
    assert [workload.resource.kind for workload in world.view().workloads.values()] == ["Pod"]


def test_replicas_of_a_pod_group_are_no_job_of_their_own(world):
    item = replicas_object("ReplicaSet", "web", 2)
    item["spec"]["template"]["metadata"]["labels"] |= {POD_GROUP: "g", names.GANG_SIZE: "2"}
    world.add(item)
    world.settle()
    assert [job.demand.labels["kubernetes/name"] for job in world.jobs()] == ["g"]
