"""Jobs that change their number of tasks, or reach their run-time limit."""

from tests.log_builder import HOUR, MINUTE


def serving(story, gpus=8):
    story.node("n1", gpus=gpus)
    story.runs("serve", gpus=1, tasks=2, cls="inference")


def test_a_running_job_grows_in_place_and_needs_no_more_than_before(story):
    serving(story)
    story.scale("serve", 6)
    assert [grown.placement[0].tasks for grown in story.last_decisions] == ["2", "3", "4", "5"]
    assert (story.job("serve").minimum, story.job("serve").size) == (2, 6)
    story.started("serve")
    assert story.job("serve").attempt == 1


def test_tasks_that_do_not_fit_are_pending(story):
    serving(story, gpus=3)
    story.scale("serve", 6)
    assert story.members("serve") == [0, 1, 2]
    assert story.state.queue == ["serve"]


def test_growth_may_preempt_other_jobs(story):
    serving(story)
    story.runs("train", gpus=6)
    story.scale("serve", 4)
    asked = story.expect("PreemptionRequested", job="serve")
    assert asked.tasks == "2"
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert (decided.tasks, decided.attempt, [choice.job for choice in decided.victims]) == ("2", 1, ["train"])
    assert story.job("serve").phase == "running"
    story.yields("train")
    story.expect("JobStarting", job="serve", tasks="2")
    story.started("serve")
    assert story.members("serve", "running") == [0, 1, 2, 3]


def test_scaling_down_evicts_the_last_tasks(story):
    serving(story)
    story.scale("serve", 6)
    story.started("serve")
    story.scale("serve", 3)
    decided = story.expect("EvictionDecided", job="serve", cause="scaled")
    assert decided.tasks == "3-5"
    story.yields("serve")
    assert story.expect("JobShrunk", job="serve").tasks == "3-5"
    assert (story.job("serve").phase, story.members("serve"), story.state.queue) == ("running", [0, 1, 2], [])


def test_scaling_down_while_growth_is_reserved(story):
    story.node("n1", gpus=4)
    story.runs("short", gpus=2)
    story.runs("serve", gpus=1, tasks=2, cls="inference")
    story.exits("short")
    story.scale("serve", 4)
    assert story.members("serve", "reserved") == [2, 3]
    story.scale("serve", 3)
    story.expect("ReservationDropped", job="serve", reason="scaled", tasks="3")
    assert story.members("serve", "reserved") == [2]


def test_scaling_a_pending_job_changes_its_request(story):
    story.node("n1", gpus=4)
    story.submit("gang", gpus=1, tasks=6)
    story.scale("gang", 4)
    assert story.expect("JobPlaced", job="gang").placement[0].tasks == "0-3"
    assert story.job("gang").minimum == 4


def test_scaling_a_reserved_job_places_it_anew(story):
    story.node("n1", gpus=4)
    story.runs("short", gpus=4)
    story.submit("gang", gpus=1, tasks=4)
    story.exits("short")
    story.expect("JobPlaced", job="gang", reserved=True)
    story.scale("gang", 2, minimum=2)
    story.expect("ReservationDropped", job="gang", reason="scaled")
    assert story.expect("JobPlaced", job="gang").placement[0].tasks == "0-1"


def test_a_job_runs_no_longer_than_it_may(story):
    story.node("n1", gpus=8)
    story.runs("bounded", gpus=4, run_time_limit=HOUR)
    story.runs("free", gpus=4)
    story.wait(HOUR - MINUTE)
    assert story.last_decisions == []
    story.wait(MINUTE)
    story.expect("EvictionDecided", job="bounded", cause="time-limit")
    story.yields("bounded")
    ended = story.expect("JobEnded", job="bounded", outcome="timed-out")
    assert ended.reason == "it ran longer than its limit of 3600 s"
    assert story.job("free").phase == "running"


def test_a_job_that_succeeds_within_the_grace_has_succeeded(story):
    story.node("n1", gpus=8)
    story.runs("bounded", gpus=4, run_time_limit=HOUR)
    story.wait(HOUR)
    story.ends("bounded", 0)
    story.expect("JobEnded", job="bounded", outcome="succeeded")


def test_the_limit_counts_each_attempt_from_its_start(story):
    story.node("n1", gpus=8)
    story.runs("bounded", gpus=8, run_time_limit=HOUR)
    story.submit("urgent", gpus=8, cls="inference", after=MINUTE)
    story.propose()
    story.yields("bounded")
    story.started("urgent")
    story.wait(2 * HOUR)
    assert story.state.run_time_limits == []
    story.ends("urgent")
    story.started("bounded")
    assert [moment - story.state.now for moment, _ in story.state.run_time_limits] == [HOUR]
