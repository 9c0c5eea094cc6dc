"""A pending job gets another priority class: it moves in the queue, and is tried anew."""

import pytest
from tests.kits.story_script import stories

from bailiff_core.fold.jobs import job_priority_class_changed
from bailiff_core.records import facts

test_priority_class_changed_in_stories = stories("""
given two wait
    node n1: 1 gpu; runs there: inference, 1 gpu; submit first: 1 gpu; => JobPending first; submit second: 1 gpu
    queue = first second

it moves to its new place in the queue
    two wait; fact JobPriorityClassChanged job=second priority_class=build; queue = second first; second.class_name = build
    second.priority = 100

why it is pending is recorded again
    two wait; fact JobPriorityClassChanged job=first priority_class=build; => JobPending first
""")


def changes(story, job, to):
    return story.cycle(facts.JobPriorityClassChanged(request=story.request(), job=job, priority_class=to))


def test_its_refused_requests_are_forgotten(story):
    story.node("n1", gpus=1)
    story.runs("there", cls="inference")
    story.submit("waits", cls="interactive")
    job = story.job("waits")
    job.refused_requests, job.next_request_at = 4, story.time + 10**9
    changes(story, "waits", "build")
    assert (job.refused_requests, job.next_request_at) == (0, 0)


def test_a_class_that_the_policy_lacks_is_an_error(story):
    story.node("n1", gpus=1)
    story.submit("waits", gpus=2)
    fact = facts.JobPriorityClassChanged(request=story.request(), job="waits", priority_class="none-such")
    with pytest.raises(ValueError, match="which the policy lacks"):
        job_priority_class_changed(story.state, fact)
    assert story.job("waits").class_name == "train"
