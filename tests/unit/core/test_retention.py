"""What the state forgets, by rule, on log time."""

from tests.log_builder import DAY, HOUR, MINUTE, SECOND, digest, folded, policy

from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records.facts import ClockAdvanced, ClockStepped, InputRejected


def finished(story, name="job"):
    """A job that has come and gone."""
    story.runs(name, gpus=1)
    story.ends(name, 0)


def test_ended_jobs_are_remembered_for_a_while(story):
    story.node("n1")
    finished(story)
    story.cycle(ClockAdvanced(), after=7 * DAY - 1)
    assert "job" in story.state.jobs
    story.cycle(ClockAdvanced(), after=1)
    assert "job" not in story.state.jobs
    assert story.state.ended == {}
    story.submit("job", gpus=1)
    story.expect("JobPlaced", job="job", attempt=1)


def test_only_what_is_old_enough_is_forgotten(story):
    story.node("n1")
    finished(story, "old")
    story.cycle(ClockAdvanced(), after=DAY)
    finished(story, "young")
    story.cycle(ClockAdvanced(), after=6 * DAY)
    assert list(story.state.jobs) == ["young"]


def test_waiting_and_running_jobs_are_never_forgotten(story):
    story.node("n1", gpus=1)
    story.runs("job", gpus=1)
    story.submit("waiting", gpus=1)
    story.cycle(ClockAdvanced(), after=1000 * DAY)
    assert list(story.state.jobs) == ["job", "waiting"]


def test_gaps_left_by_forgotten_jobs_are_closed_and_the_state_stays_the_same(story, monkeypatch):
    story.node("n1")
    for number in range(12):
        finished(story, f"job-{number}")
        story.cycle(ClockAdvanced(), after=DAY)
    left = folded(story.wires)
    monkeypatch.setitem(apply.__globals__, "FORGOTTEN_KEPT", 1)
    closed = folded(story.wires)
    assert (left.indices.forgotten, closed.indices.forgotten) == (6, 0)
    assert state_digest(closed) == state_digest(left)
    assert list(closed.ended) == list(left.ended) == [f"job-{number}" for number in range(6, 12)]


def test_request_ids(story):
    story.submit("job", gpus=1)
    assert len(story.state.requests) == 1
    story.cycle(ClockAdvanced(), after=60 * DAY - 1)
    assert len(story.state.requests) == 1
    story.cycle(ClockAdvanced(), after=1)
    assert story.state.requests == {}


def test_a_policy_that_remembers_nothing(tell):
    story = tell(policy(retention={"ended_jobs": 0, "request_ids": 0}))
    story.node("n1")
    finished(story)
    assert story.state.jobs == story.state.requests == {}


def test_a_clock_step_does_not_shorten_retention(story):
    story.node("n1")
    finished(story)
    story.cycle(ClockStepped(jump=1000 * DAY), after=1000 * DAY)
    assert "job" in story.state.jobs
    assert len(story.state.requests) == 1
    story.cycle(ClockAdvanced(), after=7 * DAY)
    assert "job" not in story.state.jobs


def test_rejections_are_counted_per_source_and_minute(story):
    rejected = InputRejected(
        topic="bailiff.requests", partition=0, offset=0, digest=digest("x"), code="not-json", reason="no", source="laptop"
    )
    story.cycle(rejected)
    story.cycle(rejected.model_copy(update={"count": 5}), after=SECOND)
    assert story.state.rejections["laptop"].count == 6
    story.cycle(rejected.model_copy(update={"source": None}), after=MINUTE)
    assert {name: seen.count for name, seen in story.state.rejections.items()} == {"bailiff.requests": 1}
    story.cycle(rejected, after=HOUR)
    assert {name: seen.count for name, seen in story.state.rejections.items()} == {"laptop": 1}
