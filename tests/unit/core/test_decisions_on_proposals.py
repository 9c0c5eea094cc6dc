"""What is decided on a proposal, or on none in time: when it is needed, until when the reservation holds, when it is too late."""

from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group
from tests.log_builder import SECOND, Story

from bailiff_core.actions.preempt import _ends_within, proposal_decisions, timed_out_selection
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import OpenRequest, Selection

NONE = Proposal(request=3, job="job", refused="impossible")


def asked(proposals: dict[int, Proposal] | None, deadline: int | None = None, **about: Any) -> Sketch:
    """A pending job whose request is open."""
    sketch = Sketch()
    sketch.node("a", gpus=1)
    job = sketch.job("job", group(gpus=1))
    for name, value in about.items():
        setattr(job, name, sketch.state.now + value if name == "not_before" else value)
    sketch.state.selection = Selection(1, 3, None if deadline is None else sketch.state.now + deadline, [OpenRequest(3, "job")])
    sketch.state.proposals = proposals
    return sketch


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({}, "impossible"),
        ({"cancelled": True}, "not-needed"),
        ({"suspended_reason": "deciding about it failed"}, "not-needed"),
        ({"not_before": 1}, "not-needed"),
        ({"not_before": 0}, "impossible"),
        ({"phase": "paused"}, "not-needed"),
    ],
)
def test_a_job_that_may_not_start_needs_no_victims(about: dict[str, Any], reason: str) -> None:
    sketch = asked({3: NONE}, **about)
    assert [each.reason for each in proposal_decisions(sketch.state)] == [reason]  # type: ignore[attr-defined]


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


def test_without_a_selection_nothing_times_out() -> None:
    assert list(timed_out_selection(Sketch().state)) == []


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
