"""Handling of requests on the current state: a fact, no effect, or a rejection with its reason."""

import pytest
from tests.kits.asked import SPEC, ask, refused, submit
from tests.kits.log_builder import DAY, GIB, digest, policy

from bailiff_admission.pending_commands import start_command
from bailiff_core.admission.pool import unsupported_policy
from bailiff_core.admission.rejected import Rejected
from bailiff_core.canonical import canonical_json
from bailiff_core.model import message
from bailiff_core.model.demand import Dependency, SubGroup, TaskGroup, TopologyRule
from bailiff_core.model.job_spec import JobSpec, runtime_label, spec_digest
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records.facts import JobCancelled, JobSubmitted, LogTruncated, NodeReplaced, NodeReturned, PolicyApplied
from bailiff_core.records.job_requests import CancelJob
from bailiff_core.records.node_requests import ReplaceNode, ReturnNode
from bailiff_core.records.pool_requests import AcceptTruncation, ApplyPolicy
from bailiff_core.records.request import RequestBody


def group(**fields):
    return {"tasks": (TaskGroup(**fields),)}


def test_a_job_is_accepted(story):
    (fact,) = ask(story, submit())
    assert isinstance(fact, JobSubmitted)
    assert (fact.demand.job, fact.spec_digest, fact.request.id) == ("new", digest("spec"), "q-1")
    story.cycle(fact)
    story.expect("JobPlaced", job="new")


def test_only_operators_submit_jobs_for_others(story):
    refused(story, submit(user="root"), "not-permitted", actor="alice")
    (own,) = ask(story, submit(user="alice"), actor="alice")
    assert own.user == "alice"
    (claimed,) = ask(story, submit(user="root"), actor="")
    assert (claimed.user, claimed.demand.user) == ("", "root")
    story.apply_policy(policy(identity={"operators": ["alice"]}))
    (for_bob,) = ask(story, submit(user="bob"), actor="alice", auth="signed")
    assert (for_bob.user, for_bob.user_verified) == ("bob", True)
    refused(story, submit(user="bob"), "not-permitted", actor="alice")  # only claims to be alice
    refused(story, submit(user="bob"), "not-permitted", actor="eve")


def test_the_node_gets_the_submitter_of_the_job(story):
    (fact,) = ask(story, submit(), actor="alice")
    story.cycle(fact)
    job = story.state.jobs["new"]
    command = start_command(story.state, job, story.state.nodes[job.tasks[0].node], job.tasks, SPEC)
    assert (fact.user, command.user) == ("alice", "alice")


def test_what_a_job_leaves_out_is_put_on_record(story):
    (fact,) = ask(story, submit())
    assert (fact.demand.max_failures, fact.demand.elastic) == (3, "restart")
    (own,) = ask(story, submit(max_failures=0, elastic="live"))
    assert (own.demand.max_failures, own.demand.elastic) == (0, "live")
    story.apply_policy(policy(restarts={"max_failures": 1}))
    (other,) = ask(story, submit())
    assert other.demand.max_failures == 1


def test_a_gang_over_nodes_that_share_no_checkpoints_is_refused_where_the_policy_says_so(story):
    gang = submit(**group(count=2, gpu_milli=8000))
    assert not isinstance(ask(story, gang), Rejected)
    story.apply_policy(policy(unshared_checkpoints="refuse"))
    assert "n1, n2 share none" in refused(story, gang, "unshared-checkpoints").reason
    assert not isinstance(ask(story, gang.model_copy(update={"spec": JobSpec(command="x", runtime="simulated")})), Rejected)


def test_nothing_private_reaches_the_log(story):
    secret = JobSpec(command="train --key hunter2", env={"TOKEN": "hunter2"}, working_dir="/home/hunter2")
    (fact,) = ask(story, submit(spec=secret))
    assert b"hunter2" not in canonical_json(fact.to_data())


def test_the_spec_is_only_known_by_a_salted_digest():
    one, two = spec_digest(b"a" * 16, SPEC.to_json()), spec_digest(b"b" * 16, SPEC.to_json())
    assert one != two
    assert len(one) == 64


def test_a_repeat_has_no_second_effect(story):
    story.cycle(*ask(story, submit()))
    assert ask(story, submit()) == []
    assert "used at #" in refused(story, submit("other"), "id-reused", content="d").reason


def test_a_request_older_than_the_memory_of_ids(story):
    then = story.state.now - 60 * DAY
    assert "60 days" in refused(story, submit(), "expired", time=then - 1).reason
    assert isinstance(ask(story, submit(), time=then), list)


@pytest.mark.parametrize("auth", ["none", "acl"])
def test_a_pool_that_accepts_signed_requests_only(story, auth):
    story.apply_policy(policy(identity={"accept": ["signed"], "keys": {"k": "alice"}}))
    expected = f"this pool accepts requests with auth signed; this request has auth {auth}"
    assert refused(story, submit(), "auth-not-accepted", auth=auth).reason == expected
    assert isinstance(ask(story, submit(), auth="signed"), list)


def test_the_reason_is_true_for_a_signed_request_that_the_policy_does_not_accept(story):
    story.apply_policy(policy(identity={"accept": ["none", "acl"], "keys": {"k": "alice"}}))
    expected = "this pool accepts requests with auth none, acl; this request has auth signed"
    assert refused(story, submit(), "auth-not-accepted", auth="signed").reason == expected


@pytest.mark.parametrize(
    "body",
    [ApplyPolicy(policy=DEFAULT_POLICY), ReplaceNode(node="n1", machine_id="m"), ReturnNode(), AcceptTruncation(epoch=1, seq=2)],
    ids=lambda body: body.TYPE,
)
def test_what_only_operators_may_ask(story, body):
    assert isinstance(ask(story, body, missing=(1, 2)), list)  # no users are named: every user may
    story.apply_policy(policy(identity={"operators": ["ops"]}))
    assert refused(story, body, "not-permitted", id="q-2", auth="signed").rule == "operators"
    assert refused(story, body, "not-permitted", id="q-2", actor="ops").rule == "operators"  # says so, but has not signed
    assert isinstance(ask(story, body, id="q-2", actor="ops", auth="signed", missing=(1, 2)), list)
    assert isinstance(ask(story, submit(), id="q-3"), list)


def test_a_class_for_some_users_only(story):
    story.apply_policy(policy(identity={"class_users": {"inference": ["serving-team"]}}))
    assert "alice" in refused(story, submit(priority_class="inference"), "not-permitted").reason
    assert "an unnamed sender" in refused(story, submit(priority_class="inference"), "not-permitted", actor="").reason
    found = refused(story, submit(priority_class="inference"), "not-permitted", actor="serving-team")
    assert (found.rule, "serving-team (not verified)" in found.reason) == ("class-users", True)
    assert isinstance(ask(story, submit(priority_class="inference"), actor="serving-team", auth="signed"), list)
    assert isinstance(ask(story, submit()), list)


@pytest.mark.parametrize(("job", "phase"), [("low", "running"), ("done", "succeeded")])
def test_a_name_that_is_taken(story, job, phase):
    found = refused(story, submit(job), "job-exists")
    assert (found.job, phase in found.reason) == (job, True)


def after(job, until="succeeded"):
    return {"after": (Dependency(job=job, until=until),)}


def test_a_job_may_wait_for_jobs_that_there_are_and_that_can_still_end_as_needed(story):
    (fact,) = ask(story, submit(**after("low")))
    assert [each.job for each in fact.demand.after] == ["low"]
    assert isinstance(ask(story, submit(**after("done"))), list)
    assert "there is no job 'nobody'" in refused(story, submit(**after("nobody")), "no-such-job").reason
    assert "would wait for itself" in refused(story, submit(**after("new")), "malformed").reason
    twice = {"after": (Dependency(job="low"), Dependency(job="low", until="ended"))}
    assert "low is named twice" in refused(story, submit(**twice), "malformed").reason
    story.cancel("low")
    story.cycle(*ask(story, submit("behind", **after("low"))))
    story.submit("gone", gpus=9)  # pending
    story.cancel("gone")
    found = refused(story, submit(**after("gone")), "dependency-failed", id="q-2")
    assert "gone had to succeed and has ended as cancelled: wait for gone:ended" in found.reason
    assert isinstance(ask(story, submit(**after("gone", "ended")), id="q-3"), list)


def test_an_unknown_class(story):
    assert "inference, build, interactive, train" in refused(story, submit(priority_class="vip"), "unknown-class").reason


@pytest.mark.parametrize(
    ("demand", "code", "word"),
    [
        (group(gpu_milli=500), "malformed", "gpu_share_milli"),
        (group(gpu_milli=1000, gpu_devices=2), "malformed", "gpu_devices"),
        (group(gpu_milli=1000, gpu_share_milli=500), "malformed", "not both"),
        (group(gpu_share_bytes=GIB, gpu_share_milli=500), "malformed", "remove one"),
        (group(sub_group="a"), "malformed", "'a', which is not defined"),
        ({"sub_groups": (SubGroup(name="a"),), "min_tasks": 1, **group(sub_group="a")}, "malformed", "their own min_tasks"),
        ({"project": "nlp"}, "unknown-project", "the policy has none"),
        ({"topology": TopologyRule(topology="rack")}, "unknown-topology", "no topology 'rack'"),
    ],
)
def test_contradictory_requests_and_unknown_names_are_refused(story, demand, code, word):
    assert word in refused(story, submit(**demand), code).reason


def nested(levels):
    """A tree of sub-groups with one child each, and one task at its end."""
    groups = [SubGroup(name=f"g{level}", parent=f"g{level - 1}" if level else None) for level in range(levels)]
    return {"sub_groups": tuple(groups), **group(gpu_milli=1000, sub_group=f"g{levels - 1}")}


def test_a_tree_of_sub_groups_has_at_most_eight_levels(story):
    (fact,) = ask(story, submit(**nested(8)))
    assert isinstance(fact, JobSubmitted)
    assert "at most 8 levels" in refused(story, submit(**nested(9)), "malformed").reason
    assert "at most 8 levels" in refused(story, submit(**nested(1000)), "malformed").reason


def test_at_most_256_tasks_of_a_job_are_beyond_its_minimum(story):
    (fact,) = ask(story, submit(min_tasks=1, **group(gpu_milli=1000, count=257)))
    assert isinstance(fact, JobSubmitted)
    assert "257 of its 258 tasks" in refused(story, submit(min_tasks=1, **group(gpu_milli=1000, count=258)), "malformed").reason
    leaf = {"sub_groups": (SubGroup(name="a", min_tasks=1),), **group(gpu_milli=1000, count=300, sub_group="a")}
    assert "299 of its 300 tasks" in refused(story, submit(**leaf), "malformed").reason


def test_what_a_tree_wants_takes_no_longer_for_each_level_of_it(story):
    (fact,) = ask(story, submit())
    deep = fact.demand.model_copy(update=nested(60))  # as older logs may have it; asking each level twice would never end
    story.cycle(fact.model_copy(update={"demand": deep}))
    story.expect("JobPlaced", job="new")


@pytest.mark.parametrize(
    "demand",
    [
        group(gpu_share_milli=500),
        group(gpu_share_bytes=GIB, gpu_devices=2),
        group(order=1),
        group(count=2) | {"min_tasks": 1},
        {"run_time_limit": 5_000_000},
        {"preemption_delay": 5},
        {"pack": "spread"},
    ],
)
def test_what_the_engine_keeps_is_accepted(story, demand):
    (fact,) = ask(story, submit(**demand))
    story.cycle(fact)
    story.expect("JobPlaced", job="new")


RACKS = [{"name": "rack", "levels": ["zone", "rack"]}]


def test_a_level_that_the_topology_does_not_have(story):
    story.apply_policy(policy(topologies=RACKS))
    rule = TopologyRule(topology="rack", required="row")
    assert "it has zone, rack" in refused(story, submit(topology=rule), "unknown-topology").reason


def test_a_job_belongs_to_a_project_where_there_are_some(story):
    story.apply_policy(policy(projects=[{"name": "nlp"}, {"name": "vision"}]))
    assert "the policy has nlp, vision" in refused(story, submit(), "no-project").reason
    assert "the policy has nlp, vision" in refused(story, submit(project="speech"), "unknown-project").reason
    (fact,) = ask(story, submit(project="nlp"))
    assert fact.demand.project == "nlp"
    story.apply_policy(policy(projects=[{"name": "default"}]))
    (fact,) = ask(story, submit())
    assert fact.demand.project == "default"


def test_a_job_that_its_projects_limit_never_lets_run(story):
    story.apply_policy(policy(projects=[{"name": "dept", "limit": {"gpus": 4}}, {"name": "nlp", "parent": "dept"}]))
    found = refused(story, submit(project="nlp", **group(count=5, gpu_milli=1000)), "over-limit")
    assert "project dept would use 5 of its limit of 4 GPUs" in found.reason
    assert isinstance(ask(story, submit(project="nlp", **group(count=5, gpu_milli=1000), min_tasks=4)), list)
    never = refused(story, submit(project="nlp", priority_class="inference"), "over-limit").reason
    assert "quota of 0 GPUs for work that is not preemptible" in never


def test_a_gang_that_could_never_run(story):
    found = refused(story, submit(tasks=(TaskGroup(count=3, gpu_milli=8000),)), "never-fits")
    assert found.reason.startswith("even on the empty pool")
    assert found.job == "new"
    assert isinstance(ask(story, submit(tasks=(TaskGroup(count=2, gpu_milli=8000),))), list)  # it could, later


def test_a_job_too_large_to_be_started(story):
    large = JobSpec(command="x", env={"DATA": "y" * 300_000})
    found = refused(story, submit(spec=large), "too-large")
    assert "move large values into a file" in found.reason


def test_cancelling(story):
    (fact,) = ask(story, CancelJob(job="low", reason="typo"))
    assert isinstance(fact, JobCancelled)
    assert (fact.job, fact.reason) == ("low", "typo")
    assert refused(story, CancelJob(job="nobody"), "no-such-job").job == "nobody"
    assert "succeeded" in refused(story, CancelJob(job="done"), "already-ended").reason


def test_policies(story):
    (fact,) = ask(story, ApplyPolicy(policy=DEFAULT_POLICY))
    assert isinstance(fact, PolicyApplied)
    classes = [entry.model_dump() for entry in DEFAULT_POLICY.priority_classes if entry.name != "train"]
    classes[-1]["global_default"] = True
    without = policy(priority_classes=classes)
    assert "'low' has the class 'train'" in refused(story, ApplyPolicy(policy=without), "class-in-use").reason
    story.ends("low", 0)
    assert isinstance(ask(story, ApplyPolicy(policy=without)), list)


def test_a_policy_that_accepts_only_signatures_needs_keys(story):
    locked = policy(identity={"accept": ["signed"]})
    assert "has no keys" in refused(story, ApplyPolicy(policy=locked), "not-supported").reason
    assert unsupported_policy(DEFAULT_POLICY, unsigned=False) is None


def test_a_policy_that_has_snapshots_encrypted_needs_nodes_with_keys(story):
    encrypted = policy(snapshots={"encrypted": True})
    assert "the nodes of this pool have no keys" in refused(story, ApplyPolicy(policy=encrypted), "not-supported").reason
    story.state.root_key = "A" * 43
    assert isinstance(ask(story, ApplyPolicy(policy=encrypted)), list)


def test_a_policy_that_names_operators_needs_a_key_for_one_of_them(story):
    locked, usable = policy(identity={"operators": ["ops"]}), policy(identity={"operators": ["ops"], "keys": {"k": "ops"}})
    assert "none of the operators has a key" in refused(story, ApplyPolicy(policy=locked), "not-supported").reason
    assert isinstance(ask(story, ApplyPolicy(policy=locked), auth="acl"), list)
    assert isinstance(ask(story, ApplyPolicy(policy=usable)), list)


def test_nodes(story):
    (fact,) = ask(story, ReplaceNode(node="n1", machine_id="other"))
    assert isinstance(fact, NodeReplaced)
    (fact,) = ask(story, ReturnNode(node="n1"))
    assert isinstance(fact, NodeReturned)
    for body in (ReplaceNode(node="n9", machine_id="m"), ReturnNode(node="n9")):
        assert "the pool has n1, n2" in refused(story, body, "no-such-node").reason


def test_an_operator_accepts_the_loss_that_the_alarm_names(story):
    (fact,) = ask(story, AcceptTruncation(epoch=3, seq=99, reason="disk"), missing=(3, 99))
    assert isinstance(fact, LogTruncated)
    assert (fact.epoch, fact.seq) == (3, 99)
    for other in ((3, 98), (3, 100), (4, 99)):  # a later one would hide that the log is cut again
        rejected = refused(story, AcceptTruncation(epoch=3, seq=99), "nothing-lost", missing=other)
        assert f"#{other[1]} of epoch {other[0]}" in rejected.reason


def test_nobody_accepts_a_loss_that_did_not_happen(story):
    for epoch, seq in ((story.state.epoch, story.state.seq), (story.state.epoch, story.state.seq + 5), (2**53 - 1, 2**53 - 1)):
        assert "no record is missing" in refused(story, AcceptTruncation(epoch=epoch, seq=seq), "nothing-lost").reason


def test_a_type_that_is_no_request(story, monkeypatch):
    monkeypatch.setattr(message, "MESSAGE_TYPES", {})  # other tests know of none

    class Dance(RequestBody):
        pass

    refused(story, Dance(), "unknown-type")


def test_reading_a_request_changes_nothing(story):
    from bailiff_core.fold.snapshot import state_digest

    before = state_digest(story.state)
    for body in (submit(), submit(tasks=(TaskGroup(count=9, gpu_milli=8000),)), CancelJob(job="low")):
        ask(story, body)
    assert state_digest(story.state) == before


def test_unhealthy_devices_and_silent_nodes_count_as_capacity_and_lost_nodes_do_not(story):
    story.node("n1", gpus=8, sick=[0], boot=2)
    story.silent("n2")
    assert isinstance(ask(story, submit(tasks=(TaskGroup(count=2, gpu_milli=8000),))), list)
    story.lost("n2")
    assert "needs 2 nodes" in refused(story, submit(tasks=(TaskGroup(count=2, gpu_milli=8000),)), "never-fits").reason


IN_A_CONTAINER = JobSpec(command=("python", "train.py"), runtime="docker", image="registry.example:5000/team/train@sha256:ab12")


def test_a_job_with_an_image_goes_where_containers_run(story):
    """The log says so by a label that it asks for, beside those of its own."""
    found = refused(story, submit(spec=IN_A_CONTAINER), "no-runtime")
    assert found.reason.startswith("no node of this pool has the runtime docker: ")
    story.node("boxes", gpus=8, labels={runtime_label("docker"): "true", "rack": "r2"})
    (fact,) = ask(story, submit(spec=IN_A_CONTAINER, tasks=(TaskGroup(gpu_milli=1000, node_labels={"rack": "r2"}), TaskGroup())))
    label = {runtime_label("docker"): "true"}
    assert [group.node_labels for group in fact.demand.tasks] == [{**label, "rack": "r2"}, label]
    story.cycle(fact)
    assert {story.state.nodes[task.node].name for task in story.state.jobs["new"].tasks} == {"boxes"}
    elsewhere = submit("other", spec=IN_A_CONTAINER, tasks=(TaskGroup(gpu_milli=1000, node_labels={"rack": "r1"}),))
    assert "label rack=r1" in refused(story, elsewhere, "never-fits", id="q-2").reason


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (JobSpec(command="train", runtime="docker"), "image: missing; the runtime docker runs container images"),
        (
            JobSpec(command="train", image="train"),
            "image: the runtime process runs no images: leave it out, or choose another runtime, such as docker",
        ),
        (
            JobSpec(command="train", image="train", runtime="kubernetes", tty=True),
            "tty: the runtime kubernetes gives tasks no terminal: leave it out",
        ),
    ],
)
def test_an_image_and_its_runtime_belong_together(story, spec, reason):
    assert refused(story, submit(spec=spec), "malformed").reason == reason


def test_a_task_in_a_container_may_have_a_terminal(story):
    story.node("boxes", gpus=8, labels={runtime_label("docker"): "true"})
    (fact,) = ask(story, submit(spec=IN_A_CONTAINER.model_copy(update={"tty": True})))
    assert fact.NAME == "JobSubmitted"


def test_a_job_without_an_image_has_the_bytes_that_it_always_had():
    assert SPEC.to_data() == {"command": ["python", "train.py"]}
