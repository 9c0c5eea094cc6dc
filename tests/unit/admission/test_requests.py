"""What a request means on the present state: a fact, nothing, or a reason for the person who sent it."""

import pytest
from tests.log_builder import DAY, GIB, digest, policy

from bailiff_admission.intake.rejected import Rejected
from bailiff_admission.intake.requests import Asked, digest_of_spec, facts_of_request, unsupported_policy
from bailiff_bus.messages import (
    AcceptTruncation,
    ApplyPolicy,
    CancelJob,
    JobSpec,
    ReplaceNode,
    RequestBody,
    ReturnNode,
    SubmitJob,
)
from bailiff_core.canonical import canonical_json
from bailiff_core.model.demand import JobDemand, SubGroup, TaskGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records.facts import JobCancelled, JobSubmitted, LogTruncated, NodeReplaced, NodeReturned, PolicyApplied

SPEC = JobSpec(command=("python", "train.py"))


def submit(job="new", spec=SPEC, **demand):
    groups = demand.pop("tasks", (TaskGroup(gpu_milli=1000),))
    return SubmitJob(demand=JobDemand(job=job, tasks=groups, **demand), spec=spec)


def group(**fields):
    return {"tasks": (TaskGroup(**fields),)}


def ask(story, body, *, id="q-1", content="c", time=None, actor="alice", auth="none"):  # noqa: A002
    asked = Asked("laptop", id, digest(content), time, actor, auth, body)
    return facts_of_request(story.pool, asked, digest("spec"))


def refused(story, body, code, **how):
    found = ask(story, body, **how)
    assert isinstance(found, Rejected), found
    assert found.code == code, found
    return found


def test_a_job_is_accepted(story):
    (fact,) = ask(story, submit())
    assert isinstance(fact, JobSubmitted)
    assert (fact.demand.job, fact.spec_digest, fact.request.id) == ("new", digest("spec"), "q-1")
    story.turn(fact)
    story.expect("JobPlaced", job="new")


def test_nothing_private_reaches_the_log(story):
    secret = JobSpec(command="train --key hunter2", env={"TOKEN": "hunter2"}, working_dir="/home/hunter2")
    (fact,) = ask(story, submit(spec=secret))
    assert b"hunter2" not in canonical_json(fact.to_data())


def test_the_spec_is_only_known_by_a_salted_digest():
    one, two = digest_of_spec(b"a" * 16, SPEC.to_data()), digest_of_spec(b"b" * 16, SPEC.to_data())
    assert one != two
    assert len(one) == 64


def test_a_repeat_has_no_second_effect(story):
    story.turn(*ask(story, submit()))
    assert ask(story, submit()) == []
    assert "used at #" in refused(story, submit("other"), "id-reused", content="d").reason


def test_a_request_older_than_the_memory_of_ids(story):
    then = story.pool.now - 60 * DAY
    assert "60 days" in refused(story, submit(), "expired", time=then - 1).reason
    assert isinstance(ask(story, submit(), time=then), list)


@pytest.mark.parametrize("auth", ["none", "acl"])
def test_a_pool_that_wants_signatures(story, auth):
    story.apply_policy(policy(identity={"accept": ["signed"], "keys": {"k": "alice"}}))
    assert "accepts requests with auth signed" in refused(story, submit(), "not-signed", auth=auth).reason
    assert isinstance(ask(story, submit(), auth="signed"), list)


@pytest.mark.parametrize(
    "body",
    [ApplyPolicy(policy=DEFAULT_POLICY), ReplaceNode(node="n1", machine_id="m"), ReturnNode(), AcceptTruncation(epoch=1, seq=2)],
    ids=lambda body: body.TYPE,
)
def test_what_only_operators_may_ask(story, body):
    assert isinstance(ask(story, body), list)  # nobody is named: anybody may
    story.apply_policy(policy(identity={"operators": ["root"]}))
    refused(story, body, "not-permitted", id="q-2")
    assert isinstance(ask(story, body, id="q-2", actor="root"), list)
    assert isinstance(ask(story, submit(), id="q-3"), list)


def test_a_class_for_some_users_only(story):
    story.apply_policy(policy(identity={"class_users": {"inference": ["serving-team"]}}))
    assert "alice" in refused(story, submit(priority_class="inference"), "not-permitted").reason
    assert "an unnamed sender" in refused(story, submit(priority_class="inference"), "not-permitted", actor="").reason
    assert isinstance(ask(story, submit(priority_class="inference"), actor="serving-team"), list)
    assert isinstance(ask(story, submit()), list)


@pytest.mark.parametrize(("job", "phase"), [("low", "running"), ("done", "succeeded")])
def test_a_name_that_is_taken(story, job, phase):
    found = refused(story, submit(job), "job-exists")
    assert (found.job, phase in found.reason) == (job, True)


def test_a_class_that_nobody_knows(story):
    assert "inference, build, interactive, train" in refused(story, submit(priority_class="vip"), "unknown-class").reason


@pytest.mark.parametrize(
    ("demand", "word"),
    [
        (group(gpu_milli=500), "whole GPUs"),
        (group(gpu_share_milli=500), "parts of a GPU"),
        (group(gpu_share_bytes=GIB), "parts of a GPU"),
        (group(gpu_milli=1000, gpu_devices=2), "parts of a GPU"),
        (group(sub_group="a"), "sub_group"),
        (group(order=1), "order"),
        (group(count=2) | {"min_tasks": 1}, "elastic"),
        ({"project": "nlp"}, "project"),
        ({"sub_groups": (SubGroup(name="a"),)}, "sub_groups"),
        ({"topology": TopologyRule(topology="rack")}, "topology"),
        ({"run_time_limit": 5}, "run_time_limit"),
        ({"preemption_delay": 5}, "preemption_delay"),
        ({"pack": "spread"}, "spread"),
    ],
)
def test_what_this_release_cannot_keep_is_refused_and_not_ignored(story, demand, word):
    assert word in refused(story, submit(**demand), "not-supported").reason


def test_a_gang_that_could_never_run(story):
    found = refused(story, submit(tasks=(TaskGroup(count=3, gpu_milli=8000),)), "never-fits")
    assert found.reason.startswith("even on the empty pool")
    assert found.job == "new"
    assert isinstance(ask(story, submit(tasks=(TaskGroup(count=2, gpu_milli=8000),))), list)  # it could, later


def test_a_job_too_large_to_be_started(story):
    large = JobSpec(command="x", env={"DATA": "y" * 300_000})
    found = refused(story, submit(spec=large), "too-large")
    assert "put large values into a file" in found.reason


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


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ({"preemption": {"verbs": ["allocate", "reclaim"]}}, "reclaim"),
        ({"preemption": {"verbs": ["consolidate"]}}, "consolidate"),
        ({"preemption": {"scope": "project"}}, "scope"),
        ({"identity": {"accept": ["signed"]}}, "no key is named"),
    ],
)
def test_policies_that_cannot_be_kept(story, parts, word):
    assert word in refused(story, ApplyPolicy(policy=policy(**parts)), "not-supported").reason
    assert unsupported_policy(DEFAULT_POLICY) is None


def test_nodes(story):
    (fact,) = ask(story, ReplaceNode(node="n1", machine_id="other"))
    assert isinstance(fact, NodeReplaced)
    (fact,) = ask(story, ReturnNode(node="n1"))
    assert isinstance(fact, NodeReturned)
    for body in (ReplaceNode(node="n9", machine_id="m"), ReturnNode(node="n9")):
        assert "the pool has n1, n2" in refused(story, body, "no-such-node").reason


def test_an_operator_accepts_a_loss(story):
    (fact,) = ask(story, AcceptTruncation(epoch=3, seq=99, reason="disk"))
    assert isinstance(fact, LogTruncated)
    assert (fact.epoch, fact.seq) == (3, 99)


def test_a_type_that_is_no_request(story):
    class Dance(RequestBody):
        pass

    refused(story, Dance(), "unknown-type")


def test_reading_a_request_changes_nothing(story):
    from bailiff_core.fold.snapshot import state_digest

    before = state_digest(story.pool)
    for body in (submit(), submit(tasks=(TaskGroup(count=9, gpu_milli=8000),)), CancelJob(job="low")):
        ask(story, body)
    assert state_digest(story.pool) == before


def test_what_is_sick_or_silent_may_come_back(story):
    story.node("n1", gpus=8, sick=[0], boot=2)
    story.silent("n2")
    assert isinstance(ask(story, submit(tasks=(TaskGroup(count=2, gpu_milli=8000),))), list)
    story.lost("n2")
    assert "needs 2 nodes" in refused(story, submit(tasks=(TaskGroup(count=2, gpu_milli=8000),)), "never-fits").reason
