"""Jobs that are pending long, or were evicted often, get a boost; never up to a non-preemptible priority."""

from tests.log_builder import MINUTE
from tests.unit.core_protections.kit import rules

AGEING = {"ageing": {"boost": 30, "waiting": "10m", "evictions": 2}}


def evicted(story, job, by):
    """A job of higher priority comes, takes the whole node, and is gone again."""
    story.submit(by, gpus=8, cls="inference")
    story.propose()
    story.expect("PreemptionDecided")
    story.yields(job)
    story.started(by)
    story.ends(by)


def test_a_job_pending_long_enough_overtakes_others_and_both_values_are_recorded(tell):
    story = tell(rules(protections=AGEING))
    story.submit("old", gpus=8)
    story.wait(10 * MINUTE - 1)
    story.submit("young", gpus=8, cls="interactive")
    assert story.state.queue == ["young", "old"]
    story.wait(1)
    aged = story.expect("JobPriorityBoosted", job="old", priority=50, effective_priority=80)
    assert "pending" in aged.reason
    assert story.state.queue == ["old", "young"]
    story.node("n1")
    story.expect("JobPlaced", job="old")


def test_without_the_rule_no_job_ages(tell):
    story = tell(rules())
    story.submit("old", gpus=8)
    assert story.wait(60 * MINUTE) == []


def test_no_job_ages_to_a_non_preemptible_priority(tell):
    story = tell(rules(protections={"ageing": {"boost": 1000, "waiting": "1m"}}))
    story.submit("train", gpus=8)
    story.submit("infer", gpus=8, cls="inference")
    story.submit("build", gpus=8, cls="build")
    story.wait(10 * MINUTE)
    assert [record.job for record in story.decisions("JobPriorityBoosted")] == ["train"]
    assert story.job("train").priority == 99, "build has 100"


def test_a_boosted_job_keeps_its_boost_while_it_runs(tell):
    story = tell(rules(protections=AGEING))
    story.submit("old", gpus=8)
    story.wait(10 * MINUTE)
    story.node("n1")
    story.started("old")
    story.wait(60 * MINUTE)
    assert story.job("old").priority == 80
    story.submit("study", gpus=8, cls="interactive")
    assert list(story.decisions("PreemptionRequested")) == [], "75 is not above 80"


def test_a_requeued_job_starts_a_new_wait(tell):
    story = tell(rules(protections={"ageing": {"boost": 30, "waiting": "10m"}}))
    story.submit("old", gpus=8, max_failures=3)
    story.wait(10 * MINUTE)
    story.node("n1")
    story.started("old")
    story.ends("old", code=1)
    back = story.expect("JobPriorityBoosted", job="old", priority=50, effective_priority=50)
    assert "restarted" in back.reason


def test_a_job_evicted_as_often_as_the_policy_says_keeps_its_boost(tell):
    story = tell(rules(protections={"ageing": {"boost": 30, "evictions": 2}}))
    story.node("n1")
    story.runs("victim", gpus=8)
    evicted(story, "victim", "first")
    assert story.job("victim").priority == 50
    story.started("victim")
    evicted(story, "victim", "second")
    assert story.job("victim").priority == 80
    assert "evicted 2 times" in next(story.decisions("JobPriorityBoosted")).reason
    story.started("victim")
    story.apply_policy(rules(protections={"ageing": {"boost": 20, "evictions": 2}}))
    assert story.job("victim").priority == 70, "it runs, and the rule still knows it"
    story.apply_policy(rules())
    assert story.job("victim").priority == 50


def test_a_dropped_reservation_starts_no_new_wait(tell):
    story = tell(rules(protections={"ageing": {"boost": 30, "waiting": "10m"}}, preemption={"reservation_expiry": "5m"}))
    story.node("n1")
    story.runs("done", gpus=8)
    story.submit("next", gpus=8, after=MINUTE)
    story.exits("done")
    assert story.job("next").phase == "reserved"
    story.wait(5 * MINUTE)
    story.lost("n1")
    assert story.job("next").phase == "pending"
    story.wait(5 * MINUTE)
    assert story.job("next").priority == 80
