"""A job cancelled in every phase of its life."""


def test_while_it_waits(story):
    story.submit("job", gpus=1)
    story.cancel("job")
    story.expect_only("JobEnded")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_while_it_asks(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("job", gpus=8, cls="interactive")
    answer = story.proposal()
    story.cancel("job")
    story.expect("JobEnded", job="job", outcome="cancelled")
    assert story.state.selection is None
    assert story.state.selections == answer.selection
    assert story.job("low").phase == "running"


def test_while_another_asks_in_the_same_selection(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.cycle(story.submitted("x", gpus=8, cls="interactive"), story.submitted("y", gpus=8, cls="interactive"))
    story.cancel("x")
    assert [request.job for request in story.state.selection.requests] == ["y"]
    story.propose()
    story.expect("PreemptionDecided")


def test_while_it_is_promised_room(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("job", gpus=8, cls="interactive")
    story.propose()
    story.cancel("job")
    story.expect_only("ReservationDropped", "JobEnded", "EvictionCancelled")


def test_while_it_starts(story):
    story.node("n1", gpus=8)
    story.submit("job", gpus=4, tasks=2)
    story.started("job", task=0)
    story.cancel("job")
    stopped = story.expect("EvictionDecided", job="job", cause="cancelled")
    assert stopped.reason == "cancellation requested"
    story.yields("job")
    story.expect("JobEnded", job="job", outcome="cancelled", exit_codes={"0": 85, "1": 85})


def test_while_it_runs(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cancel("job")
    story.expect("EvictionDecided", job="job", cause="cancelled")
    story.submit("next", gpus=8)
    story.expect("JobPlaced", job="next", reserved=True)
    story.yields("job", 143)
    story.expect("JobEnded", job="job", outcome="cancelled")
    story.expect("JobStarting", job="next")


def test_the_room_of_a_cancelled_job_is_promised_at_once_to_who_waits(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.submit("next", gpus=8)
    story.cancel("job")
    story.expect("JobPlaced", job="next", reserved=True)


def test_while_it_exits(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.exits("job", 1)
    story.cancel("job")
    story.expect_only()
    story.releases("job")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_while_it_is_evicted(story):
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


def test_while_its_pause_after_a_failure_lasts(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8, max_failures=3)
    story.ends("job", 1)
    story.expect("JobRequeued")
    story.cancel("job")
    story.expect("JobEnded", job="job", outcome="cancelled")


def test_finished_just_before_is_finished(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cancel("job")
    story.ends("job", 0)
    story.expect("JobEnded", job="job", outcome="succeeded")


def test_twice_is_once(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8)
    story.cancel("job")
    story.cancel("job")
    story.expect_only()
