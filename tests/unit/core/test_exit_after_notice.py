"""Exit code 0 after an eviction notice is a preemption, unless the job said that it was done."""

import pytest
from tests.log_builder import policy

from bailiff_core.records import facts


def exits_with_0(story, job, *, stages=("noticed", "term_sent"), done=False):
    story.begin(job)
    for stage in stages:
        story.staged(job, stage)
    gone = [facts.TaskExited(**story.at(job, n), exit_code=0, done=done) for n in story.members(job)]
    return story.cycle(*gone, *(facts.TaskReleased(**story.at(job, n)) for n in story.members(job)))


@pytest.fixture
def preempted(story):
    """Four jobs of one GPU each, evicted for one of four; `also`: further demands of theirs."""

    def with_four_victims(**also):
        story.node("n1", gpus=4)
        for number in range(4):
            story.runs(f"low-{number}", gpus=1, **also)
        story.submit("high", gpus=4, cls="interactive")
        story.propose()
        return story

    return with_four_victims


def test_every_victim_that_answers_term_with_0_comes_back(preempted):
    story = preempted()
    for number in range(4):
        exits_with_0(story, f"low-{number}")
        requeued = story.expect("JobRequeued", job=f"low-{number}", outcome="preempted", cause="preemption")
        assert requeued.rule == "exit-0-after-notice"
        assert story.job(f"low-{number}").phase == "pending"
    story.started("high")
    story.ends("high")
    for number in range(4):
        assert story.job(f"low-{number}").phase == "starting"


def test_a_job_that_reported_done_has_finished(preempted):
    story = preempted()
    exits_with_0(story, "low-0", done=True)
    story.expect("JobEnded", job="low-0", outcome="succeeded")


def test_a_job_with_on_term_finish_has_finished(preempted):
    story = preempted(on_term="finish")
    exits_with_0(story, "low-0")
    story.expect("JobEnded", job="low-0", outcome="succeeded")


def test_a_job_that_ends_when_evicted_is_evicted_and_the_record_says_why(preempted):
    story = preempted(on_eviction="end")
    exits_with_0(story, "low-0")
    ended = story.expect("JobEnded", job="low-0", outcome="evicted")
    assert "exit-0-after-notice" in ended.reason


def test_a_job_that_exits_with_0_before_its_notice_has_finished(preempted):
    story = preempted()
    exits_with_0(story, "low-0", stages=())
    story.expect("JobEnded", job="low-0", outcome="succeeded")


@pytest.mark.parametrize("ask", ["evict", "pause", "migrate", "drain"])
def test_the_same_holds_for_every_other_eviction(story, ask):
    story.node("n1", gpus=4)
    story.runs("job", gpus=4)
    story.node("n2", gpus=4)
    if ask == "drain":
        story.drain("n1", "quick")
    else:
        getattr(story, ask)("job")
    exits_with_0(story, "job")
    assert story.expect("JobRequeued", job="job").rule == "exit-0-after-notice"
    assert story.job("job").phase == ("paused" if ask == "pause" else "starting")


def test_a_cancelled_job_that_answers_term_with_0_is_cancelled(story):
    story.node("n1")
    story.runs("job", gpus=1)
    story.cancel("job")
    exits_with_0(story, "job")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_surplus_that_answers_term_with_0_leaves_and_the_job_runs_on(tell):
    story = tell(policy())
    story.node("n1", gpus=4)
    story.runs("wide", gpus=1, tasks=4, min_tasks=2, elastic="live")
    story.submit("high", gpus=2, cls="interactive")
    story.propose()
    story.begin("wide")
    going = [task.index for task in story.job("wide").tasks if task.eviction is not None]
    for task in going:
        story.staged("wide", "term_sent", task=task)
        story.ends("wide", 0, task=task)
    assert len(going) == 2
    assert story.members("wide", "running") == [0, 1]
    assert story.job("wide").phase == "running"


def test_a_record_without_the_word_is_written_as_before(story):
    story.node("n1")
    story.runs("job", gpus=1)
    story.exits("job", 0)
    story.releases("job")
    exited = next(record for record in story.records if isinstance(record.data, facts.TaskExited))
    assert "done" not in exited.data.to_data()
