"""Protections at work: through requests, answers, evictions and returns."""

import pytest
from tests.log_builder import MINUTE, SECOND
from tests.unit.core_protections.kit import rules

from bailiff_core.decision_cycle import wake_at


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


@pytest.mark.parametrize(("protections", "rule", "over"), [
    ({"min_runtime": {"preempt": "10m"}}, "min-runtime", 10 * MINUTE),
    ({"cooldown": {"job": "10m"}}, "cooldown", 10 * MINUTE),
    ({"eviction_cap": {"evictions": 1, "window": "1h"}}, "eviction-cap", 60 * MINUTE),
])  # fmt: skip
def test_a_resumed_job_is_protected_by_a_named_rule_until_the_stated_time(tell, protections, rule, over):
    story = tell(rules(protections=protections))
    story.node("n1")
    story.runs("train", gpus=8)
    story.wait(20 * MINUTE)
    displaced(story, "train", "first")
    story.wait(over - 1)
    refused = asks(story, "second", cls="inference")
    assert refused.reason == "impossible"
    assert [group.rule for group in refused.explanation.excluded] == [rule]
    assert "of 'train', which" in refused.would_need
    story.cancel("second")
    story.wait(1)
    assert type(asks(story, "third", cls="inference")).__name__ == "PreemptionDecided"


@pytest.mark.parametrize("protections", [
    {"min_runtime": {"preempt": "10m"}}, {"cooldown": {"job": "10m"}}, {"eviction_cap": {"evictions": 1, "window": "10m"}},
])  # fmt: skip
def test_a_job_refused_because_of_a_protection_requests_again_when_it_ends(tell, protections):
    story = tell(rules(protections=protections))
    story.node("n1")
    story.runs("train", gpus=8)
    story.wait(20 * MINUTE)
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


def test_without_protections_it_is_evicted_again_at_once(tell):
    story = tell(rules())
    story.node("n1")
    story.runs("train", gpus=8)
    displaced(story, "train", "first")
    assert type(asks(story, "second", cls="inference")).__name__ == "PreemptionDecided"


def test_a_disruption_budget_allows_one_eviction_at_a_time(tell):
    story = tell(rules(protections={"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]}))
    story.node("n1")
    for name in ("a", "b"):
        story.runs(name, gpus=4, labels={"app": "web"})
    refused = asks(story, "large", cls="inference")
    assert refused.reason == "impossible"
    story.cancel("large")
    story.submit("small", gpus=4, cls="inference")
    story.propose()
    assert len(story.expect("PreemptionDecided").victims) == 1


def test_preemption_delay_applies_to_the_preemptor_and_its_end_wakes_it(tell):
    story = tell(rules(protections={"preemption_delay": "5m"}))
    story.node("n1")
    story.runs("train", gpus=8)
    assert asks(story, "serve", cls="inference") is None
    story.wait(5 * MINUTE - 1)
    assert story.state.selection is None
    story.wait(1)
    story.expect("PreemptionRequested", job="serve")


def test_an_aged_job_preempts_what_it_could_not_before(tell):
    story = tell(rules(protections={"ageing": {"boost": 30, "waiting": "10m"}}))
    story.node("n1")
    story.runs("study", gpus=8, cls="interactive")
    assert asks(story, "train") is None
    story.wait(10 * MINUTE)
    requested = story.expect("PreemptionRequested", job="train")
    assert requested.priority == 80
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert (decided.preemptor.priority, decided.preemptor.base_priority) == (80, 50)


def test_a_victim_of_an_immediate_tier_is_evicted_at_once(tell):
    classes = [entry.model_dump(mode="json") for entry in rules().priority_classes]
    classes[0] |= {"immediate": True, "immediate_grace": "3s"}
    story = tell(rules(priority_classes=classes))
    story.node("n1")
    story.runs("train", gpus=8, grace=60 * SECOND)
    assert asks(story, "serve", cls="inference").graces == (3 * SECOND,)


TEAMS = [{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}]


@pytest.mark.parametrize("cooldown", [0, "10m"])
def test_a_reclaimed_project_borrows_again_at_once_or_after_its_cooldown(tell, cooldown):
    story = tell(rules(projects=TEAMS, protections={"cooldown": {"project": cooldown}}))
    story.node("n1")
    story.runs("borrower", gpus=8, project="a")
    story.submit("owner", gpus=4, project="b")
    story.propose()
    assert story.expect("PreemptionDecided").action == "reclaim"
    story.yields("borrower")
    story.started("owner")
    story.ends("owner", after=MINUTE)
    if not cooldown:
        story.expect("JobPlaced", job="borrower")
        return
    assert story.job("borrower").phase == "pending"
    story.runs("own", gpus=4, project="a")
    story.ends("own")
    story.wait(9 * MINUTE - 1)
    assert story.job("borrower").phase == "pending"
    story.wait(1)
    story.expect("JobPlaced", job="borrower")


def test_a_project_in_its_cooldown_does_not_preempt_to_borrow(tell):
    pool_wide = {"scope": "pool", "quota_shields": False}
    story = tell(rules(projects=TEAMS, preemption=pool_wide, protections={"cooldown": {"project": "10m"}}))
    story.node("n1")
    story.runs("borrower", gpus=8, project="a")
    story.submit("owner", gpus=4, project="b")
    story.propose()
    story.yields("borrower")
    story.started("owner")
    story.submit("greedy", gpus=8, project="a", cls="interactive")
    if story.state.selection is not None:
        story.propose()
    assert "PreemptionDecided" not in [type(decision).__name__ for decision in story.last_decisions]
    story.submit("modest", gpus=4, project="a", cls="interactive")
    story.expect("JobPlaced", job="modest")


# --- backfill


def half_full(tell, **parts):
    """Four GPUs run for an hour by their limit, four are free, and a gang of eight is pending."""
    story = tell(rules(**parts))
    story.node("n1")
    story.runs("short", gpus=4, run_time_limit=60 * MINUTE)
    story.submit("gang", gpus=8, cls="build")
    return story


def test_with_reserve_a_small_job_is_backfilled_only_where_it_cannot_delay_the_gang(tell):
    story = half_full(tell, preemption={"actions": ["allocate"]})
    story.submit("endless", gpus=1)
    assert story.expect("JobPending", job="endless").reason == "it would delay gang, which is first in the queue"
    story.submit("too-long", gpus=1, run_time_limit=60 * MINUTE + 1)
    assert story.job("too-long").phase == "pending"
    story.runs("quick", gpus=1, run_time_limit=60 * MINUTE)
    story.ends("quick", after=30 * MINUTE)
    story.ends("short")
    story.expect("JobPlaced", job="gang", reserved=False)


def test_with_greedy_whatever_fits_starts(tell):
    story = half_full(tell, preemption={"actions": ["allocate"]}, backfill="greedy")
    story.submit("endless", gpus=1)
    story.expect("JobPlaced", job="endless")


def test_a_gang_that_has_timed_out_blocks_no_other_job_where_the_policy_says_so(tell):
    late = {"schedule_timeout": {"after": "5m", "action": "pass"}}
    story = half_full(tell, preemption={"actions": ["allocate"]}, protections=late)
    story.submit("endless", gpus=1)
    story.wait(5 * MINUTE)
    story.expect("ScheduleTimedOut", job="gang")
    story.expect("JobPlaced", job="endless")


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
