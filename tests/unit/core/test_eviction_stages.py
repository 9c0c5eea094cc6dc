"""Reports of a task while it runs and during its eviction: what the log records of them, and their effect."""

import pytest
from tests.kits.log_builder import MINUTE, SECOND, Story, digest
from tests.kits.story_script import play

from bailiff_core.explain.eviction_stages import stuck_text
from bailiff_core.model.grace import term_after
from bailiff_core.records import facts


def checkpoint(step, **other):
    return facts.Checkpoint(step=step, bytes=1 << 20, duration=1000, sha256=digest("weights"), **other)


def stage(story, job, name, task=0, **fields):
    return story.cycle(facts.EvictionStageReached.model_validate({**story.at(job, task), "stage": name, **fields}))


def saved(story, job, step, task=0, checkpoint_age=0, **other):
    fact = facts.TaskProgressed(
        **story.at(job, task), step=step, checkpoint=checkpoint(step, **other), checkpoint_age=checkpoint_age
    )
    assert story.cycle(fact) == []


@pytest.fixture
def leaving(story: Story) -> Story:
    """A gang of two with an eviction notice. It may not fail even once."""
    play("node n1: 4 gpus; runs gang: 2 x 2 gpus; +1m; submit high: inference, 4 gpus; propose; begin gang", story=story)
    for task in (0, 1):
        stage(story, "gang", "noticed", task, attached=True, step=100, step_rate_milli=2000)
    return story


@pytest.mark.parametrize("code", [0, 1, 2, 85, 143, -9, -11])
def test_a_task_that_acknowledged_is_preempted_whatever_its_exit_code(leaving, code):
    for task in (0, 1):
        stage(leaving, "gang", "acknowledged", task, step=101)
    leaving.ends("gang", code)
    leaving.expect("JobRequeued", job="gang", outcome="preempted", cause="preemption")
    assert (leaving.job("gang").failures, leaving.job("gang").evictions) == (0, 1)


def test_a_member_that_fails_after_another_member_s_eviction_has_not_failed(leaving):
    """torchrun ends the workers of an evicted rank with exit code 1, whether they had acknowledged or not."""
    stage(leaving, "gang", "acknowledged", 0)
    leaving.ends("gang", 85, task=0)
    leaving.ends("gang", 1, task=1)
    leaving.expect("JobRequeued", job="gang", outcome="preempted-unclean")
    assert leaving.job("gang").failures == 0


def test_a_gang_that_fails_before_its_notice_has_failed():
    story = play("node n1: 4 gpus; runs gang: 2 x 2 gpus; ends gang 1 task=0; begin gang")
    stage(story, "gang", "noticed", 1, attached=True)
    stage(story, "gang", "acknowledged", 1)
    story.ends("gang", 85, task=1)
    story.expect("JobEnded", job="gang", outcome="failed")


def test_each_stage_is_known_with_its_time(leaving):
    began = leaving.time
    leaving.wait(2 * SECOND)
    stage(leaving, "gang", "acknowledged", step=101)
    task = leaving.job("gang").task(0)
    assert task.stage_times == {"noticed": began, "acknowledged": began + 2 * SECOND}
    assert (task.attached, task.step_rate_milli, task.step) == (True, 2000, 101)
    leaving.cycle(facts.ClockStepped(jump=MINUTE), after=MINUTE)
    assert task.stage_times["noticed"] == began + MINUTE


# --- what a job's checkpoints are worth


def test_a_checkpoint_makes_a_job_cheaper_to_evict():
    story = play("node n1: 4 gpus; runs low: 4 gpus; wait 30m")
    saved(story, "low", 500, checkpoint_age=MINUTE)
    assert story.job("low").last_checkpoint == story.time - MINUTE
    story.submit("high", gpus=4, cls="inference")
    story.propose()
    assert story.expect("PreemptionDecided").victims[0].lost_gpu_ms == 4 * (60_000 + 60_000)  # and the restart
    story.begin("low")
    stage(story, "low", "noticed", attached=True)
    stage(story, "low", "checkpoint_committed", checkpoint=checkpoint(600))
    story.ends("low", 85, after=SECOND)
    assert story.expect("JobRequeued").lost_gpu_ms == 4 * (1000 + 60_000)


def test_the_oldest_checkpoint_of_the_ranks_counts():
    story = play("node n1: 4 gpus; runs gang: 3 x 1 gpu; wait 1m")
    saved(story, "gang", 10, task=0)
    assert story.job("gang").last_checkpoint == story.time
    saved(story, "gang", 10, task=1, checkpoint_age=10 * SECOND)
    assert story.job("gang").last_checkpoint == story.time - 10 * SECOND


def test_checkpoints_without_a_common_step_do_not_count():
    story = play("node n1: 4 gpus; runs gang: 2 x 1 gpu")
    saved(story, "gang", 10, agreed=False)
    assert story.job("gang").last_checkpoint is None
    story.runs("alone", gpus=1)
    saved(story, "alone", 10, agreed=False)
    assert story.job("alone").last_checkpoint == story.time


def test_the_step_of_a_job_is_known_when_it_resumes(leaving):
    stage(leaving, "gang", "checkpoint_committed", task=1, checkpoint=checkpoint(103))
    leaving.ends("gang", 85)
    assert leaving.job("gang").step == 103
    leaving.ends("high") if leaving.job("high").phase == "running" else leaving.started("high")
    leaving.ends("high")
    leaving.started("gang")
    leaving.cycle(facts.TaskResumed(**leaving.at("gang", 0), step=90, from_attempt=1, skipped_checkpoints=1, steps_lost=13))
    assert leaving.job("gang").task(0).step == 89


# --- deadlines


@pytest.mark.parametrize(
    ("policy", "of_class", "of_job", "grace", "soft"),
    [
        (None, None, None, 150, 120),  # what the contract says
        (None, None, None, 5, 4),
        (20, None, None, 150, 130),
        (20, 10, None, 150, 140),
        (20, 10, 60, 150, 90),
        (20, None, None, 20, 16),  # for an immediate tier: no more than a fifth of so short a time
        (None, None, 0, 150, 150),
        (None, None, None, 0, 0),
    ],
)
def test_the_soft_deadline_is_the_policys_or_the_classs_or_the_jobs(tell, policy, of_class, of_job, grace, soft):
    from bailiff_core.model.policy import DEFAULT_POLICY

    def seconds(value):
        return None if value is None else value * SECOND

    classes = [each.model_copy(update={"kill_after": seconds(of_class)}) for each in DEFAULT_POLICY.priority_classes]
    eviction = DEFAULT_POLICY.eviction.model_copy(update={"kill_after": seconds(policy)})
    story = tell(DEFAULT_POLICY.model_copy(update={"priority_classes": tuple(classes), "eviction": eviction}))
    story.node("n1", gpus=4)
    story.runs("job", gpus=1, kill_after=seconds(of_job))
    assert term_after(story.state, story.job("job"), grace * SECOND) == soft * SECOND


@pytest.mark.parametrize(
    ("sent", "stuck_in", "attached", "why"),
    [
        ("term_sent", None, True, ""),
        ("kill_sent", None, False, ""),
        ("term_sent", "noticed", True, "notice never acknowledged"),
        ("kill_sent", "noticed", True, "notice never acknowledged"),
        ("term_sent", "noticed", False, ""),  # it had nothing to acknowledge
        ("kill_sent", "noticed", False, "did not exit on TERM"),
        ("term_sent", "acknowledged", False, "acknowledged but started no checkpoint"),  # it began to listen after its notice
        ("kill_sent", "checkpoint_committed", True, "checkpoint saved but did not exit"),
    ],
)
def test_a_signal_has_its_true_reason(sent: facts.EvictionStage, stuck_in: facts.EvictionStage, attached: bool, why: str) -> None:
    assert stuck_text(facts.Stage(stage=sent, stuck_in=stuck_in), attached) == why
