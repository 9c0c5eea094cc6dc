"""A job cancelled in every phase of its life."""


def test_cancelled_while_pending(story):
    story.submit("job", gpus=1)
    story.cancel("job")
    story.expect_only("JobEnded")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_cancelled_while_its_selection_is_open(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("job", gpus=8, cls="interactive")
    answer = story.proposal()
    story.cancel("job")
    story.expect("JobEnded", job="job", outcome="cancelled")
    assert story.state.selection is None
    assert story.state.selections == answer.selection
    assert story.job("low").phase == "running"


def test_cancelled_while_another_job_is_in_the_same_selection(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.cycle(story.submitted("x", gpus=8, cls="interactive"), story.submitted("y", gpus=8, cls="interactive"))
    story.cancel("x")
    assert [request.job for request in story.state.selection.requests] == ["y"]
    story.propose()
    story.expect("PreemptionDecided")


def test_cancelled_while_reserved(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("job", gpus=8, cls="interactive")
    story.propose()
    story.cancel("job")
    story.expect_only("ReservationDropped", "JobEnded", "EvictionCancelled")


def test_cancelled_while_starting(story):
    story.node("n1", gpus=8)
    story.submit("job", gpus=4, tasks=2)
    story.started("job", task=0)
    story.cancel("job")
    stopped = story.expect("EvictionDecided", job="job", cause="cancelled")
    assert stopped.reason == "cancellation requested"
    story.yields("job")
    story.expect("JobEnded", job="job", outcome="cancelled", exit_codes={"0": 85, "1": 85})


def test_cancelled_while_running(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cancel("job")
    story.expect("EvictionDecided", job="job", cause="cancelled")
    story.submit("next", gpus=8)
    story.expect("JobPlaced", job="next", reserved=True)
    story.yields("job", 143)
    story.expect("JobEnded", job="job", outcome="cancelled")
    story.expect("JobStarting", job="next")


def test_resources_of_a_cancelled_job_are_reserved_at_once_for_a_pending_job(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.submit("next", gpus=8)
    story.cancel("job")
    story.expect("JobPlaced", job="next", reserved=True)


def test_cancelled_while_exited(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.exits("job", 1)
    story.cancel("job")
    story.expect_only()
    story.releases("job")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_cancelled_during_its_eviction(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    story.begin("job")
    story.cancel("job")
    story.expect_only()
    story.ends("job", 85)
    story.expect("JobEnded", job="job", outcome="cancelled")
    story.expect("JobStarting", job="high")


def test_cancelled_during_its_restart_backoff(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8, max_failures=3)
    story.ends("job", 1)
    story.expect("JobRequeued")
    story.cancel("job")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_a_job_that_finished_before_its_cancellation_is_finished(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cancel("job")
    story.ends("job", 0)
    story.expect("JobEnded", job="job", outcome="succeeded")


def test_a_second_cancellation_has_no_effect(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cancel("job")
    story.cancel("job")
    story.expect_only()
