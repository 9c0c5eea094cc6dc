"""Answers to requests for preemption that no proposal helps: when the job may ask again, and when a selection is over."""

from typing import Any

import pytest
from tests.builders import Sketch, group
from tests.unit.core_protections.kit import SECOND, rules

from bailiff_core.actions.preempt import proposal_decisions, request_preemptions, timed_out_selection
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import OpenRequest, Selection


def asks(**about: Any) -> Sketch:
    """A job waits for an answer, under a policy with a backoff of a second."""
    sketch = Sketch()
    sketch.node("a", gpus=2)
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


@pytest.mark.parametrize("about", [{"phase": "paused"}, {"cancelled": True}, {"suspended_reason": "gave up"}], ids=str)
def test_a_job_that_needs_none_any_more_may_ask_again_at_once(about: dict[str, Any]) -> None:
    (answer,) = proposal_decisions(asks(**about).state)
    assert (answer.reason, answer.retry_at) == ("not-needed", None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("failures", "backoff"), [(0, 2), (1, 4), (5, 64), (6, 64), (60, 64)])
def test_after_selections_that_timed_out_the_backoff_doubles_as_well(failures: int, backoff: int) -> None:
    sketch = asks()
    state = sketch.state
    assert state.selection is not None
    state.proposals, state.selection.deadline, state.selection_failures = None, state.now, failures
    (over,) = timed_out_selection(state)
    assert (over.failures, over.retry_at) == (failures + 1, state.now + backoff * SECOND)  # type: ignore[attr-defined]


@pytest.mark.parametrize("change", ["not yet", "no deadline", "proposals", "no selection"])
def test_a_selection_that_is_not_overdue_goes_on(change: str) -> None:
    state = asks().state
    state.proposals = {} if change == "proposals" else None
    assert state.selection is not None
    state.selection.deadline = {"not yet": state.now + 1, "no deadline": None}.get(change, state.now)
    if change == "no selection":
        state.selection = None
    assert list(timed_out_selection(state)) == []


@pytest.mark.parametrize(("failures", "limited"), [(0, True), (2, True), (3, False), (9, False)])
def test_after_three_selections_in_a_row_that_timed_out_no_job_waits_for_the_next(failures: int, limited: bool) -> None:
    state = asks().state
    state.selection = state.proposals = None
    Sketch(state).running("victim", "a", [0], priority=10)
    state.selection_failures = failures
    (asked,) = request_preemptions(state)
    timeout = state.now + state.rules.preemption.selection_timeout
    assert (asked.job, asked.deadline) == ("job", timeout if limited else None)  # type: ignore[attr-defined]
