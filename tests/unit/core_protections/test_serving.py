"""Serving tiers: short graces for victims of immediate tiers, and start SLOs."""

import pytest
from tests.kits.log_builder import MINUTE
from tests.kits.log_builder import policy as rules
from tests.kits.pools import Bench
from tests.kits.story_script import play

from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.queue.start_slo import slo_status


def classes(**changes):
    return [entry.model_dump(mode="json") | changes.get(entry.name, {}) for entry in DEFAULT_POLICY.priority_classes]


def serving(**promise):
    return rules(priority_classes=classes(inference={"start_slo": promise}))


def test_a_class_without_a_start_slo_is_not_tracked(tell):
    story = play("rules {}; submit a: inference, 1 gpu")
    assert slo_status(story.state) == []


def test_jobs_that_start_late_miss_the_start_slo_of_their_class(tell):
    story = tell(serving(p95="1m", p99="10m"))
    story.submit("late", gpus=8, cls="inference")
    story.submit("other", gpus=1)
    story.time += MINUTE + 1
    story.node("n1")
    story.started("late")
    p95, p99 = slo_status(story.state)
    assert (p95.class_name, p95.percent, p95.jobs, p95.late, p95.allowed, p95.missed) == ("inference", 95, 1, 1, 0, True)
    assert (p99.percent, p99.late, p99.missed) == (99, 0, False)


def test_a_job_that_starts_at_the_deadline_is_in_time(tell):
    story = tell(serving(p95="1m"))
    story.submit("just", gpus=8, cls="inference")
    story.time += MINUTE
    story.node("n1")
    story.started("just")
    assert [(promise.jobs, promise.late) for promise in slo_status(story.state)] == [(1, 0)]


def test_a_pending_job_counts_as_late_from_its_deadline(tell):
    story = tell(serving(p99="1m"))
    play("submit waits: inference, 8 gpus; submit quits: inference, 8 gpus; +1m; cancel quits", story=story)
    assert [(promise.jobs, promise.late) for promise in slo_status(story.state)] == [(1, 0)], "who gave up is not counted"
    story.cycle(story.joined("tick", gpus=0), after=1)
    assert [(promise.jobs, promise.late) for promise in slo_status(story.state)] == [(1, 1)]


@pytest.mark.parametrize(
    ("percent", "jobs", "allowed"),
    [(95, 1, 0), (95, 19, 0), (95, 20, 1), (95, 99, 4), (95, 100, 5), (99, 99, 0), (99, 100, 1), (99, 199, 1)],
)
def test_a_job_more_than_the_percentage_allows_is_one_too_many(percent, jobs, allowed):
    bench = Bench(priority_classes=classes(train={"start_slo": {f"p{percent}": "1m"}}))
    bench.preemptor.class_name = "other"
    for number in range(jobs):
        bench.waiting(f"j{number}").first_wait = MINUTE + 1 if number < allowed else MINUTE
    assert [(slo.allowed, slo.late, slo.missed) for slo in slo_status(bench.state)] == [(allowed, allowed, False)]
    bench.state.jobs[f"j{jobs - 1}"].first_wait = MINUTE + 1
    assert [(slo.late, slo.missed) for slo in slo_status(bench.state)] == [(allowed + 1, True)]


def test_only_the_first_start_counts_and_five_percent_may_be_late(tell):
    story = tell(serving(p95="1m"))
    story.node("n1")
    for number in range(19):
        story.runs(f"quick-{number}", gpus=0, cls="inference", max_failures=1)
    play("submit late: inference, 9 gpus; +5m; ends quick-0 code=1; wait 2s; +1m; started quick-0", story=story)
    (promise,) = slo_status(story.state)
    assert (promise.jobs, promise.late, promise.allowed, promise.missed) == (20, 1, 1, False)
