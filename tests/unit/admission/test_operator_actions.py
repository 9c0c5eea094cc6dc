"""Requests to evict, pause, resume, migrate, drain: their records, permissions, and refusals."""

import pytest
from tests.kits.log_builder import policy
from tests.unit.admission.kit import ask, refused

from bailiff_core.explain import explain_job
from bailiff_core.records import facts
from bailiff_core.records.job_requests import EvictJob, MigrateJob, PauseJob, ResumeJob
from bailiff_core.records.node_requests import DrainNode, UndrainNode


@pytest.fixture
def running(story):
    """`train` runs on n1, `waits` has no place."""
    story.runs("train", gpus=4)
    story.submit("waits", gpus=8)
    return story


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        (EvictJob(job="train", reason="noon"), facts.JobEvictionRequested),
        (PauseJob(job="train", reason="noon"), facts.JobPaused),
        (PauseJob(job="waits", reason="noon"), facts.JobPaused),
    ],
)
def test_a_request_about_a_job_becomes_its_record_with_the_reason(running, body, fact):
    (found,) = ask(running, body)
    assert found == fact(request=found.request, job=body.job, reason="noon")


def test_paused_and_resumed_once_each(running):
    refused(running, ResumeJob(job="train"), "not-paused")
    running.pause("train")
    assert "paused already, since #" in refused(running, PauseJob(job="train"), "already-paused")
    (found,) = ask(running, ResumeJob(job="train"))
    assert found == facts.JobResumed(request=found.request, job="train")


def test_each_hold_is_paused_and_resumed_once(running):
    running.cycle(facts.JobPaused(request=running.request(), job="train", reason="suspended", hold="kubernetes"))
    refused(running, PauseJob(job="train", hold="kubernetes"), "already-paused")
    assert "kubernetes holds it since #" in refused(running, ResumeJob(job="train"), "not-paused")
    running.pause("train")
    refused(running, PauseJob(job="train"), "already-paused")
    running.resume("train")
    assert running.job("train").pause_reason == "suspended"
    refused(running, ResumeJob(job="train"), "not-paused")
    running.cycle(facts.JobResumed(request=running.request(), job="train", hold="kubernetes"))
    assert running.job("train").paused_seq is None


def test_an_operator_s_pause_holds_over_its_owner_s_resume_also_of_a_job_that_is_paused_already(story):
    story.apply_policy(policy(identity={"operators": ["ops"]}))
    story.actor = "ada"
    fact = story.submitted("theirs", gpus=4)
    story.cycle(fact.model_copy(update={"user": "ada", "user_verified": True}))
    story.started("theirs")
    story.pause("theirs", reason="a new script")
    ops, ada = {"actor": "ops", "auth": "signed"}, {"actor": "ada", "auth": "signed"}
    assert isinstance(ask(story, PauseJob(job="theirs"), **ops)[0], facts.JobPaused)
    story.actor = "ops"
    story.pause("theirs", reason="it floods the file system")
    refused(story, PauseJob(job="theirs"), "already-paused", **ops)
    story.actor = "ada"
    story.resume("theirs")
    assert (story.job("theirs").paused_seq is None, story.job("theirs").pause_reason) == (False, "it floods the file system")
    reason = refused(story, ResumeJob(job="theirs"), "not-paused", **ada)
    assert "not paused by you; an operator holds it since #" in reason
    assert "it floods the file system" in reason
    story.yields("theirs")
    assert "which only an operator may" in explain_job(story.state, story.job("theirs"), story.records)[0].sentences[0].text
    assert isinstance(ask(story, ResumeJob(job="theirs"), **ops)[0], facts.JobResumed)
    story.actor = "ops"
    story.resume("theirs")
    assert (story.job("theirs").holds, story.job("theirs").phase) == ({}, "starting")


def test_an_operator_ends_its_owner_s_pause_too_and_an_operator_s_own_job_is_as_anybody_s(story):
    story.apply_policy(policy(identity={"operators": ["ops"]}))
    for user in ("ada", "ops"):
        fact = story.submitted(f"of-{user}", gpus=4)
        story.cycle(fact.model_copy(update={"user": user, "user_verified": True}))
        story.actor = user
        story.pause(f"of-{user}")
        assert list(story.job(f"of-{user}").holds) == [""]
        story.actor = "ops"
        story.resume(f"of-{user}")
        assert story.job(f"of-{user}").holds == {}


def test_in_a_log_of_before_an_operator_s_pause_is_everybody_s_to_end(story):
    story.apply_policy(policy(identity={"operators": ["ops"]}))
    story.submit("theirs", gpus=4)
    story.actor = "ops"
    story.pause("theirs")
    story.actor = "ada"
    story.resume("theirs")  # it is not admitted any more
    assert story.job("theirs").holds == {}


def test_a_job_without_a_placement_cannot_be_evicted(running):
    assert "waits is pending" in refused(running, EvictJob(job="waits"), "not-placed")
    running.evict("train")
    assert "--grace" in refused(running, EvictJob(job="train"), "not-placed")
    (found,) = ask(running, EvictJob(job="train", grace=5_000_000))
    assert found.grace == 5_000_000


def test_a_migration_without_a_free_placement_is_refused_with_the_reason(running):
    reason = refused(running, MigrateJob(job="train"), "cannot-migrate")
    assert "train cannot be migrated: needs 1 task of 4 GPUs, no node fits one" in reason
    refused(running, MigrateJob(job="waits"), "not-running")
    refused(running, MigrateJob(job="train", node="n9"), "no-such-node")
    running.node("n3", gpus=4)
    (found,) = ask(running, MigrateJob(job="train", node="n3"))
    assert found == facts.JobMigrationRequested(request=found.request, job="train", node="n3")
    running.drain("n3", "graceful")
    assert "is draining" in refused(running, MigrateJob(job="train", node="n3"), "node-unschedulable")
    running.silent("n3")
    assert "is unreachable" in refused(running, MigrateJob(job="train", node="n3"), "node-unschedulable")


def test_unknown_ended_and_cancelled_jobs(running):
    for body in (EvictJob, PauseJob, ResumeJob, MigrateJob):
        refused(running, body(job="nobody"), "no-such-job")
    running.cancel("train")
    refused(running, PauseJob(job="train"), "cancelled")
    running.ends("train")
    refused(running, PauseJob(job="train"), "already-ended")


def test_only_owners_and_operators_may_make_requests_about_a_job(running):
    running.apply_policy(policy(identity={"operators": ["ops"]}))
    for body, rule in ((EvictJob(job="train"), "permissions.evict"), (PauseJob(job="train"), "permissions.pause")):
        assert f"(rule {rule})" in refused(running, body, "not-permitted", actor="bob")
        assert f"(rule {rule})" in refused(running, body, "not-permitted", actor="ops")  # says so, but has not signed
        assert isinstance(ask(running, body, actor=running.job("train").user), list)
        assert isinstance(ask(running, body, actor="ops", auth="signed"), list)


def test_only_operators_drain(running):
    running.apply_policy(policy(identity={"operators": ["ops"]}))
    refused(running, DrainNode(node="n1"), "not-permitted", actor="alice")
    (found,) = ask(running, DrainNode(node="n1", mode="quick", reason="driver"), actor="ops", auth="signed")
    assert found == facts.NodeDrained(request=found.request, node="n1", mode="quick", reason="driver")


def test_where_requests_are_signed_these_are_too(running):
    keys = {"3sQ8x0l7mJ2r5Yt1vN9aZc4eKb6gWd8fHu0iPqRsTwE": "alice"}
    running.apply_policy(policy(identity={"accept": ["signed"], "keys": keys}))
    for body in (EvictJob(job="train"), PauseJob(job="train"), MigrateJob(job="train"), DrainNode(node="n1")):
        refused(running, body, "auth-not-accepted")
    assert isinstance(ask(running, PauseJob(job="train"), auth="signed"), list)


def test_what_is_not_drained_cannot_be_undrained(running):
    refused(running, UndrainNode(node="n1"), "not-drained")
    refused(running, UndrainNode(node="n9"), "no-such-node")
    refused(running, DrainNode(node="n9"), "no-such-node")
    running.drain("n1", "graceful")
    (found,) = ask(running, UndrainNode(node="n1", reason="done"))
    assert found == facts.NodeUndrained(request=found.request, node="n1", reason="done")
