"""Order of the queue, skipped jobs, and the reason of a pending job."""

from tests.log_builder import MINUTE

from bailiff_core.model.demand import TaskGroup


def test_a_job_that_fits_is_placed_at_once(story):
    story.node("n1", gpus=8)
    story.submit("train-1", gpus=4)
    placed = story.expect("JobPlaced", job="train-1", attempt=1, reserved=False)
    assert [(share.node, share.devices) for share in placed.placement] == [(0, "0-3")]
    assert story.job("train-1").phase == "starting"


def test_higher_priority_goes_first_then_age(story):
    for name, cls in (("old", "train"), ("young", "train"), ("high", "interactive"), ("top", "inference")):
        story.submit(name, gpus=8, cls=cls)
    assert story.state.queue == ["top", "high", "old", "young"]
    for number in range(4):
        story.node(f"n{number}", gpus=8)
        story.started(story.last_decisions[0].job)
    assert [placed.job for placed in story.decisions("JobPlaced")] == ["top", "high", "old", "young"]


def test_jobs_of_one_cycle_keep_their_order(story):
    story.node("n1", gpus=2)
    story.cycle(story.submitted("b", gpus=1), story.submitted("a", gpus=1), story.submitted("c", gpus=1))
    assert [placed.job for placed in story.decisions("JobPlaced")] == ["b", "a"]
    story.expect("JobPending", job="c")


def test_a_job_that_does_not_fit_is_skipped(story):
    story.node("n1", gpus=4)
    story.cycle(story.submitted("big", gpus=8), story.submitted("small", gpus=4))
    story.expect_only("JobPending", "JobPlaced")
    story.expect("JobPlaced", job="small")


def test_a_gang_is_placed_together_or_not_at_all(story):
    story.node("n1", gpus=8)
    story.submit("gang", gpus=8, tasks=2)
    waits = story.expect("JobPending", job="gang")
    assert waits.reason == "needs 2 nodes with 8 free GPUs each, 1 has them"
    assert story.state.nodes[0].allocated.devices == 0
    story.node("n2", gpus=8)
    placed = story.expect("JobPlaced", job="gang")
    assert [(share.node, share.tasks, share.devices) for share in placed.placement] == [(0, "0", "0-7"), (1, "1", "0-7")]
    story.started("gang", task=0)
    assert story.job("gang").phase == "starting"
    story.started("gang", task=1)
    assert story.job("gang").phase == "running"


def test_a_gang_of_different_tasks(story):
    story.node("n1", gpus=4, cpu=8)
    story.node("n2", gpus=0, cpu=64)
    story.submit("mixed", TaskGroup(count=1, gpu_milli=4000, cpu_milli=8000), TaskGroup(count=2, cpu_milli=32_000))
    placed = story.expect("JobPlaced", job="mixed")
    assert [(share.node, share.tasks) for share in placed.placement] == [(0, "0"), (1, "1-2")]


def test_the_pending_reason_is_recorded_once_each_time_the_job_joins_the_queue(story):
    story.node("n1", gpus=8)
    story.runs("busy", gpus=8)
    story.submit("waiting", gpus=8)
    story.expect("JobPending", job="waiting", reason="needs a node with 8 free GPUs, no node has them")
    story.node("n2", gpus=4)
    story.expect_only()
    story.restart()
    story.expect_only()
    story.ends("busy")
    story.expect("JobPlaced", job="waiting")
    story.runs("other", gpus=4)
    story.lost("n1")
    story.wait(MINUTE)
    story.expect_only("JobPending")
    assert [waits.job for waits in story.decisions("JobPending")] == ["waiting", "waiting"]


def test_without_an_action_nothing_is_placed(tell):
    from tests.log_builder import policy

    story = tell(policy(preemption={"actions": []}))
    story.node("n1", gpus=8)
    story.submit("job", gpus=1)
    story.expect_only()
    story.apply_policy(policy())
    story.expect("JobPlaced", job="job")
