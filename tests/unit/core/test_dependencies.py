"""Jobs that wait for others: which of them count, which failure is the reason, and what is kept of it."""

from typing import Any

import pytest
from tests.kits.builders import Sketch

from bailiff_core.fold.dependencies import note_dependencies, settle_dependents
from bailiff_core.lifecycle.dependencies import dependencies
from bailiff_core.model.demand import Dependency
from bailiff_core.model.state import Job


def waiting(sketch: Sketch, *after: str, until: Any = "succeeded", name: str = "job") -> Job:
    """A job that was submitted to run after these."""
    job = sketch.job(name)
    job.phase = "waiting"
    job.demand = job.demand.model_copy(update={"after": tuple(Dependency(job=each, until=until) for each in after)})
    note_dependencies(sketch.state, job)
    return job


def ended(sketch: Sketch, name: str, phase: Any) -> Job:
    job = sketch.job(name) if name not in sketch.state.jobs else sketch.state.jobs[name]
    job.phase = phase
    settle_dependents(sketch.state, job)
    return job


@pytest.mark.parametrize(
    ("phase", "until", "failed"),
    [
        ("failed", "succeeded", True),
        ("cancelled", "succeeded", True),
        ("succeeded", "succeeded", False),
        ("failed", "ended", False),
        ("succeeded", "ended", False),
    ],
)
@pytest.mark.parametrize("first", ["ended", "submitted"])
def test_a_job_that_must_only_have_ended_may_have_failed(first: str, phase: Any, until: Any, failed: bool) -> None:
    sketch = Sketch()
    sketch.job("other")
    if first == "ended":
        ended(sketch, "other", phase)
    job = waiting(sketch, "other", until=until)
    if first == "submitted":
        ended(sketch, "other", phase)
    assert (job.failed_dependency, job.waits_for) == ("other" if failed else "", {})


@pytest.mark.parametrize("first", ["ended", "submitted"])
def test_the_first_dependency_that_failed_is_the_reason(first: str) -> None:
    sketch = Sketch()
    for name in ("one", "two"):
        sketch.job(name)
    if first == "submitted":
        job = waiting(sketch, "one", "two")
    for name in ("one", "two"):
        ended(sketch, name, "failed")
    if first == "ended":
        job = waiting(sketch, "one", "two")
    assert job.failed_dependency == "one"


def test_nothing_is_kept_of_a_job_that_waited_and_has_ended() -> None:
    sketch = Sketch()
    sketch.job("other")
    one, _ = waiting(sketch, "other", name="one"), waiting(sketch, "other", name="two")
    ended(sketch, "one", "cancelled")
    assert (one.waits_for, sketch.state.dependents) == ({}, {"other": {"two": None}})
    ended(sketch, "two", "cancelled")
    assert sketch.state.dependents == {}


@pytest.mark.parametrize(
    ("about", "decided"),
    [
        ({}, "DependenciesMet"),
        ({"failed_dependency": "other"}, "JobEnded"),
        ({"waits_for": {"other": "ended"}}, None),
        ({"cancelled": True}, None),  # it ends as cancelled
        ({"phase": "pending"}, None),
    ],
)
def test_what_becomes_of_a_job_that_waits(about: dict[str, Any], decided: str | None) -> None:
    sketch = Sketch()
    job = waiting(sketch)
    for name, value in about.items():
        setattr(job, name, value)
    sketch.state.indices.touched["job"] = None
    assert [type(each).__name__ for each in dependencies(sketch.state)] == ([decided] if decided else [])
