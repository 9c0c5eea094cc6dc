"""A gang below its minimum: stopped at once, or after a grace, or never."""

import pytest
from tests.log_builder import MINUTE, SECOND
from tests.unit.core_protections.kit import rules

from bailiff_core.records import facts


def gang_loses_a_member(story, **about):
    story.node("n1")
    story.node("n2")
    story.runs("gang", gpus=8, tasks=2, **about)
    return story.lost("n2")


def test_a_gang_is_stopped_at_once_where_the_policy_says_nothing(tell):
    story = tell(rules())
    gang_loses_a_member(story)
    assert story.job("gang").eviction.cause == "gang-failure"


@pytest.mark.parametrize(("policy", "own"), [("1m", None), ("5m", MINUTE), (None, MINUTE)])
def test_a_gang_continues_for_its_grace_and_is_then_evicted_whole(tell, policy, own):
    story = tell(rules(protections={"stale_gang": policy}))
    gang_loses_a_member(story, stale_grace=own)
    assert story.job("gang").phase == "running"
    story.wait(MINUTE - 1)
    assert story.job("gang").phase == "running"
    story.wait(1)
    evicted = story.expect("EvictionDecided", job="gang", cause="stale-gang")
    assert "60 s" in evicted.reason
    story.yields("gang")
    assert story.job("gang").phase == "pending"


@pytest.mark.parametrize(("policy", "own"), [(None, None), ("1m", "never")])
def test_a_grace_of_null_means_never(tell, policy, own):
    story = tell(rules(protections={"stale_gang": policy}))
    gang_loses_a_member(story, stale_grace=own)
    story.wait(600 * MINUTE)
    assert story.job("gang").phase == "running"


def test_a_job_may_be_stricter_than_the_policy(tell):
    story = tell(rules(protections={"stale_gang": "1h"}))
    gang_loses_a_member(story, stale_grace=0)
    assert story.job("gang").eviction.cause == "gang-failure"


def test_a_gang_that_has_its_members_again_is_not_stale(tell):
    story = tell(rules(protections={"stale_gang": "1m"}))
    gang_loses_a_member(story)
    story.wait(30 * SECOND)
    story.node("n3")
    story.started("gang")
    story.wait(10 * MINUTE)
    assert story.job("gang").phase == "running"
    assert len(story.job("gang").tasks) == 2
    assert list(story.decisions("EvictionDecided")) == []


def test_where_a_task_has_succeeded_the_rest_continues(tell):
    story = tell(rules(protections={"stale_gang": "1m"}))
    story.node("n1")
    story.runs("gang", gpus=1, tasks=3)
    story.ends("gang", task=0)
    story.cycle(facts.TaskVanished(**story.at("gang", 1)))
    story.wait(10 * MINUTE)
    assert story.job("gang").phase == "running"
