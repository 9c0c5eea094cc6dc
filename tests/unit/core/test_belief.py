"""A job that ignores its grace, or reports checkpoints that cannot be read, gets less of both next time, and gains nothing."""

import io

import pytest
from rich.console import Console
from tests.kits.explained import explained
from tests.kits.log_builder import HOUR, MINUTE, SECOND
from tests.kits.story_script import play

from bailiff.doctor.checks import belief_checks
from bailiff.render.serializers.job_details import job_details
from bailiff.render.serializers.jobs import job_rows
from bailiff.tables.job_columns import jobs_text
from bailiff.tables.jobs import job_block
from bailiff_core.model.grace import grace_of
from bailiff_core.model.work_lost import lost_gpu_ms
from bailiff_core.records import facts
from bailiff_service.metrics import JOBS_BELIEVED_LESS
from bailiff_service.pool_metrics import pool_samples

CLAIMED = 8 * MINUTE
CHECKPOINT = facts.Checkpoint(step=7, bytes=1, duration=SECOND, sha256="0" * 64)


@pytest.fixture
def story(tell):
    """One job of eight GPUs that runs, with a grace of its own."""
    return play("rules {claims: {grace: 10m}}; node n1: 8 gpus; runs job: 8 gpus, grace 480000000")


def evicted(story, *stages, code=-9, **checkpoint):
    """The job is evicted, goes through these stages, and exits."""
    if story.job("job").eviction is None:
        story.evict("job")
    story.begin("job")
    for stage in ("noticed", *stages):
        more = checkpoint if stage == "checkpoint_committed" else {}
        story.cycle(facts.EvictionStageReached(**story.at("job", 0), stage=stage, **more))
    story.ends("job", code)


def ignores(story):
    """It does nothing within its grace, and is killed."""
    evicted(story, "term_sent", "kill_sent")


def saves(story):
    """It saves a checkpoint within its grace."""
    evicted(story, "checkpoint_committed", code=85, checkpoint=CHECKPOINT)


def starts(story, damaged=0):
    """It starts again, on a node that finds so many damaged checkpoints."""
    story.cycle(facts.TaskStarted(**story.at("job", 0), damaged_checkpoints=damaged))


def grace(story):
    return grace_of(story.state, story.job("job"))


def counted(story):
    """The running time that counts as work lost after hours without a checkpoint, µs."""
    return lost_gpu_ms(story.state, story.job("job"), 1_000_000) - story.state.rules.preemption.restart_cost


def test_each_ignored_grace_in_a_row_halves_grace_and_counted_loss(story):
    for left in (4 * MINUTE, 2 * MINUTE, MINUTE, 30 * SECOND, 15 * SECOND, 7_500_000, 7_500_000):
        ignores(story)
        assert grace(story) == left
        starts(story)
    story.submit("later", gpus=8, after=5 * HOUR)
    assert counted(story) == HOUR >> 6


def test_the_grace_is_never_less_than_the_policy_s_short_grace(tell):
    story = play("rules {claims: {grace: 10m}, eviction: {short_grace: 1m}}; node n1: 8 gpus; runs job: 8 gpus, grace 90s")
    ignores(story)
    assert grace(story) == MINUTE


def test_a_checkpoint_that_the_next_start_can_read_restores_the_belief(story):
    ignores(story)
    starts(story)
    saves(story)
    assert grace(story) == 4 * MINUTE, "so far it is only its word"
    starts(story)
    assert grace(story) == CLAIMED


def test_a_reported_checkpoint_that_cannot_be_read_is_a_broken_promise(story):
    saves(story)
    starts(story, damaged=1)
    assert grace(story) == 4 * MINUTE
    saves(story)
    starts(story, damaged=2)
    assert grace(story) == 2 * MINUTE


def test_damaged_files_of_a_job_that_reported_none_say_nothing(story):
    evicted(story, "term_sent", code=85)
    starts(story, damaged=1)
    assert grace(story) == CLAIMED


def test_who_leaves_on_term_without_saving_has_not_ignored_its_grace(story):
    evicted(story, "term_sent", code=-15)
    assert grace(story) == CLAIMED


def test_a_shortened_grace_says_nothing_about_the_job(story):
    story.evict("job")
    story.begin("job")
    story.cycle(facts.JobEvictionRequested(request=story.request(), job="job", grace=SECOND))
    for stage in ("noticed", "term_sent", "kill_sent"):
        story.cycle(facts.EvictionStageReached(**story.at("job", 0), stage=stage))
    story.ends("job", -9)
    assert grace(story) == CLAIMED


def test_a_grace_that_the_policy_shortens_says_nothing_about_the_job(story):
    play("evict job; begin job; policy {claims: {grace: 2m}}; => GraceShortened", story=story)
    for stage in ("noticed", "term_sent", "kill_sent"):
        story.cycle(facts.EvictionStageReached(**story.at("job", 0), stage=stage))
    story.ends("job", -9)
    assert story.job("job").unkept == 0


def test_a_fast_drain_says_nothing_about_the_job(story):
    story.drain("n1", "fast")
    ignores(story)
    assert grace(story) == CLAIMED


def test_explain_names_what_was_claimed_and_what_is_believed(story):
    ignores(story)
    starts(story)
    claim, less = explained(story, "job")["What does it claim, and what is granted?"]
    assert claim == "It claims grace 8m, and is granted 4m."
    assert less.startswith("It is believed less, 1 time in a row:")
    assert "its grace is 4m instead of 8m" in less
    assert "at most 30m counts as work lost instead of 1h" in less


def shown(story):
    """The list, the description of the job, what the doctor finds, and the metric."""
    out, job, now = io.StringIO(), story.job("job"), story.state.now
    Console(width=100, file=out).print(job_block(job_details(story.state, job, now, [], [])))
    (count,) = (value for metric, _, value in pool_samples(story.state) if metric is JOBS_BELIEVED_LESS)
    return jobs_text(job_rows(story.state, now)), out.getvalue(), belief_checks(story.state), count


def test_an_operator_is_shown_which_jobs_are_believed_less(story):
    listed, described, found, count = shown(story)
    assert ("BELIEVED" in listed, "believed" in described, found, count) == (False, False, [], 0)
    for _ in range(2):
        ignores(story)
        starts(story)
    listed, described, (check,), count = shown(story)
    header, row = (line.split("\t") for line in listed.splitlines())
    assert row[header.index("BELIEVED")] == "less"
    assert ["believed", "less,", "2", "times", "in", "a", "row"] in [line.split() for line in described.splitlines()]
    assert (check["status"], count) == ("warn", 1)
    assert check["found"] == "1 job believed less, for ignored graces or unreadable checkpoints: job (2 times in a row)"
    saves(story)
    starts(story)
    assert shown(story)[2:] == ([], 0)
