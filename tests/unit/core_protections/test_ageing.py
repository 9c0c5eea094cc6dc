"""Jobs that are pending long, or were evicted often, get a boost; never up to a non-preemptible priority."""

from tests.kits.log_builder import policy as rules
from tests.kits.story_script import stories

test_ageing_in_stories = stories("""
a job pending long enough overtakes others and both values are recorded
    rules {protections: {ageing: {boost: 30, waiting: 10m, evictions: 2}}}; submit old: 8 gpus; wait 599999999us
    submit young: interactive, 8 gpus; queue = young old; wait 1us
    => JobPriorityBoosted old priority=50 effective_priority=80 reason~pending; queue = old young
    node n1; => JobPlaced old

no job ages to a non preemptible priority
    rules {protections: {ageing: {boost: 1000, waiting: 1m}}}; submit train: 8 gpus; submit infer: inference, 8 gpus
    submit build: build, 8 gpus; wait 10m; decided JobPriorityBoosted: train; train.priority = 99  # build has 100

a boosted job keeps its boost while it runs
    rules {protections: {ageing: {boost: 30, waiting: 10m, evictions: 2}}}; submit old: 8 gpus; wait 10m; node n1; started old
    wait 1h; old.priority = 80; submit study: interactive, 8 gpus; decided PreemptionRequested:  # 75 is not above 80

a requeued job starts a new wait
    rules {protections: {ageing: {boost: 30, waiting: 10m}}}; submit old: 8 gpus, max_failures 3; wait 10m; node n1; started old
    ends old code=1; => JobPriorityBoosted old priority=50 effective_priority=50 reason~restarted

a dropped reservation starts no new wait
    rules {protections: {ageing: {boost: 30, waiting: 10m}}, preemption: {reservation_expiry: 5m}}; node n1; runs done: 8 gpus
    +1m; submit next: 8 gpus; exits done; next is reserved; wait 5m; lost n1; next is pending
    wait 5m; next.priority = 80

without the rule no job ages
    submit old: 8 gpus; wait 1h; => nothing
""")


def evicted(story, job, by):
    """A job of higher priority comes, takes the whole node, and is gone again."""
    story.submit(by, gpus=8, cls="inference")
    story.propose()
    story.expect("PreemptionDecided")
    story.yields(job)
    story.started(by)
    story.ends(by)


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
