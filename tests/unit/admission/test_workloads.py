"""Jobs whose pods a Kubernetes controller makes: who may submit one, for whom, and what its spec must not have."""

import pytest
from tests.kits.log_builder import digest, policy

from bailiff_core.admission import Evidence, ReceivedRequest, admit_received
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec, Workload, runtime_label, sharing_label
from bailiff_core.records.facts import JobSubmitted
from bailiff_core.records.job_requests import SubmitJob

TRAIN = Workload(api_version="batch/v1", kind="Job", namespace="team-a", name="train", uid="0b5c3b84")
SPEC = JobSpec(runtime="kubernetes", workload=TRAIN)
BRIDGES = {"kubernetes": {"bridges": ["bridge"]}}


@pytest.fixture
def pods(story):
    """A pool of one node that runs pods."""
    story.node("pods", gpus=8, labels={"bailiff.runtime/kubernetes": "true"})
    return story


ONE_GPU, HALF_A_GPU = TaskGroup(gpu_milli=1000), TaskGroup(gpu_share_milli=500)


def ask(story, spec=SPEC, *, actor="bridge", auth="signed", user="alice", group=ONE_GPU):
    demand = JobDemand(job="new", user=user, tasks=(group,))
    request = ReceivedRequest("bridge", "q-1", digest("c"), None, actor, auth, SubmitJob(demand=demand, spec=spec))
    return admit_received(story.state, request, Evidence(digest("spec")))


def refused(story, code, **how):
    found = ask(story, **how)
    assert isinstance(found, Rejected), found
    assert found.code == code, found
    return found


def test_a_bridge_submits_a_workload_for_its_creator(pods):
    pods.apply_policy(policy(**BRIDGES))
    (fact,) = ask(pods)
    assert isinstance(fact, JobSubmitted)
    assert (fact.user, fact.user_verified) == ("alice", True)


def test_a_bridge_submits_in_its_creators_name_below_its_own(pods):
    pods.apply_policy(policy(**BRIDGES))
    (fact,) = ask(pods, actor="bridge/alice", user=None)
    assert (fact.user, fact.user_verified) == ("bridge/alice", True)
    assert refused(pods, "not-permitted", actor="bridge-2/alice", user=None).rule == "kubernetes.bridges"
    assert refused(pods, "not-permitted", actor="bridge/alice", auth="none", user=None).rule == "kubernetes.bridges"


def test_nobody_else_does(pods):
    pods.apply_policy(policy(**BRIDGES))
    assert refused(pods, "not-permitted", actor="alice").rule == "kubernetes.bridges"
    assert refused(pods, "not-permitted", auth="none").rule == "kubernetes.bridges", "it only claims to be the bridge"


def test_where_no_bridge_is_named_operators_submit_workloads(pods):
    pods.apply_policy(policy(identity={"operators": ["ops"]}))
    assert refused(pods, "not-permitted").rule == "operators"
    assert isinstance(ask(pods, actor="ops"), list)


def test_the_creator_needs_the_rights_of_a_submitter(pods):
    pods.apply_policy(policy(**BRIDGES, identity={"class_users": {"build": ["bob"], "train": ["bob"]}}))
    name = pods.state.rules.find_class(None).name
    pods.apply_policy(policy(**BRIDGES, identity={"class_users": {name: ["bob"]}}))
    assert refused(pods, "not-permitted").rule == "class-users"
    assert isinstance(ask(pods, user="bob"), list)


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(runtime="kubernetes"),
        JobSpec(runtime="kubernetes", workload=TRAIN, command="true"),
        JobSpec(runtime="kubernetes", workload=TRAIN, image="debian"),
        JobSpec(runtime="docker", workload=TRAIN),
        JobSpec(),
    ],
)
def test_a_spec_has_a_command_or_a_workload(pods, spec):
    assert refused(pods, "malformed", spec=spec, user=None)


def half_a_gpu(story, runtime="kubernetes"):
    demand = JobDemand(job="new", tasks=(HALF_A_GPU, TaskGroup()))
    spec = JobSpec(command="true", image="registry.example/a:1", runtime=runtime)
    request = ReceivedRequest("client", "q-1", digest("c"), None, "alice", "none", SubmitJob(demand=demand, spec=spec))
    return admit_received(story.state, request, Evidence(digest("spec")))


def test_a_pod_gets_no_part_of_a_gpu_where_no_node_can_share_one(pods):
    found = half_a_gpu(pods)
    assert isinstance(found, Rejected)
    assert found.code == "no-runtime"
    assert "no node of this pool gives out parts of a GPU with the runtime kubernetes" in found.reason
    pods.node("boxes", gpus=8, labels={runtime_label("docker"): "true", sharing_label("docker"): "true"})
    assert isinstance(half_a_gpu(pods), Rejected), "another runtime's nodes are no help"


def test_a_pod_with_a_part_of_a_gpu_goes_where_it_can_be_shared(pods):
    """The node says so by a label, which only tasks with a part require."""
    runs, shares = runtime_label("kubernetes"), sharing_label("kubernetes")
    pods.node("dra", gpus=1, labels={runs: "true", shares: "true"})
    (fact,) = half_a_gpu(pods)
    assert [group.node_labels for group in fact.demand.tasks] == [{runs: "true", shares: "true"}, {runs: "true"}]
    pods.cycle(fact)
    [task, _] = pods.state.jobs["new"].tasks
    assert pods.state.nodes[task.node].name == "dra"


def test_the_pods_of_a_workload_get_no_part_of_a_gpu(pods):
    pods.node("dra", gpus=1, labels={runtime_label("kubernetes"): "true", sharing_label("kubernetes"): "true"})
    found = refused(pods, "no-runtime", group=HALF_A_GPU)
    assert "no parts of a GPU" in found.reason
