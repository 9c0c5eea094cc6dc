"""A pending job gets another priority class: it moves in the queue, and is tried anew."""

import pytest

from bailiff_core.fold.jobs import job_priority_class_changed
from bailiff_core.fold.log import request_key
from bailiff_core.records import facts


def changes(story, job, to):
    return story.cycle(facts.JobPriorityClassChanged(request=story.request(), job=job, priority_class=to))


def test_it_moves_to_its_new_place_in_the_queue(story):
    story.node("n1", gpus=1)
    story.runs("there", cls="inference")
    story.submit("first")
    story.submit("second")
    assert list(story.state.queue) == ["first", "second"]
    changes(story, "second", "build")
    assert list(story.state.queue) == ["second", "first"]
    assert story.job("second").class_name == "build"
    assert story.job("second").priority == story.state.rules.find_class("build").value


def test_why_it_is_pending_is_recorded_again(story):
    story.node("n1", gpus=1)
    story.runs("there", cls="inference")
    story.submit("waits")
    story.expect("JobPending", job="waits")
    changes(story, "waits", "build")
    story.expect("JobPending", job="waits")


def test_its_refused_requests_are_forgotten(story):
    story.node("n1", gpus=1)
    story.runs("there", cls="inference")
    story.submit("waits", cls="interactive")
    job = story.job("waits")
    job.refused_requests, job.next_request_at = 4, story.time + 10**9
    changes(story, "waits", "build")
    assert (job.refused_requests, job.next_request_at) == (0, 0)


def test_the_request_is_remembered(story):
    story.node("n1", gpus=1)
    story.runs("there")
    story.submit("waits")
    request = story.request()
    story.cycle(facts.JobPriorityClassChanged(request=request, job="waits", priority_class="build"))
    assert story.state.requests[request_key(request.source, request.id)].digest == request.digest


def test_a_class_that_the_policy_lacks_is_an_error(story):
    story.node("n1", gpus=1)
    story.submit("waits", gpus=2)
    fact = facts.JobPriorityClassChanged(request=story.request(), job="waits", priority_class="none-such")
    with pytest.raises(ValueError, match="which the policy lacks"):
        job_priority_class_changed(story.state, fact)
    assert story.job("waits").class_name == "train"
