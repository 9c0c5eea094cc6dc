"""Scaling a job and changing its class: the records, and the refusals."""

import pytest
from tests.kits.log_builder import policy
from tests.unit.admission.kit import ask, refused

from bailiff_core.records.facts import JobPriorityClassChanged, JobScaled
from bailiff_core.records.job_requests import ScaleJob, SetPriorityClass


@pytest.fixture
def serving(story):
    """`serve` runs 4 tasks and needs 2."""
    story.runs("serve", gpus=1, tasks=4, min_tasks=2)
    return story


def test_a_job_is_scaled_up_and_down(serving):
    (fact,) = ask(serving, ScaleJob(job="serve", tasks=6))
    assert fact == JobScaled(request=fact.request, job="serve", group=0, tasks=6)
    assert isinstance(ask(serving, ScaleJob(job="serve", tasks=2)), list)


@pytest.mark.parametrize(
    ("scale", "word"),
    [
        ({"tasks": 1}, "needs 2 tasks to run, 1 are fewer"),
        ({"tasks": 4, "min_tasks": 5}, "would have only 4 tasks"),
        ({"tasks": 8, "min_tasks": 3}, "was started with: cancel and submit it"),
        ({"tasks": 8, "group": 1}, "there is no group 1"),
    ],
)
def test_what_cannot_be_scaled(serving, scale, word):
    assert word in refused(serving, ScaleJob(job="serve", **scale), "cannot-scale")


def test_below_its_minimum_only_with_another_minimum(serving):
    assert isinstance(ask(serving, ScaleJob(job="serve", tasks=1, min_tasks=1)), list)


def test_a_job_that_is_not_there_or_over(serving):
    refused(serving, ScaleJob(job="nobody", tasks=1), "no-such-job")
    refused(serving, ScaleJob(job="done", tasks=1), "already-ended")
    refused(serving, SetPriorityClass(job="done", priority_class="build"), "already-ended")


def test_the_class_changes_only_while_the_job_is_pending(serving):
    assert "only be changed while it is pending or paused" in refused(
        serving, SetPriorityClass(job="serve", priority_class="build"), "not-pending"
    )
    serving.submit("waits", gpus=8, tasks=2)
    (fact,) = ask(serving, SetPriorityClass(job="waits", priority_class="build"))
    assert fact == JobPriorityClassChanged(request=fact.request, job="waits", priority_class="build")
    serving.cycle(fact)
    assert serving.job("waits").priority == serving.job("waits").base_priority == 100


def test_who_may_not_use_a_class_may_not_scale_or_set_it(serving):
    serving.submit("waits", gpus=8, tasks=2)
    serving.apply_policy(policy(identity={"class_users": {"build": ["bob"], "train": ["bob"]}}))
    refused(serving, SetPriorityClass(job="waits", priority_class="build"), "not-permitted")
    refused(serving, ScaleJob(job="serve", tasks=5), "not-permitted")
    assert isinstance(ask(serving, ScaleJob(job="serve", tasks=5), actor="bob", auth="signed"), list)
