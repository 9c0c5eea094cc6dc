"""A gang below its minimum: stopped at once, or after a grace, or never."""

from tests.kits.log_builder import policy as rules
from tests.kits.story_script import play, stories

test_stale_gang_in_stories = stories("""
given gang loses a member
    node n1; node n2; runs gang: 2 x 8 gpus; lost n2

a gang is stopped at once where the policy says nothing
    gang loses a member; gang.eviction.cause = gang-failure

a job may be stricter than the policy
    rules {protections: {stale_gang: 1h}}; node n1; node n2; runs gang: 2 x 8 gpus, stale_grace 0s; lost n2
    gang.eviction.cause = gang-failure

where a task has succeeded the rest continues
    rules {protections: {stale_gang: 1m}}; node n1; runs gang: 3 x 1 gpu; ends gang task=0; vanished gang 1; wait 10m
    gang is running

a gang continues for its grace and is then evicted whole (1m, None)
    rules {protections: {stale_gang: 1m}}; node n1; node n2; runs gang: 2 x 8 gpus; lost n2; gang is running
    wait 59999999us; gang is running; wait 1us; => EvictionDecided gang cause=stale-gang reason~"60 s"
    yields gang; gang is pending

a gang continues for its grace and is then evicted whole (5m, 60000000)
    rules {protections: {stale_gang: 5m}}; node n1; node n2; runs gang: 2 x 8 gpus, stale_grace 1m; lost n2; gang is running
    wait 59999999us; gang is running; wait 1us; => EvictionDecided gang cause=stale-gang reason~"60 s"
    yields gang; gang is pending

a gang continues for its grace and is then evicted whole (None, 60000000)
    rules {protections: {stale_gang: null}}; node n1; node n2; runs gang: 2 x 8 gpus, stale_grace 1m; lost n2; gang is running
    wait 59999999us; gang is running; wait 1us; => EvictionDecided gang cause=stale-gang reason~"60 s"
    yields gang; gang is pending

a grace of null means never (None, None)
    rules {protections: {stale_gang: null}}; node n1; node n2; runs gang: 2 x 8 gpus; lost n2; wait 10h; gang is running

a grace of null means never (1m, never)
    rules {protections: {stale_gang: 1m}}; node n1; node n2; runs gang: 2 x 8 gpus, stale_grace never; lost n2; wait 10h
    gang is running
""")


def gang_loses_a_member(story, **about):
    story.node("n1")
    story.node("n2")
    story.runs("gang", gpus=8, tasks=2, **about)
    return story.lost("n2")


def test_a_gang_that_has_its_members_again_is_not_stale(tell):
    story = tell(rules(protections={"stale_gang": "1m"}))
    gang_loses_a_member(story)
    play("wait 30s; node n3; started gang; wait 10m; gang is running", story=story)
    assert len(story.job("gang").tasks) == 2
    assert list(story.decisions("EvictionDecided")) == []
