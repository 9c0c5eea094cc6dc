"""Facts that are rare: about a task or a job that the state does not have, and a grant that nobody uses any more."""

from typing import Any

import pytest
from tests.builders import MINUTE, Sketch
from tests.log_builder import Story

from bailiff_core.fold.attachments import live_attachments
from bailiff_core.fold.dependencies import note_dependencies
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.demand import Dependency
from bailiff_core.records import facts


@pytest.mark.parametrize(("kind", "about"), [(facts.TaskStarted, {}), (facts.TaskProgressed, {"step": 1})])
def test_a_report_about_a_task_that_the_job_does_not_have_is_an_error_of_the_log(kind: Any, about: dict[str, Any]) -> None:
    sketch = Sketch()
    sketch.node("a")
    sketch.running("job", "a", [0])
    report = kind(job="job", attempt=1, task=1, node="a", **about)
    with pytest.raises(ValueError, match="job job has no task 1 in its attempt 1"):
        FOLDS[kind](sketch.state, report)


@pytest.mark.parametrize("until", ["succeeded", "ended"])
def test_a_job_waits_for_what_is_there_not_for_what_was_forgotten_nor_for_itself(until: Any) -> None:
    sketch = Sketch()
    other, job = sketch.job("other"), sketch.job("job")
    after = [Dependency(job=name, until=until) for name in ("forgotten", "job", "other")]
    job.demand = job.demand.model_copy(update={"after": tuple(after)})
    note_dependencies(sketch.state, job)
    assert job.waits_for == {"other": until}
    assert sketch.state.dependents == {other.id: {"job": None}}
    assert not job.failed_dependency


def test_an_unanswered_grant_is_forgotten_at_the_next_one_and_an_answered_one_stays() -> None:
    story = Story()
    story.node("a")
    story.runs("job")
    grants = []
    for answered in (False, True, False):
        at = story.at("job", 0)
        story.cycle(facts.AttachGranted(**at, request=story.request(), client_certificate="A" * 100), after=MINUTE)
        grants.append(max(story.state.attachments))
        if answered:
            story.cycle(facts.AttachReady(**at, grant=grants[-1], address="10.0.0.1:4000", fingerprint="0" * 64))
    assert list(story.state.attachments) == grants[1:]
    assert live_attachments(story.state, "job") == list(story.state.attachments.values())
    assert live_attachments(story.state, "another") == []
