"""What follows from the start, end or pause of a job or task, and from a request that is closed, as the fold keeps it."""

from typing import Any

import pytest
from tests.builders import MINUTE, Sketch, group
from tests.unit.core_protections.kit import rules

from bailiff_core.fold.allocation import evict_job
from bailiff_core.fold.attachments import live_attachments
from bailiff_core.fold.registry import FOLDS
from bailiff_core.fold.selection import close_request
from bailiff_core.lifecycle import idle_since
from bailiff_core.lifecycle.timers import timers_of
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Attachment, Eviction, OpenRequest, PoolState, Selection
from bailiff_core.records import facts


def fold(state: PoolState, fact: facts.Fact) -> None:
    FOLDS[type(fact)](state, fact)


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=4)
    return made


@pytest.mark.parametrize(
    ("elastic", "last_start", "waits"), [("restart", None, True), ("live", None, False), ("restart", 5, False)]
)
def test_a_gang_that_restarts_to_grow_does_not_grow_at_once(sketch: Sketch, elastic: Any, last_start: Any, waits: bool) -> None:
    state, job = sketch.state, sketch.running("job", "a", [0], phase="starting")
    job.demand, job.last_start = job.demand.model_copy(update={"elastic": elastic}), last_start
    fold(state, facts.TaskStarted(job="job", attempt=1, task=0, node="a"))
    assert job.not_before == (state.now + state.rules.restarts.grow_after if waits else 0)


@pytest.mark.parametrize("ends", [facts.TaskExited, facts.TaskReleased, facts.TaskVanished])
def test_a_gang_that_loses_a_task_is_below_its_minimum_from_then_on(sketch: Sketch, ends: Any) -> None:
    job = sketch.at(sketch.job("job", group(2, gpus=1)), ("a", [0]), ("a", [1]))
    exit_code = {"exit_code": 1} if ends is facts.TaskExited else {}
    fold(sketch.state, ends(job="job", attempt=1, task=1, node="a", **exit_code))
    assert job.stale_since == sketch.state.now


def test_a_job_that_is_paused_is_not_idle_from_then_on(sketch: Sketch) -> None:
    state, job = sketch.state, sketch.running("job", "a", [0])
    state.policy = rules(idle={"after": "1m"})
    job.tasks[0].idle_since = state.now - MINUTE
    state.indices.changed_times["job"] = None
    assert timers_of(state).due(state, idle_since.NAME) == [job]
    fold(state, facts.JobPaused(request=facts.RequestId(source="laptop", id="r", digest="0" * 64), job="job"))
    assert timers_of(state).due(state, idle_since.NAME) == []


def test_of_a_job_that_is_evicted_nothing_is_known_for_its_next_attempt(sketch: Sketch) -> None:
    job = sketch.running("job", "a", [0])
    job.reserved_until, job.stale_since, job.idle_recorded = 5, 6, True
    evict_job(sketch.state, job, Eviction(1, "drain", 5))
    assert (job.phase, job.reserved_until, job.stale_since, job.idle_recorded) == ("evicting", None, None, False)


def test_the_proposal_of_a_request_that_is_closed_is_dropped(sketch: Sketch) -> None:
    state = sketch.state
    state.selection = Selection(1, 1, None, [OpenRequest(1, "first"), OpenRequest(2, "second")])
    state.proposals = {number: Proposal(request=number, job="job", action="preempt") for number in (1, 2)}
    close_request(state, 1)
    assert (list(state.proposals or ()), [request.seq for request in state.selection.requests]) == ([2], [2])
    close_request(state, 2)
    assert (state.proposals, state.selection) == (None, None)


def test_attachments_to_a_job_are_those_that_may_go_on(sketch: Sketch) -> None:
    for name, number in (("job", 0), ("other", 1)):
        sketch.running(name, "a", [number])
    attached = {
        seq: Attachment(name, attempt, 0, "a", "i-a", "u", sketch.state.now)
        for seq, (name, attempt) in enumerate((("job", 1), ("job", 2), ("other", 1)), 1)
    }
    sketch.state.attachments = attached
    assert live_attachments(sketch.state, "job") == [attached[1]]
