"""The meaning of exits: the outcome table of the job contract, for one task and for gangs."""

import pytest
from tests.log_builder import MINUTE, SECOND

from bailiff_core.lifecycle.outcome import gang_verdict, verdict
from bailiff_core.model.state import Task
from bailiff_core.records.facts import TaskExited

EVERY_CODE = (0, 1, 2, 85, 127, 137, 139, 143, -9, -15, -11, 255)


def expected(code, acknowledged, term, kill, done):
    """The table, in its own words; codes of a kill that we sent count as unclean like those of TERM."""
    if code == 0:
        return "preempted" if (acknowledged or term or kill) and not done else "finished"
    if acknowledged:
        return "preempted"
    if code == 85:
        return "preempted" if term or kill else "yielded"
    if code in (143, -15) and term:
        return "preempted-unclean"
    if code in (137, -9) and kill:
        return "preempted-unclean"
    return "failed"


@pytest.mark.parametrize("code", EVERY_CODE)
@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("stages", [(), ("term_sent",), ("kill_sent",), ("term_sent", "kill_sent")])
@pytest.mark.parametrize("done", [False, True])
def test_the_outcome_table(code, stages, acknowledged, done):
    task = Task(0, 0, 0, "exited", exit_code=code, acknowledged=acknowledged, reported_done=done, **dict.fromkeys(stages, True))
    assert verdict(task) == expected(code, acknowledged, "term_sent" in stages, "kill_sent" in stages, done)


def test_an_unobserved_exit_is_a_loss():
    assert verdict(Task(0, 0, 0, "released")) == "lost"


@pytest.mark.parametrize(
    ("codes", "means"),
    [
        ((0, 0), "preempted"),
        ((0, 85), "preempted"),
        ((85, 143), "preempted-unclean"),
        ((0, None), "lost"),
        ((143, None), "lost"),
        ((85, 1), "failed"),
        ((None, 1), "failed"),
        ((0, 0, 0, 2), "failed"),
    ],
)
def test_a_gang_is_as_bad_as_its_worst_member(story, codes, means):
    story.submit("gang", tasks=len(codes))
    job = story.job("gang")
    tasks = [Task(n, 0, 0, "released", exit_code=code, term_sent=True) for n, code in enumerate(codes)]
    job.tasks = tasks
    assert gang_verdict(job) == means
    job.tasks = []


def running(story, **asked):
    story.node("n1", gpus=8)
    story.runs("job", gpus=4, tasks=2, **asked)


def test_success(story):
    running(story)
    story.ends("job", 0, task=0)
    story.expect_only()
    story.ends("job", 0, task=1)
    ended = story.expect("JobEnded", job="job", outcome="succeeded")
    assert ended.exit_codes == {}  # only what did not end with 0 is worth a word


def test_a_failure_stops_the_others_and_ends_the_job(story):
    running(story)
    story.exits("job", 3, task=1)
    stopped = story.expect("EvictionDecided", job="job", cause="gang-failure", grace=150 * SECOND)
    assert stopped.reason == "task 1 ended, so the gang is stopped"
    story.releases("job")
    story.staged("job", "term_sent", task=0)
    story.ends("job", 143, task=0)
    ended = story.expect("JobEnded", job="job", outcome="failed", exit_codes={"0": 143, "1": 3})
    assert ended.reason == "task 1 ended with exit code 3"


def test_an_unobserved_exit_of_a_member_is_a_loss_and_no_failure(story):
    """Its machine came back from a reboot, or its supervisor was killed: the code is what was done to the rest of it."""
    running(story)
    story.cycle(TaskExited(**story.at("job", 0), exit_code=-9, unobserved=True))
    story.expect("EvictionDecided", job="job", cause="gang-failure")
    story.releases("job", task=0)
    story.ends("job", 85, task=1)
    story.expect("JobRequeued", job="job", outcome="lost")
    assert (story.job("job").failures, story.job("job").losses) == (0, 1)


def test_a_failure_within_the_limit_is_retried_after_a_backoff(story):
    running(story, max_failures=2)
    pauses = []
    for _ in range(2):
        story.ends("job", 1)
        again = story.expect("JobRequeued", job="job", outcome="failed", cause="exit")
        pauses.append(again.not_before - story.time)
        assert "JobPlaced" not in [type(decision).__name__ for decision in story.last_decisions]
        story.wait(again.not_before - story.time)
        story.expect("JobPlaced", job="job")
        story.started("job")
    assert pauses == [2 * SECOND, 4 * SECOND]
    story.ends("job", 1)
    story.expect("JobEnded", job="job", outcome="failed")


def test_the_backoff_has_a_maximum(story):
    running(story, max_failures=10)
    for _ in range(8):
        story.ends("job", 1)
        again = story.expect("JobRequeued", job="job")
        story.wait(again.not_before - story.time)
        story.started("job")
    assert again.not_before == story.time
    assert again.attempt == 8
    story.ends("job", 1)
    assert story.expect("JobRequeued").not_before - story.time == 64 * SECOND


def test_preemptions_do_not_count_as_failures(story):
    running(story, max_failures=1)
    for number in range(3):
        story.submit(f"high-{number}", gpus=8, cls="interactive")
        story.propose()
        story.yields("job", 143)
        story.expect("JobRequeued", job="job", outcome="preempted-unclean", not_before=0)
        story.started(f"high-{number}")
        story.ends(f"high-{number}", 0)
        story.started("job", after=MINUTE)
    assert (story.job("job").failures, story.job("job").evictions) == (0, 3)
    assert story.job("job").last_eviction is not None


def test_a_job_that_is_to_end_with_its_first_eviction(story):
    running(story, on_eviction="end")
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.yields("job", 85)
    story.expect("JobEnded", job="job", outcome="evicted")
    assert story.job("job").phase == "failed"


def test_a_failure_during_an_eviction_is_a_failure(story):
    running(story)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.begin("job")
    story.staged("job", "noticed")
    story.ends("job", 1)
    story.expect("JobEnded", job="job", outcome="failed")
    story.expect("JobStarting", job="high")


def test_exit_code_143_without_an_eviction_is_a_failure(story):
    running(story)
    story.ends("job", 143)
    story.expect("JobEnded", job="job", outcome="failed")


def test_an_unsolicited_yield_requeues_the_job_after_its_backoff(story):
    running(story)
    story.ends("job", 85)
    story.expect("JobRequeued", job="job", outcome="yielded", cause="exit", not_before=story.state.now + 2 * SECOND)
    story.wait(2 * SECOND)
    story.expect("JobPlaced", job="job", attempt=2)


def test_a_start_that_the_agent_refused(story):
    from bailiff_core.records.facts import TaskStartRefused

    story.node("n1", gpus=8)
    story.submit("job", gpus=4, tasks=2)
    story.started("job", task=0)
    story.cycle(TaskStartRefused(**story.at("job", 1), reason="the device is busy"))
    story.expect("EvictionDecided", job="job", cause="gang-failure")
    story.begin("job")
    story.staged("job", "term_sent")
    story.ends("job", 143)
    again = story.expect("JobRequeued", job="job", outcome="lost")
    assert again.not_before > story.time
    assert story.job("job").failures == 0


def test_what_was_lost_is_counted_from_the_present_start(story):
    running(story)
    story.submit("high", gpus=8, cls="interactive", after=10 * MINUTE)
    story.propose()
    story.yields("job")
    assert story.expect("JobRequeued").lost_gpu_ms == 8 * (600 + 60) * 1000
    story.ends("high", 0, after=10 * MINUTE)
    story.expect("JobPlaced", job="job", attempt=2)
    story.submit("higher", gpus=8, cls="interactive", after=MINUTE)
    story.propose()  # the second attempt has not started yet: nothing but the restart is lost
    assert [choice.lost_gpu_ms for choice in story.expect("PreemptionDecided").victims] == [8 * 60 * 1000]
