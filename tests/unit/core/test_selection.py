"""One selection is out at a time: its timeout, its backoff, and the resources it holds back."""

from tests.log_builder import MINUTE, SECOND, policy


def half_full(story):
    """A node with 4 GPUs idle and 4 taken; a job that needs all 8 requests preemption."""
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.submit("high", gpus=8, cls="interactive")
    story.expect("PreemptionRequested", job="high")


def test_only_one_selection_is_open(story):
    half_full(story)
    story.submit("higher", gpus=8, cls="build")
    story.expect_only("JobPending")
    story.propose()
    story.expect("PreemptionDecided")
    story.expect("PreemptionRequested", job="higher", selection=2)


def test_jobs_behind_the_preemptor_wait_for_its_proposal(story):
    half_full(story)
    story.submit("small", gpus=2)
    story.expect_only()
    story.propose()
    story.expect("PreemptionDecided")
    story.expect("JobPending", job="small")
    assert story.job("small").phase == "pending"


def test_jobs_behind_the_preemptor_then_take_resources_that_it_does_not_need(story):
    half_full(story)
    story.submit("small", gpus=2)
    story.node("n2", gpus=6)
    story.expect_only()
    story.propose()
    assert [choice.moved_to[0].node for choice in story.expect("PreemptionDecided").victims] == [1]
    story.expect("JobPlaced", job="small")


def test_jobs_ahead_of_the_preemptor_may_take_the_resources(story):
    half_full(story)
    story.submit("first", gpus=4, cls="inference")
    story.expect("JobPlaced", job="first", reserved=False)
    story.propose(at=story.state.selection.opened_seq)
    story.expect("PreemptionRefused", reason="stale")


def test_the_wait_ends_with_a_refusal(tell):
    story = tell(policy(backfill="greedy"))
    half_full(story)
    story.submit("small", gpus=2)
    story.propose(proposals=[])
    story.expect("PreemptionRefused", reason="stale")
    story.expect("JobPlaced", job="small")


def test_no_proposal_in_time(tell):
    story = tell(policy(backfill="greedy"))
    half_full(story)
    story.submit("small", gpus=2)
    story.wait(5 * SECOND)
    story.expect("SelectionTimedOut", selection=1, failures=1, retry_at=story.time + 2 * SECOND)
    story.expect("JobPlaced", job="small")
    assert story.state.selection is None
    story.wait(2 * SECOND)
    story.expect("PreemptionRequested", job="high", selection=2)


def test_with_backfill_reserve_no_job_delays_the_preemptor_meanwhile(tell):
    story = tell(policy(backfill="reserve"))
    half_full(story)
    story.submit("small", gpus=2)
    story.propose(proposals=[])
    assert "high" in story.expect("JobPending", job="small").reason


def test_a_proposal_at_the_deadline_still_counts(story):
    half_full(story)
    story.propose(after=5 * SECOND)
    story.expect("PreemptionDecided")


def test_after_three_timeouts_a_selection_waits_for_its_proposal(tell):
    story = tell(policy(backfill="reserve"))
    half_full(story)
    story.wait(MINUTE)
    out = list(story.decisions("SelectionTimedOut"))
    assert [each.failures for each in out] == [1, 2, 3]
    selection = story.state.selection
    assert selection.number == 4
    assert selection.deadline is None
    story.submit("small", gpus=2)
    story.wait(60 * MINUTE)
    assert story.job("small").phase == "pending"  # the head of the queue is not delayed
    story.propose()
    story.expect("PreemptionDecided")
    assert story.state.selection_failures == 0


def test_a_proposal_restores_the_timeout_of_the_next_selection(story):
    half_full(story)
    story.wait(MINUTE)
    story.propose(proposals=[])
    story.wait(2 * SECOND)
    assert story.expect("PreemptionRequested", job="high").deadline == story.expect("PreemptionRequested").deadline is not None


def test_a_selection_has_at_most_64_requests(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.cycle(*(story.submitted(f"high-{n}", gpus=8, cls="interactive") for n in range(70)))
    assert len(story.state.selection.requests) == 64


def test_a_preemptor_that_is_cancelled_frees_the_held_resources(story):
    half_full(story)
    story.submit("small", gpus=2)
    story.cancel("high")
    story.expect("JobEnded", job="high", outcome="cancelled")
    story.expect("JobPlaced", job="small")
    assert story.state.selection is None


def test_a_preemptor_that_is_forgotten_while_its_selection_is_open(tell):
    story = tell(policy(retention={"ended_jobs": 0}))
    half_full(story)
    story.cycle(story.submitted("other", gpus=8, cls="interactive"))
    story.cancel("high")
    assert "high" not in story.state.jobs
    story.submit("small", gpus=2)
    story.wait(MINUTE)
    story.submit("late", gpus=1)


def test_a_node_reserved_beyond_its_capacity_adds_no_free_resources(story):
    """Negative idle resources would count as free for jobs behind the preemptor."""
    story.node("n1", gpus=8, slots=3)
    story.runs("steady", gpus=1, cls="inference")
    story.runs("low", gpus=1)
    story.runs("stuck", gpus=4)
    story.cancel("stuck")
    story.begin("stuck")
    story.submit("promised", gpus=1, cls="interactive")
    story.expect("JobPlaced", job="promised", reserved=True)
    story.cycle(story.submitted("high", gpus=8, cls="build"), after=270 * SECOND)
    story.expect("EvictionStuck", job="stuck")
    story.expect("PreemptionRequested", job="high")
    story.expect("ReservationDropped", job="promised")
    assert story.job("promised").phase == "pending"
    assert story.state.nodes[0].allocated.slots == 3


def test_a_job_that_is_paused_meanwhile_requests_nothing_any_more(story):
    half_full(story)
    story.pause("high")
    assert story.state.selection is None
    assert (story.job("high").phase, story.job("low").phase) == ("paused", "running")
