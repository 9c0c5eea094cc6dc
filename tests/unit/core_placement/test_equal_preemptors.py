"""Preemptors for which the candidates and what these cost are the same: of such, one search of all jobs serves all."""

from typing import Any

import pytest
from tests.builders import Sketch, group

from bailiff_core.model.state import Job, Task
from bailiff_core.victims import candidates
from bailiff_core.victims.candidates import _preemptor_key


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[Sketch, Job, Job]:
    """Two jobs that differ in nothing but their names."""
    monkeypatch.setattr(candidates.no_counter_reclaim, "may_be_shielded_from", lambda *_: False)
    monkeypatch.setattr(candidates, "backfilled_victims", lambda *_: None)
    monkeypatch.setattr(candidates.quota_shields, "exceeded", lambda *_: ())
    sketch = Sketch()
    one, other = (sketch.job(name, group(gpus=1), priority=75, seq=9) for name in ("one", "other"))
    return sketch, one, other


def equal(pair: tuple[Sketch, Job, Job], **of_other: Any) -> bool:
    sketch, one, other = pair
    for name, value in of_other.items():
        setattr(other, name, value)
    return _preemptor_key(sketch.state, "preempt", one, {}) == _preemptor_key(sketch.state, "preempt", other, {})


@pytest.mark.parametrize(
    ("about", "same"),
    [
        ({}, True),
        ({"priority": 74}, False),
        ({"project": "other"}, False),
        ({"class_name": "serving"}, False),
        ({"preemptible": False}, False),
        ({"seq": 10}, True),
        ({"tasks": [Task(0, 0, 1, "running")]}, False),  # it is no victim of itself
    ],
)
def test_what_distinguishes_preemptors(pair: tuple[Sketch, Job, Job], about: dict[str, Any], same: bool) -> None:
    assert equal(pair, **about) is same


def test_two_running_jobs_are_distinct(pair: tuple[Sketch, Job, Job]) -> None:
    pair[1].tasks.append(Task(0, 0, 1, "running"))
    assert not equal(pair, tasks=[Task(0, 0, 1, "running")])


def test_jobs_that_a_rule_shields_from_some_are_distinct(pair: tuple[Sketch, Job, Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates.no_counter_reclaim, "may_be_shielded_from", lambda *_: True)
    assert not equal(pair)


def test_the_head_of_the_queue_is_distinct_if_it_may_evict_backfilled_jobs(
    pair: tuple[Sketch, Job, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "backfilled_victims", lambda _state, _action, job: object() if job is pair[1] else None)
    assert not equal(pair)


def test_quotas_that_are_exceeded_for_some_distinguish_them(
    pair: tuple[Sketch, Job, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates.quota_shields, "exceeded", lambda _state, _action, job: (job.id,))
    assert not equal(pair)


@pytest.mark.parametrize(
    ("action", "under_share", "same"),
    [
        ("preempt", {"p": True}, True),
        ("preempt", {"p": True, "q": False}, True),
        ("preempt", {"p": True, "q": True}, False),
        ("preempt", {"p": False}, False),
        ("reclaim", {"p": True}, False),
    ],
)
def test_candidates_cost_the_same_under_one_action_and_with_the_same_projects_within_their_share(
    pair: tuple[Sketch, Job, Job], action: Any, under_share: dict[str, bool], same: bool
) -> None:
    sketch, one, other = pair
    key = _preemptor_key(sketch.state, "preempt", one, {"p": True})
    assert (_preemptor_key(sketch.state, action, other, under_share) == key) is same
