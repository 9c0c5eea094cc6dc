"""What the state forgets, by rule, on log time."""

from tests.kits.log_builder import DAY, folded
from tests.kits.story_script import stories

from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.records.facts import ClockAdvanced

test_retention_in_stories = stories("""
given finished
    runs job: 1 gpu; ends job

only what is old enough is forgotten
    node n1; runs old: 1 gpu; ends old; +1d; tick; runs young: 1 gpu; ends young; +6d; tick; jobs = young

waiting and running jobs are never forgotten
    node n1: 1 gpu; runs job: 1 gpu; submit waiting: 1 gpu; +1000d; tick; jobs = job waiting

a policy that remembers nothing
    rules {retention: {ended_jobs: 0, request_ids: 0}}; node n1; finished; jobs = nothing; requests = nothing

ended jobs are remembered for a while
    node n1; runs job: 1 gpu; ends job; +604799999999us; tick; jobs = job; +1us; tick; jobs = nothing; ended = nothing
    submit job: 1 gpu; => JobPlaced job attempt=1

request ids are remembered for longer
    submit job: 1 gpu; +5183999999999us; tick; requests != nothing; +1us; tick; requests = nothing

a clock step does not shorten retention
    node n1; runs job: 1 gpu; ends job; clock steps 1000d; jobs = job; requests != nothing; +7d; tick; jobs = nothing
""")


def finished(story, name="job"):
    """A job that has come and gone."""
    story.runs(name, gpus=1)
    story.ends(name, 0)


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
