"""Log time: what is due, and what a clock step shifts."""

from tests.log_builder import HOUR, MINUTE, SECOND, Story

from bailiff_core.decision_cycle import wake_at
from bailiff_core.records.facts import ClockAdvanced, ClockStepped


def test_nothing_is_due_in_a_quiet_pool(story):
    assert wake_at(Story().state) is None
    story.node("n1")
    story.runs("job", gpus=8)
    story.submit("waiting", gpus=8)
    assert wake_at(story.state) is None


def test_the_nearest_moment_is_due(story):
    story.node("n1")
    story.runs("low", gpus=8, max_failures=1)
    story.submit("high", gpus=8, cls="interactive")
    assert wake_at(story.state) == story.time + 5 * SECOND  # the selection's limit
    story.propose()
    assert wake_at(story.state) == story.time + 750 * SECOND  # the promise's end
    story.begin("low")
    assert wake_at(story.state) == story.time + 270 * SECOND  # the eviction counts as stuck
    story.ends("low", 1)
    assert wake_at(story.state) == story.time + 2 * SECOND  # the pause after a failure


def test_a_clock_step_expires_nothing(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    story.expect_only()
    assert story.state.selection.deadline == story.time + 5 * SECOND
    story.propose()
    story.begin("low")
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    story.expect_only()
    assert story.job("high").reserved_until == story.time + 750 * SECOND
    assert story.job("low").eviction.started_at == story.time
    story.wait(270 * SECOND)
    story.expect("EvictionStuck", job="low")


def test_a_clock_step_counts_as_no_work_lost(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive", after=MINUTE)
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    story.propose()
    assert story.expect("PreemptionDecided").victims[0].lost_gpu_ms == 8 * 120_000
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    story.yields("low")
    assert story.expect("JobRequeued").lost_gpu_ms == 8 * 120_000


def test_a_clock_step_moves_restart_backoffs(story):
    story.node("n1", gpus=8)
    story.runs("job", gpus=8, max_failures=1)
    story.ends("job", 1)
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    story.expect_only()
    assert story.job("job").not_before == story.time + 2 * SECOND
    story.cycle(ClockAdvanced(), after=2 * SECOND)
    story.expect("JobPlaced", job="job", attempt=2)


def test_a_clock_step_moves_the_next_request(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose(proposals=[])
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    story.expect_only()
    assert wake_at(story.state) == story.time + SECOND


def test_a_clock_step_leaves_a_selection_without_a_deadline_as_it_is():
    story = Story()
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.state.selection.deadline = None
    story.cycle(ClockStepped(jump=HOUR), after=HOUR)
    assert story.state.selection.deadline is None
