"""Protections at work: through requests, answers, evictions and returns."""

import pytest
from tests.kits.log_builder import MINUTE, SECOND
from tests.kits.log_builder import policy as rules
from tests.kits.story_script import play, stories

from bailiff_core.decision_cycle import wake_at

test_stories_in_stories = stories("""
with reserve a small job is backfilled only where it cannot delay the gang
    rules {preemption: {actions: [allocate]}}; node n1; runs short: 4 gpus, run_time_limit 1h; submit gang: build, 8 gpus
    submit endless: 1 gpu; => JobPending endless reason="it would delay gang, which is first in the queue"
    submit too-long: 1 gpu, run_time_limit 3600000001us; too-long is pending; runs quick: 1 gpu, run_time_limit 1h; +30m
    ends quick; ends short; => JobPlaced gang reserved=false

with greedy whatever fits starts
    rules {preemption: {actions: [allocate]}, backfill: greedy}; node n1; runs short: 4 gpus, run_time_limit 1h
    submit gang: build, 8 gpus; submit endless: 1 gpu; => JobPlaced endless

a gang that has timed out blocks no other job where the policy says so
    rules {preemption: {actions: [allocate]}, protections: {schedule_timeout: {after: 5m, action: pass}}}; node n1
    runs short: 4 gpus, run_time_limit 1h; submit gang: build, 8 gpus; submit endless: 1 gpu; wait 5m; => ScheduleTimedOut gang
    => JobPlaced endless

a reclaimed project without a cooldown borrows again at once
    rules {projects: [{name: a, quota: {gpus: 4}}, {name: b, quota: {gpus: 4}}], protections: {cooldown: {project: 0}}}; node n1
    runs borrower: 8 gpus, in a; submit owner: 4 gpus, in b; propose; => PreemptionDecided action=reclaim
    yields borrower; started owner; +1m; ends owner; => JobPlaced borrower

a reclaimed project borrows again after its cooldown
    rules {projects: [{name: a, quota: {gpus: 4}}, {name: b, quota: {gpus: 4}}], protections: {cooldown: {project: 10m}}}; node n1
    runs borrower: 8 gpus, in a; submit owner: 4 gpus, in b; propose; => PreemptionDecided action=reclaim
    yields borrower; started owner; +1m; ends owner; borrower is pending; runs own: 4 gpus, in a; ends own; wait 539999999us
    borrower is pending; wait 1us; => JobPlaced borrower

without protections it is evicted again at once
    node n1; runs train: 8 gpus; submit first: inference, 8 gpus; propose; yields train; started first; ends first; started train
    submit second: inference, 8 gpus; propose; => PreemptionDecided victims.*.job=train

a disruption budget allows one eviction at a time
    rules {protections: {budgets: [{name: web, labels: {app: web}, max_disruptions: 1}]}}; node n1
    runs a: 4 gpus, app=web; runs b: 4 gpus, app=web; submit large: inference, 8 gpus; propose
    => PreemptionRefused reason=impossible
    cancel large; submit small: inference, 4 gpus; propose; => PreemptionDecided victims.*.gpus=4

a preemption delay applies to the preemptor, and its end wakes it
    rules {protections: {preemption_delay: 5m}}; node n1; runs train: 8 gpus; submit serve: inference, 8 gpus; selection = none
    wait 299999999us; selection = none; wait 1us; => PreemptionRequested serve

an aged job preempts what it could not before
    rules {protections: {ageing: {boost: 30, waiting: 10m}}}; node n1; runs study: interactive, 8 gpus; submit train: 8 gpus
    selection = none; wait 10m; => PreemptionRequested train priority=80; propose
    => PreemptionDecided preemptor.priority=80 preemptor.base_priority=50
""")


def asks(story, name, **about):
    """Submits a job of eight GPUs; returns the decision about its preemption, if any."""
    story.submit(name, gpus=8, **about)
    if story.state.selection is None:
        return None
    story.propose()
    return next(
        (decision for decision in story.last_decisions if type(decision).__name__ in ("PreemptionDecided", "PreemptionRefused")),
        None,
    )


def displaced(story, victim, by, cls="inference"):
    """The victim is evicted for the other job, which runs for a moment and ends; then the victim runs again."""
    assert type(asks(story, by, cls=cls)).__name__ == "PreemptionDecided"
    story.yields(victim)
    story.started(by)
    story.ends(by)
    story.started(victim)


@pytest.mark.parametrize(
    ("protections", "rule", "over"),
    [
        ({"min_runtime": {"preempt": "10m"}}, "min-runtime", 10 * MINUTE),
        ({"cooldown": {"job": "10m"}}, "cooldown", 10 * MINUTE),
        ({"eviction_cap": {"evictions": 1, "window": "1h"}}, "eviction-cap", 60 * MINUTE),
    ],
)
def test_a_resumed_job_is_protected_by_a_named_rule_until_the_stated_time(tell, protections, rule, over):
    story = tell(rules(protections=protections))
    play("node n1; runs train: 8 gpus; wait 20m", story=story)
    displaced(story, "train", "first")
    story.wait(over - 1)
    refused = asks(story, "second", cls="inference")
    assert refused.reason == "impossible"
    assert [group.rule for group in refused.explanation.excluded] == [rule]
    assert "of 'train', which" in refused.would_need
    story.cancel("second")
    story.wait(1)
    assert type(asks(story, "third", cls="inference")).__name__ == "PreemptionDecided"


@pytest.mark.parametrize(
    "protections",
    [{"min_runtime": {"preempt": "10m"}}, {"cooldown": {"job": "10m"}}, {"eviction_cap": {"evictions": 1, "window": "10m"}}],
)
def test_a_job_refused_because_of_a_protection_requests_again_when_it_ends(tell, protections):
    story = tell(rules(protections=protections))
    play("node n1; runs train: 8 gpus; wait 20m", story=story)
    displaced(story, "train", "first")
    job = story.job("train")
    ends = (job.eviction_times[-1] if "eviction_cap" in protections else job.last_start) + 10 * MINUTE
    story.wait(ends - story.state.now - 5 * SECOND)
    story.submit("second", gpus=8, cls="inference")
    while story.state.now < ends:
        story.propose()
        story.expect("PreemptionRefused", reason="impossible")
        story.wait(wake_at(story.state) - story.state.now)
    assert story.state.now == ends
    story.propose()
    story.expect("PreemptionDecided")


def test_a_victim_of_an_immediate_tier_is_evicted_at_once(tell):
    classes = [entry.model_dump(mode="json") for entry in rules().priority_classes]
    classes[0] |= {"immediate": True, "immediate_grace": "3s"}
    story = tell(rules(priority_classes=classes))
    story.node("n1")
    story.runs("train", gpus=8, grace=60 * SECOND)
    assert asks(story, "serve", cls="inference").graces == (3 * SECOND,)


TEAMS = [{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}]


def test_a_project_in_its_cooldown_does_not_preempt_to_borrow(tell):
    pool_wide = {"scope": "pool", "quota_shields": False}
    story = tell(rules(projects=TEAMS, preemption=pool_wide, protections={"cooldown": {"project": "10m"}}))
    play(
        "node n1; runs borrower: 8 gpus, project a; submit owner: 4 gpus, project b; propose; yields borrower; started owner",
        "submit greedy: interactive, 8 gpus, project a",
        story=story,
    )
    if story.state.selection is not None:
        story.propose()
    assert "PreemptionDecided" not in [type(decision).__name__ for decision in story.last_decisions]
    story.submit("modest", gpus=4, project="a", cls="interactive")
    story.expect("JobPlaced", job="modest")


# --- backfill


@pytest.mark.slow
def test_a_gang_does_not_starve_under_an_endless_stream_of_small_jobs(tell):
    story = tell(rules(preemption={"actions": ["allocate"]}))
    for name in ("n1", "n2"):
        story.node(name)
    ends: list[tuple[int, str]] = []
    for minute in range(60):
        story.submit(f"s{minute}", gpus=2, after=MINUTE)
        if minute == 20:
            story.submit("gang", gpus=8, tasks=2)
        for end, name in ends:
            if end == minute:
                story.ends(name)
        ends = [(end, name) for end, name in ends if end > minute]
        for job in list(story.state.jobs.values()):
            if job.phase == "starting":
                story.started(job.id)
                ends.append((minute + 7, job.id))
        if story.job("gang").phase == "running" if minute >= 20 else False:
            break
    assert story.job("gang").phase == "running"
    assert minute <= 28, "it waited for nobody who came after it"
