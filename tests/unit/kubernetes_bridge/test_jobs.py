"""A Job with Bailiff's label: submitted, placed, preempted, brought back; and everything that a user can do to it meanwhile."""

import pytest
from tests.kits.bridge import World
from tests.kits.bridge_objects import gated, job_object, message
from tests.kits.log_builder import policy

from bailiff_bus.messages.commands import Evict
from bailiff_core.model.grace import grace_of
from bailiff_core.records.facts import CORDONED
from bailiff_core.records.job_requests import ResumeJob
from bailiff_eviction_executor.pending_messages import pending_commands
from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.actions import EndPod, Send
from bailiff_kubernetes_bridge.annotations import STATUS, STOPPED_FOR
from bailiff_kubernetes_bridge.messages import Rejection, status_of


@pytest.fixture
def world():
    return World()


def status(world, name="train"):
    return world.objects[name]["metadata"]["annotations"][STATUS]


def test_a_job_is_submitted_for_its_user_and_its_gates_open_on_its_nodes(world):
    world.add(job_object("train", pods=2, gpus=4, user="ada"))
    assert gated(world.pods_of("train")) == [True, True]
    world.settle()
    job = world.job("train")
    assert (job.id, job.user, job.phase) == ("team-a.train-0a0a0a0a", "kubernetes/ada", "starting")
    assert [(group.count, group.gpu_milli, group.cpu_milli) for group in job.demand.tasks] == [(2, 4000, 1000)]
    (sent,) = world.sent
    assert sent.body.vouched_by.to_data() == {"issuer": "kubernetes:c1", "subject": "ada"}
    for index, pod in enumerate(world.pods_of("train")):
        assert not pod["spec"]["schedulingGates"]
        assert pod["metadata"]["annotations"][names.TASK] == f"team-a.train-0a0a0a0a-1-{index}"
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        node = world.story.state.nodes[job.tasks[index].node].name
        assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        assert f"task {index} of {job.id}, attempt 1, starts on {node} (test#" in message(pod)
    assert status(world).startswith("Starting: team-a.train-0a0a0a0a starts on n1 as attempt 1 (test#")
    world.run("train")
    world.settle()
    assert status(world).startswith("Placed: team-a.train-0a0a0a0a runs on n1 as attempt 1 (test#")


def test_a_job_is_not_submitted_before_its_pods_are_there(world):
    """A quota may forbid some of them for ever: nobody is evicted for the others."""
    all_of_them = world.controllers
    world.controllers = lambda: None
    world.add(job_object("train", pods=3, gpus=2))
    world._make_pod(world.objects["train"], 0)
    world.settle()
    assert not world.sent
    assert status(world).startswith(
        "Incomplete: not submitted: its controller has made 1 of 3 pods; kubectl get events -n team-a "
    )
    world.controllers = all_of_them
    world.controllers()
    world.settle()
    assert world.job("train").phase == "starting"


@pytest.mark.parametrize(
    ("deadline", "attached", "does"),
    [
        (None, False, "it may run until it ends: bailiff drain n1 --quick evicts it now"),
        (10**9, False, "it is evicted at the drain's deadline, unless it has ended by then"),
        (None, True, "it moves as soon as there is room for it elsewhere"),
    ],
)
def test_a_cordon_says_on_job_and_pods_what_the_job_does(world, deadline, attached, does):
    world.add(job_object("other", gpus=8))
    world.run("other")
    world.add(job_object("train", gpus=8))
    job = world.run("train")
    for task in job.tasks:
        task.attached = attached
    node = world.story.state.nodes[job.tasks[0].node].name
    world.story.drain(node, "graceful", deadline, CORDONED + "kubectl-cordon")
    world.settle()
    said = f"; {node} is drained ({CORDONED}kubectl-cordon): {does.replace('n1', node)} (test#"
    (pod,) = world.pods_of("train")
    assert said in status(world)
    assert said in message(pod)
    assert {uid for uid, line in world.events if said in line} == {
        pod["metadata"]["uid"],
        world.objects["train"]["metadata"]["uid"],
    }
    world.story.undrain(node)
    world.settle()
    assert "drained" not in status(world) + message(pod)


def test_an_evicted_job_gets_no_gpus_before_its_controller_has_made_its_pods_again(world):
    world.add(job_object("train", pods=2, gpus=4))
    world.run("train")
    world.story.evict(world.job("train").id, reason="noon")
    controllers, world.controllers = world.controllers, lambda: None  # its back-off
    world.settle()
    assert world.job("train").paused_seq is None, "its pods are there, and its eviction may be cancelled"
    for pod in world.pods_of("train"):
        del world.pods[pod["metadata"]["name"]]
    world.settle()
    world.story.yields(world.job("train").id)
    world.settle()
    assert world.job("train").phase == "paused"
    assert "is paused: its controller has not made its pods again (test#" in status(world)
    world.controllers = controllers
    world.controllers()
    world.settle()
    assert (world.job("train").phase, world.job("train").attempt) == ("starting", 2)
    (resumed,) = [send.body for send in world.sent if isinstance(send.body, ResumeJob)]
    assert resumed.keep_failed_starts, "what kept an attempt from starting is as it was"


def test_a_preempted_job_whose_pods_its_controller_has_not_made_again_is_not_called_placed(world):
    world.add(job_object("train", pods=2, gpus=4))
    world.run("train")
    world.story.evict(world.job("train").id, reason="noon")
    world.controllers = lambda: None  # its back-off
    world.evicted("train")
    world.settle()
    job = world.job("train")
    assert (job.phase, job.attempt) == ("starting", 2)
    assert "starts on n1 as attempt 2; its controller has not made 2 pods yet (test#" in status(world)
    assert not status_of(world.pool_view(), job, 0).placed


def test_what_does_not_fit_waits_gated_and_its_pods_name_the_reason(world):
    world.add(job_object("first", pods=2, gpus=8))
    world.run("first")
    world.add(job_object("train", pods=1, gpus=8))
    world.settle()
    (pod,) = world.pods_of("train")
    assert gated([pod]) == [True]
    assert message(pod).startswith("team-a.train-0a0a0a0a is pending: ")
    assert message(pod).endswith(f"(test#{world.story.state.seq})") or "(test#" in message(pod)
    assert status(world) == f"Pending: {message(pod)}"


@pytest.mark.parametrize(("verified", "name"), [(True, "dora"), (False, "dora (not verified)")])
def test_pods_name_who_evicted_them_and_whether_that_is_known(world, verified, name):
    world.add(job_object("train", pods=1, gpus=8))
    world.run("train")
    job = world.job("train")
    world.story.evict(job.id, reason="noon")
    job.requester, job.requester_verified = "dora", verified
    world.settle()
    assert f"is evicted by {name} (requested): noon" in status(world)


def test_preempted_pods_come_back_gated_and_keep_their_place_in_the_queue(world):
    world.add(job_object("train", pods=2, gpus=8))
    first = world.run("train")
    world.add(job_object("serve", pods=2, gpus=8, user="bob", labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    world.story.propose()
    world.settle()
    text = status(world)
    assert text.startswith("Preempted: ")
    assert "train-0a0a0a0a (class train, priority 50, user kubernetes/ada)" in text
    assert "is preempted by team-a.serve-0a0a0a0a (class inference, priority" in text
    assert "has higher priority than train 50 (rule lower-priority-only); it keeps its place in the queue, " in text
    assert "and starts again by itself when GPUs are free for it (test#" in text
    world.evicted("train")
    world.settle()
    assert world.job("train").id == first.id
    assert world.job("train").phase == "pending"
    assert gated(world.pods_of("train")) == [True, True]
    assert "; it was preempted by team-a.serve-0a0a0a0a (class inference, priority" in message(world.pods_of("train")[0])
    world.run("serve")
    for index in (0, 1):
        world.finish("serve", index)
    world.settle()
    assert world.job("train").attempt == 2
    assert {pod["metadata"]["annotations"][names.TASK] for pod in world.pods_of("train")} == {
        f"{first.id}-2-0",
        f"{first.id}-2-1",
    }


def nominations(world, name):
    return {pod["metadata"]["name"]: pod["status"].get("nominatedNodeName") or "" for pod in world.pods_of(name)}


def test_while_its_place_is_reserved_its_pods_are_nominated_to_it(world):
    """kube-scheduler keeps room for a nominated pod: nobody else gets what the victims release."""
    world.add(job_object("train", pods=2, gpus=8))
    world.run("train")
    world.add(job_object("serve", pods=2, gpus=6, labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    assert {*nominations(world, "serve").values()} == {""}
    world.story.propose()
    world.settle()
    assert world.job("serve").phase == "reserved"
    places = {task.index: world.story.state.nodes[task.node].name for task in world.job("serve").tasks}
    assert {*places.values()} == {"n1", "n2"}
    assert [*nominations(world, "serve").values()] == [places[0], places[1]]
    assert {pod["metadata"]["annotations"][names.JOB] for pod in world.pods_of("serve")} == {world.job("serve").id}


def test_a_pod_that_waits_names_the_pods_of_others_that_have_gpus(world):
    holder = "the pod team-b/serve, which is not Bailiff's, has it"
    world.story.quarantined("n1", 0, foreign=holder)
    world.add(job_object("train", pods=2, gpus=8))
    world.settle()
    assert f"; 1 GPU on n1 cannot be allocated ({holder})" in message(world.pods_of("train")[0])
    assert status(world).endswith(f"({holder})")
    world.story.cleared("n1", 0)
    world.settle()
    assert holder not in message(world.pods_of("train")[0])


@pytest.mark.parametrize("preemptor", ["workload", "job"])
def test_agents_wait_for_nominations_on_nodes_where_a_workload_gets_a_place(world, preemptor):
    """A job of `bailiff submit` has no pods yet, and on another node nobody gets what is released."""
    world.add(job_object("train", pods=2, gpus=8))
    world.run("train")
    train = world.job("train").id
    if preemptor == "workload":
        world.add(job_object("serve", pods=1, gpus=8, labels={names.PRIORITY_CLASS: "inference"}))
        world.settle()
        serve = world.job("serve").id
    else:
        world.story.submit(serve := "serve", gpus=8, cls="inference")
    world.story.propose()
    world.story.begin(train)
    [place] = (world.story.state.nodes[task.node].name for task in world.story.job(serve).tasks)
    orders = {each.node: each.nominated for each in pending_commands(world.story.state) if isinstance(each, Evict)}
    assert orders == {node: preemptor == "workload" and node == place for node in ("n1", "n2")}


def test_a_place_that_is_given_up_is_nobodys_nomination_any_more(world):
    world.add(job_object("train", pods=2, gpus=8))
    world.run("train")
    world.add(job_object("serve", pods=1, gpus=8, labels={names.PRIORITY_CLASS: "inference"}))
    world.settle()
    world.story.propose()
    world.settle()
    assert [*nominations(world, "serve").values()] != [""]
    world.story.abandon(world.job("serve").id)
    world.settle()
    assert gated(world.pods_of("serve")) == [True]
    assert [*nominations(world, "serve").values()] == [""]


def test_a_completed_job_ends_with_its_tasks(world):
    world.add(job_object("train", pods=1))
    world.run("train")
    world.finish("train", 0)
    world.settle()
    assert world.job("train").phase == "succeeded"
    assert len(world.sent) == 1


def test_a_job_that_completes_before_all_its_tasks_were_placed_is_cancelled(world):
    world.add(job_object("train", pods=2, gpus=8))
    world.story.drain("n1")
    world.settle()
    assert world.job("train").phase == "pending"
    world.objects["train"]["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
    world.settle()
    assert (world.job("train").phase, world.job("train").request_reason) == ("cancelled", "the Job has completed")


def test_a_failed_job_is_cancelled_with_the_clusters_reason(world):
    world.add(job_object("train"))
    world.run("train")
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
    world.objects["train"]["status"]["conditions"] = [condition]
    world.settle()
    assert world.job("train").cancelled
    assert world.job("train").request_reason == "the Job has failed: Job has reached the limit"


def test_a_pod_that_fails_is_made_anew_and_its_gang_restarts(world):
    world.add(job_object("train", pods=2))
    world.run("train")
    world.finish("train", 1, code=3)
    world.evicted("train")
    world.story.wait(60_000_000)
    world.settle()
    assert world.job("train").attempt == 2
    running = [pod for pod in world.pods_of("train") if pod["status"]["phase"] == "Running"]
    assert {pod["metadata"]["annotations"][names.TASK][-4:] for pod in running} == {"-2-0", "-2-1"}


def test_a_deleted_job_is_cancelled(world):
    world.add(job_object("train"))
    world.run("train")
    world.delete("train")
    world.settle()
    assert world.job("train").cancelled
    assert world.job("train").request_reason == "the Job was deleted"


def test_jobs_of_kinds_that_are_not_known_completely_are_not_cancelled(world):
    world.add(job_object("train"))
    world.run("train")
    world.delete("train")
    view = world.view
    world.view = lambda: type(view())(view().workloads, view().pods, view().kinds - {"Job"})
    assert world.due() == []


def test_suspended_and_resumed_by_its_user(world):
    world.add(job_object("train"))
    world.run("train")
    world.change("train", suspend=True)
    world.settle()
    assert world.job("train").paused_seq is not None
    world.story.yields(world.job("train").id)
    world.settle()
    assert world.job("train").phase == "paused"
    world.change("train", suspend=False)
    world.settle()
    assert world.job("train").attempt == 2
    assert gated(world.pods_of("train")) == [False]
    world.change("train", suspend=True)
    world.settle()
    assert world.job("train").paused_seq is not None


def test_a_job_that_is_created_suspended_is_submitted_when_it_is_resumed(world):
    world.add(job_object("train", suspend=True))
    world.settle()
    assert world.jobs() == []
    world.change("train", suspend=False)
    world.settle()
    assert world.job("train").phase == "starting"


def test_a_pause_in_bailiff_is_not_ended_by_the_bridge(world):
    world.add(job_object("train"))
    world.settle()
    world.story.pause(world.job("train").id, "maintenance")
    world.settle()
    assert world.job("train").paused_seq is not None
    assert not world.objects["train"]["spec"].get("suspend")


def test_a_pause_in_bailiff_outlasts_the_bridge_s_own(world):
    world.add(job_object("train"))
    world.run("train")
    world.change("train", suspend=True)
    world.settle()
    job = world.job("train").id
    world.story.yields(job)
    world.story.pause(job, "maintenance")
    world.change("train", suspend=False)
    world.settle()
    assert (world.job("train").phase, world.job("train").pause_reason) == ("paused", "maintenance")
    world.story.resume(job)
    world.settle()
    assert world.job("train").phase == "starting"


def test_a_pause_in_bailiff_is_ended_while_the_bridge_s_own_lasts(world):
    world.add(job_object("train"))
    world.run("train")
    job = world.job("train").id
    world.story.pause(job, "maintenance")
    world.change("train", suspend=True)
    world.settle()
    world.story.yields(job)
    world.story.resume(job)
    world.settle()
    assert world.job("train").phase == "paused"
    world.change("train", suspend=False)
    world.settle()
    assert world.job("train").phase == "starting"


def test_a_job_is_paused_each_time_that_its_pods_are_absent_within_one_attempt(world):
    world.add(job_object("train", pods=2, gpus=8))
    world.story.drain("n1")
    world.settle()
    controllers = world.controllers
    for _ in range(3):
        world.controllers = lambda: None  # its back-off
        for pod in world.pods_of("train"):
            del world.pods[pod["metadata"]["name"]]
        world.settle()
        assert (world.job("train").phase, world.job("train").attempt) == ("paused", 0)
        world.controllers = controllers
        world.controllers()
        world.settle()
        assert world.job("train").phase == "pending"


def test_cancelled_in_bailiff_it_is_suspended_until_its_user_resumes_it(world):
    world.add(job_object("train", gpus=8, pods=2))
    world.story.drain("n1")
    world.settle()
    first = world.job("train").id
    world.story.cancel(first)
    world.settle()
    assert world.objects["train"]["spec"]["suspend"] is True
    assert world.objects["train"]["metadata"]["annotations"][STOPPED_FOR] == first
    assert status(world).startswith(f"Cancelled: {first} has been cancelled")
    world.change("train", suspend=False)
    world.settle()
    assert world.job("train").id == f"{first}-2"
    world.story.cancel(world.job("train").id)
    world.settle()
    world.change("train", suspend=False)
    world.settle()
    assert world.job("train").id == f"{first}-3"


def test_scaled_by_its_user(world):
    world.add(job_object("train", pods=2, annotations={names.MIN_TASKS: "1"}))
    world.run("train")
    world.change("train", parallelism=4, completions=4)
    world.settle()
    assert (world.job("train").size, world.job("train").minimum) == (4, 1)
    assert gated(world.pods_of("train")) == [False] * 4
    world.change("train", parallelism=3, completions=3)
    world.settle()
    assert world.job("train").size == 3


def test_pods_that_have_succeeded_are_not_asked_for_again(world):
    world.add(job_object("train", pods=3, gpus=4))
    world.run("train")
    world.finish("train", 1)
    world.settle()
    assert world.job("train").size == 3
    world.story.evict(world.job("train").id)
    world.evicted("train")
    world.settle()
    assert (world.job("train").size, world.job("train").attempt) == (2, 2)
    world.settle()
    assert gated(world.pods_of("train-0")) == [False]
    assert gated(world.pods_of("train-2")) == [False]


def test_its_class_changes_while_it_is_pending(world):
    world.add(job_object("first", pods=2, gpus=8))
    world.run("first")
    world.add(job_object("train", gpus=8))
    world.settle()
    world.objects["train"]["metadata"]["labels"][names.PRIORITY_CLASS] = "build"
    world.settle()
    assert world.job("train").class_name == "build"


def test_a_rejected_submission_is_not_repeated_until_something_has_changed(world):
    world.add(job_object("train", labels={names.PROJECT: "vision"}))
    world.settle()
    assert status(world).startswith("Rejected: there is no project 'vision'")
    assert message(world.pods_of("train")[0]).startswith("there is no project 'vision'")
    world.story.apply_policy(policy(projects=[{"name": "vision"}]))
    world.settle()
    assert world.job("train").project == "vision"


def test_what_was_rejected_for_a_limit_is_sent_again_when_the_rejection_says_so(world):
    world.story.apply_policy(policy(limits={"user": {"open_jobs": 1}}))
    world.add(job_object("first"))
    world.settle()
    world.add(job_object("second"))
    world.settle()
    assert "limits.user.open_jobs" in status(world, "second")
    (rejected,) = world.rejected.values()
    world.story.submit("early", after=59_000_000)
    world.objects["second"]["metadata"]["labels"]["looked-at"] = "early"
    world.settle()
    assert [*world.rejected.values()] == [rejected], "not before its time"
    world.story.submit("late", after=2_000_000)
    world.objects["second"]["metadata"]["labels"]["looked-at"] = "late"
    world.settle()
    (again,) = world.rejected.values()
    assert again.seq > rejected.seq


def test_a_change_that_was_rejected_for_a_time_is_sent_again(world):
    world.add(job_object("train"))
    world.settle()
    world.change("train", suspend=True)
    (pause,) = [action for action in world.due() if isinstance(action, Send)]
    world.rejected[pause.id] = Rejection("too-many-requests", "later", 1, world.story.state.now + 1_000_000)
    assert [action for action in world.due() if isinstance(action, Send)] == []
    world.story.submit("late", after=2_000_000)
    assert pause in world.due()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"user": ""}, "nobody vouches for who created it"),
        ({"annotations": {names.MIN_TASKS: "9"}}, "bailiff.io/min-tasks is 9, and it has 2 pods"),
        ({"annotations": {names.MIN_TASKS: "many"}}, 'expected a whole number, found "many"'),
        ({"annotations": {names.GRACE: "soon"}}, "grace"),
        (
            {"completions": 5, "annotations": {names.MIN_TASKS: "2"}},
            "for pods that run together, and it runs 2 of 5 pods at once",
        ),
        ({"activeDeadlineSeconds": 45}, "activeDeadlineSeconds counts the time in the queue, too: set it in the pod template"),
        ({"template": {"metadata": {}, "spec": {"containers": []}}}, "lacks the label bailiff.io/pool"),
    ],
)
def test_what_cannot_be_submitted_is_explained(world, change, reason):
    world.objects["train"] = job_object("train", pods=2, **change)
    world.step(world.due())
    assert status(world).startswith("NotSubmitted: not submitted to test: ")
    assert reason in status(world)
    assert world.jobs() == []


def test_a_pods_own_time_to_end_is_the_grace_as_far_as_the_policy_grants_it():
    world = World(policy(claims={"grace": 600_000_000}))
    world.add(job_object("short"))
    long, stated = job_object("long"), job_object("stated", annotations={names.GRACE: "2m"})
    for item in (long, stated):
        item["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3600
    at_once = job_object("at-once")
    at_once["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    world.add(long, stated, at_once)
    world.settle()
    state = world.story.state
    graces = {name: grace_of(state, world.job(name)) // 1_000_000 for name in ("short", "long", "stated", "at-once")}
    assert graces == {"short": 30, "long": 600, "stated": 120, "at-once": 1}


@pytest.mark.parametrize("where", ["template", "pods"])
def test_a_priority_class_that_preempts_nobody_is_honoured(world, where):
    """The API server resolves it in the pods; a template may state it."""
    world.add(job_object("first", pods=2, gpus=8))
    world.run("first")
    item = job_object("train", gpus=8, labels={names.PRIORITY_CLASS: "inference"})
    if where == "template":
        item["spec"]["template"]["spec"]["preemptionPolicy"] = "Never"
    world.add(item)
    for pod in world.pods_of("train"):
        pod["spec"]["preemptionPolicy"] = "Never"
    world.settle()
    assert world.job("train").phase == "pending"
    assert world.story.state.selection is None, "nobody looks for victims"


def test_a_pod_without_its_gate_is_reported(world):
    world.add(job_object("train", pods=1))
    (pod,) = world.pods_of("train")
    pod["spec"]["schedulingGates"] = []
    world.settle()
    assert "runs outside Bailiff" in message(pod)


def test_the_namespace_is_the_project_where_the_policy_has_it():
    world = World(policy(projects=[{"name": "team-a"}, {"name": "default"}]))
    world.add(job_object("train"))
    world.settle()
    assert world.job("train").project == "team-a"


def test_a_priority_class_of_the_cluster_is_mapped():
    world = World(users={"gpu-serving": "inference"})
    item = job_object("train")
    item["spec"]["template"]["spec"]["priorityClassName"] = "gpu-serving"
    world.add(item)
    world.settle()
    assert world.job("train").class_name == "inference"


def test_the_workloads_checkpoint_reaches_its_pods(world):
    world.add(job_object("train"))
    world.run("train")
    world.objects["train"]["metadata"]["annotations"][names.LAST_CHECKPOINT_STEP] = "1200"
    world.settle()
    assert world.pods_of("train")[0]["metadata"]["annotations"][names.LAST_CHECKPOINT_STEP] == "1200"


def test_a_pod_that_no_agent_followed_makes_room_for_the_next_attempt(world):
    """Its node was lost, or has booted anew, before the agent had obeyed: the log says that the attempt is over."""
    world.add(job_object("train", pods=2, gpus=8))
    world.settle()
    old = {pod["metadata"]["name"] for pod in world.pods_of("train")}
    assert gated(world.pods_of("train")) == [False, False]
    world.story.lost("n1")
    assert not [action for action in world.due() if isinstance(action, EndPod)], "the rest of the gang is still being ended"
    world.story.lost("n2")
    assert (world.job("train").phase, world.job("train").attempt) == ("pending", 1)

    ended = [action for action in world.due() if isinstance(action, EndPod)]
    assert {action.pod.name for action in ended} == old
    assert {action.message for action in ended} == {f"attempt 1 of {world.job('train').id} is over"}
    world.settle()
    assert gated(world.pods_of("train")) == [True, True]
    assert not old & {pod["metadata"]["name"] for pod in world.pods_of("train")}


def test_a_pod_of_a_later_attempt_than_the_log_was_read_to_is_left_alone(world):
    world.add(job_object("train", pods=1, gpus=8))
    world.settle()
    (pod,) = world.pods_of("train")
    pod["metadata"]["annotations"][names.TASK] = f"{world.job('train').id}-2-0"
    pod["metadata"]["labels"][names.TASK_HASH] = "another"
    assert not [action for action in world.due() if isinstance(action, EndPod)]
