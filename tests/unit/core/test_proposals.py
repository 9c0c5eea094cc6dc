"""What is decided on proposals, or on none in time."""

from typing import Any

import pytest
from tests.kits.builders import MINUTE, Sketch, group
from tests.kits.log_builder import SECOND, Story
from tests.kits.log_builder import policy as rules

from bailiff_core.actions.preempt import _ends_within, proposal_decisions, timed_out_selection
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import OpenRequest, Selection

# --- what is decided on a proposal, or on none in time: when it is needed, how long its reservation holds


NONE = Proposal(request=3, job="job", refused="impossible")


def asked(proposals: dict[int, Proposal] | None, deadline: int | None = None, **about: Any) -> Sketch:
    """A pending job whose request is open."""
    sketch = Sketch(a=1)
    job = sketch.job("job", group(gpus=1))
    for name, value in about.items():
        setattr(job, name, sketch.state.now + value if name == "not_before" else value)
    sketch.state.selection = Selection(1, 3, None if deadline is None else sketch.state.now + deadline, [OpenRequest(3, "job")])
    sketch.state.proposals = proposals
    return sketch


def test_proposals_without_an_open_selection_are_about_nothing() -> None:
    sketch = asked({3: NONE})
    sketch.state.selection = None
    assert list(proposal_decisions(sketch.state)) == []


@pytest.mark.parametrize(
    ("deadline", "proposals", "over"),
    [(0, None, True), (-1, None, True), (1, None, False), (None, None, False), (0, {}, False)],
    ids=["at its deadline", "after it", "before it", "without one", "proposals are there"],
)
def test_when_a_selection_times_out(deadline: int | None, proposals: Any, over: bool) -> None:
    sketch = asked(proposals, deadline)
    assert [type(each).__name__ for each in timed_out_selection(sketch.state)] == (["SelectionTimedOut"] if over else [])


def test_a_reservation_lasts_beyond_the_longest_grace_of_its_victims() -> None:
    story = Story()
    story.node("a", gpus=2)
    for name, grace in (("short", 10), ("long", 600)):
        story.runs(name, gpus=1, grace=grace * SECOND)
    story.submit("job", gpus=2, cls="inference")
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert sorted(decided.graces) == [10 * SECOND, 600 * SECOND]
    assert decided.expires == story.time + story.state.rules.preemption.reservation_expiry + 600 * SECOND


@pytest.mark.parametrize(
    ("limit", "age", "ends"),
    [(None, 9, False), (10, None, False), (10, 3, False), (10, 5, True), (10, 9, True), (9, 4, True), (11, 5, False)],
)
def test_whether_a_job_ends_within_five_minutes(limit: int | None, age: int | None, ends: bool) -> None:
    """Of a job that has not started nobody knows when it ends."""
    sketch = Sketch()
    job = sketch.job("job")
    job.demand = job.demand.model_copy(update={"run_time_limit": None if limit is None else limit * MINUTE})
    job.last_start = None if age is None else sketch.state.now - age * MINUTE
    assert _ends_within(sketch.state, job, 5 * MINUTE) is ends


# --- answers to requests for preemption that no proposal helps: when the job may ask again, and when a selection is over


def asks(**about: Any) -> Sketch:
    """A job waits for an answer, under a policy with a backoff of a second."""
    sketch = Sketch(a=2)
    sketch.state.policy = rules(preemption={"selection_backoff": "1s"})
    job = sketch.job("job", group(gpus=2))
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.selection, sketch.state.proposals = Selection(1, 1, None, [OpenRequest(1, "job")]), {}
    return sketch


@pytest.mark.parametrize(("refused", "backoff"), [(0, 1), (1, 2), (5, 32), (6, 64), (7, 64), (70, 64)])
def test_the_backoff_doubles_up_to_64_times(refused: int, backoff: int) -> None:
    sketch = asks(refused_requests=refused)
    (answer,) = proposal_decisions(sketch.state)
    assert (answer.reason, answer.retry_at) == ("stale", sketch.state.now + backoff * SECOND)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("proposed", "action"), [("allocate", "preempt"), ("preempt", "preempt"), ("reclaim", "reclaim")])
def test_a_refusal_names_an_action_that_evicts(proposed: Any, action: str) -> None:
    sketch = asks()
    sketch.state.proposals = {1: Proposal(request=1, job="job", action=proposed, refused="impossible", would_need="more")}
    (answer,) = proposal_decisions(sketch.state)
    assert (answer.reason, answer.action, answer.would_need) == ("impossible", action, "more")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("failures", "backoff"), [(0, 2), (1, 4), (5, 64), (6, 64), (60, 64)])
def test_after_selections_that_timed_out_the_backoff_doubles_as_well(failures: int, backoff: int) -> None:
    sketch = asks()
    state = sketch.state
    assert state.selection is not None
    state.proposals, state.selection.deadline, state.selection_failures = None, state.now, failures
    (over,) = timed_out_selection(state)
    assert (over.failures, over.retry_at) == (failures + 1, state.now + backoff * SECOND)  # type: ignore[attr-defined]


# --- a job with a run-time limit asks for victims in order to grow: not where it ends before the last of them has left


@pytest.mark.parametrize(("remaining", "grows"), [(40, False), (60, False), (61, True)])
def test_the_longest_grace_decides(remaining: int, grows: bool) -> None:
    story = Story()
    story.node("a", gpus=4)
    for name, grace in (("short", 10), ("long", 60)):
        story.runs(name, gpus=1, grace=grace * SECOND)
    story.runs("elastic", TaskGroup(count=2, gpu_milli=2000), cls="interactive", min_tasks=1, run_time_limit=remaining * SECOND)
    story.propose()
    if grows:
        assert [choice.job for choice in story.expect("PreemptionDecided").victims] == ["short", "long"]
    else:
        refused = story.expect("PreemptionRefused", reason="impossible")
        assert refused.would_need == "its run-time limit is reached before the grace of its victims is over"
