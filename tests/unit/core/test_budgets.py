"""Budgets of GPU-hours by calendar month: what counts, what follows at the limit, and the requests that change them."""

from pathlib import Path
from typing import Any

import pytest
from tests.kits.log_builder import DAY, HOUR, MINUTE, NEW_YEAR, Story, policy

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.budgets.months import month_begins, month_of, month_text
from bailiff_core.explain.budgets import budget_sentences, budgets_near, would_use
from bailiff_core.explain.not_placed import what_it_lacks
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.document import MAX_GPU_HOURS
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy
from bailiff_core.permissions import Requester
from bailiff_core.records import decisions, facts
from bailiff_core.records.facts import SubmitJob, TopUpBudget, TransferBudget
from bailiff_core.scheduling_snapshot import current_usage
from bailiff_core.views import budget_views

PROJECTS = [{"name": "vision", "quota": {"gpus": 4}}, {"name": "speech", "quota": {"gpus": 4}}]


def rules(*budgets: dict[str, Any], **parts: Any) -> Policy:
    return policy(**{"projects": PROJECTS, "budgets": [{"name": "vision", **each} for each in budgets], **parts})


def pool(*budgets: dict[str, Any], gpus: int = 8, **parts: Any) -> Story:
    story = Story(rules(*budgets, **parts))
    story.node("n1", gpus=gpus)
    return story


def levels(story: Story) -> list[tuple[str, str]]:
    """All records about budgets."""
    found = (record.data for record in story.records if isinstance(record.data, decisions.BudgetLevelChanged))
    return [(each.budget, each.level) for each in found]


def runs(story: Story, job: str, project: str = "vision", gpus: int = 4, **requested: Any) -> None:
    story.submit(job, gpus=gpus, project=project, **requested)
    story.started(job)


def used_hours(story: Story, name: str = "vision") -> float:
    return next(each["used_hours"] for each in budget_views(story.state) if each["budget"] == name)


def submission(story: Story, job: str, sender: Requester = PERMITTED, **requested: Any) -> Any:
    demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),), project="vision", **requested)
    body = SubmitJob(demand=demand, spec=JobSpec(command="true", runtime="simulated"))
    return admit(Context(story.state, sender, story.request()), body)


ADA = Requester("ada", "acl")


def test_a_budget_is_on_record_when_it_is_at_its_warning_exhausted_and_new() -> None:
    """Four GPUs use 100 GPU-hours in 25 hours: the warning is after 20."""
    story = pool({"project": "vision", "gpu_hours": 100})
    runs(story, "train")
    story.wait(19 * HOUR)
    assert levels(story) == []
    story.wait(2 * HOUR)
    assert levels(story) == [("vision", "warning")]
    assert story.records[-1].time == NEW_YEAR + 20 * HOUR
    story.wait(10 * HOUR)
    assert levels(story) == [("vision", "warning"), ("vision", "exhausted")]
    exhausted = next(each.data for each in story.records if getattr(each.data, "level", "") == "exhausted")
    assert (exhausted.used_gpu_ms, exhausted.of_gpu_ms, exhausted.month) == (100 * 3_600_000, 100 * 3_600_000, NEW_YEAR)
    story.wait(31 * DAY)
    assert levels(story)[2:][:1] == [("vision", "within")]
    assert [each.time for each in story.records if getattr(each.data, "level", "") == "within"] == [NEW_YEAR + 31 * DAY]
    assert story.job("train").phase == "running", "nobody is evicted for it"


def test_at_the_lowest_class_jobs_are_as_of_it_and_running_ones_stay_as_they_are_preemptible() -> None:
    story = pool({"project": "vision", "gpu_hours": 4})
    runs(story, "serve", cls="inference")
    story.submit("build", gpus=4, cls="build", project="vision")
    story.wait(HOUR)
    (serve, build) = map(story.job, ("serve", "build"))
    assert (serve.priority, serve.preemptible, serve.may_preempt) == (50, False, True)
    assert (build.priority, build.class_name) == (50, "build")
    assert story.submit("later", gpus=8, cls="inference", project="vision") is not None
    assert (story.job("later").priority, story.job("later").preemptible) == (50, True)
    story.cycle(facts.BudgetToppedUp(request=story.request(), budget="vision", gpu_hours=1, reason="paper"))
    assert (serve.priority, story.job("later").priority, story.job("later").preemptible) == (125, 125, False)


def test_a_job_that_is_not_preemptible_is_so_from_its_next_attempt_on() -> None:
    story = pool({"project": "vision", "gpu_hours": 4}, {"name": "all", "gpu_hours": 1000})
    runs(story, "serve", cls="inference")
    story.wait(HOUR)
    assert not story.job("serve").preemptible
    story.evict("serve")
    story.begin("serve")
    story.yields("serve")
    assert (story.job("serve").priority, story.job("serve").preemptible) == (50, True)


def test_who_only_borrows_has_no_quota_and_gives_back_to_who_has() -> None:
    """Without the budget, vision is within its quota of four and keeps them."""
    story = pool({"project": "vision", "gpu_hours": 8, "at_limit": "borrow-only"})
    runs(story, "train")
    story.wait(2 * HOUR)
    assert levels(story)[-1] == ("vision", "exhausted")
    assert story.job("train").phase == "running"
    runs(story, "talk", "speech")
    story.submit("more", gpus=4, project="vision")
    assert story.job("more").phase == "pending"
    usage = current_usage(story.state)
    assert (usage.entitlements["vision"].quota.gpu_milli, usage.entitlements["speech"].quota.gpu_milli) == (0, 4000)


def test_reclaim_takes_from_who_only_borrows() -> None:
    story = pool({"project": "vision", "gpu_hours": 8, "at_limit": "borrow-only"}, gpus=4)
    runs(story, "train")
    story.wait(HOUR)
    story.submit("talk", gpus=4, project="speech")
    story.propose_all()
    assert not list(story.decisions("PreemptionDecided")), "quotas of eight on four GPUs: vision is within its part"
    story.wait(HOUR + MINUTE)
    story.propose_all()
    assert [(each.action, each.preemptor.job) for each in story.decisions("PreemptionDecided")] == [("reclaim", "talk")]


@pytest.mark.parametrize("at_limit", ["stop-admitting", "evict"])
def test_nothing_more_is_admitted_or_started_until_the_next_month(at_limit: str) -> None:
    story = pool({"project": "vision", "gpu_hours": 8, "at_limit": at_limit})
    runs(story, "train")
    story.submit("waits", gpus=8, project="vision")
    story.wait(2 * HOUR)
    rejected = submission(story, "late", ADA)
    assert isinstance(rejected, Rejected)
    assert (rejected.code, rejected.retry_at) == ("budget-exhausted", NEW_YEAR + 31 * DAY)
    assert "the budget vision has used 8.0 GPU-h of 8 GPU-h in 2026-01" in rejected.reason
    assert "2026-02-01 00:00:00 UTC" in rejected.reason
    if at_limit == "evict":
        assert [(each.job, each.cause) for each in story.decisions("EvictionDecided")] == [("train", "budget")]
        story.begin("train")
        story.yields("train")
    else:
        assert not list(story.decisions("EvictionDecided"))
        story.ends("train")
    story.wait(DAY)
    assert story.job("waits").phase == "pending"
    story.wait(NEW_YEAR + 31 * DAY - story.time)
    assert story.job("train" if at_limit == "evict" else "waits").phase == "starting"
    story.holds()


def test_a_plan_of_the_past_admits_and_lets_wait() -> None:
    story = pool({"project": "vision", "gpu_hours": 0, "at_limit": "stop-admitting"})
    assert isinstance(submission(story, "now"), facts.JobSubmitted)
    assert isinstance(submission(story, "now", ADA), Rejected)
    runs(story, "waits", gpus=1)
    assert story.job("waits").phase == "pending"


def test_a_parent_counts_what_is_below_it_and_every_budget_of_a_job_counts_it() -> None:
    projects = [{"name": "lab"}, {"name": "vision", "parent": "lab"}, {"name": "speech", "parent": "lab"}]
    budgets = [
        {"name": "lab", "project": "lab", "gpu_hours": 1000},
        {"name": "lab-train", "project": "lab", "priority_class": "train", "gpu_hours": 1000},
        {"name": "all", "gpu_hours": 1000},
    ]
    story = pool({"project": "vision", "gpu_hours": 1000}, *budgets, projects=projects)
    runs(story, "a", gpus=2)
    runs(story, "b", "speech", gpus=1, cls="interactive")
    story.wait(10 * HOUR)
    story.cycle(facts.ClockAdvanced())
    assert {each["budget"]: each["used_hours"] for each in budget_views(story.state)} == {
        "vision": 20,
        "lab": 30,
        "lab-train": 20,
        "all": 30,
    }


def test_a_user_is_who_the_request_is_verified_to_be_and_without_keys_who_it_claims() -> None:
    budget = {"name": "ada", "user": "ada", "gpu_hours": 100}
    for keys, counted in (({}, 4), ({"k" * 43: "operator"}, 0)):
        story = pool(budget, identity={"keys": keys})
        submitted = story.submitted("train", gpus=4, project="vision")
        story.cycle(submitted.model_copy(update={"user": "ada"}))
        story.started("train")
        story.cycle(facts.ClockAdvanced(), after=HOUR)
        assert used_hours(story, "ada") == counted
    verified = story.submitted("v", gpus=4, project="vision").model_copy(update={"user": "ada", "user_verified": True})
    story.cycle(verified)
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    assert used_hours(story, "ada") == 4


def test_use_is_counted_from_the_order_to_start_until_the_release_is_proven() -> None:
    story = pool({"project": "vision", "gpu_hours": 100})
    story.submit("train", gpus=4, project="vision")
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    story.started("train", after=HOUR)
    story.exits("train", after=HOUR)
    story.releases("train", after=HOUR)
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    assert used_hours(story) == 16


def test_a_new_budget_begins_at_nothing_and_one_that_stays_keeps_what_it_has_used() -> None:
    story = pool({"project": "vision", "gpu_hours": 100})
    runs(story, "train")
    story.wait(HOUR)
    more = {"name": "speech", "project": "speech", "gpu_hours": 1}
    story.apply_policy(rules({"project": "vision", "gpu_hours": 200, "warn_at": 50}, more))
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    assert (used_hours(story), used_hours(story, "speech")) == (8, 0)
    story.apply_policy(rules({"project": "speech", "gpu_hours": 100}))
    assert used_hours(story) == 0
    story.apply_policy(rules())
    assert story.state.budgets == {}


def test_top_ups_and_transfers_are_of_this_month_and_transfers_sum_to_nothing() -> None:
    story = pool({"project": "vision", "gpu_hours": 10}, {"name": "speech", "project": "speech", "gpu_hours": 20})
    story.cycle(facts.BudgetToppedUp(request=story.request(), budget="vision", gpu_hours=5, reason="deadline"))
    story.cycle(facts.BudgetTransferred(request=story.request(), budget="speech", to="vision", gpu_hours=8, reason="a gift"))
    views = {each["budget"]: each for each in budget_views(story.state)}
    assert [views[name]["hours"] for name in ("vision", "speech")] == [23, 12]
    assert sum(each["transferred_hours"] for each in views.values()) == 0
    story.wait(31 * DAY)
    story.cycle(facts.ClockAdvanced())
    assert [each["hours"] for each in budget_views(story.state)] == [10, 20]


def test_no_budget_grows_beyond_what_records_can_say() -> None:
    """Top-ups without end would make its GPU time, in ms, an integer that no record can have."""
    story = pool({"project": "vision", "gpu_hours": 1}, {"name": "speech", "project": "speech", "gpu_hours": MAX_GPU_HOURS})
    context = Context(story.state, PERMITTED, story.request())
    for most, code in ((MAX_GPU_HOURS - 1, None), (MAX_GPU_HOURS, "malformed")):
        found = admit(context, TopUpBudget(budget="vision", gpu_hours=most, reason="a deadline"))
        assert (found.code if isinstance(found, Rejected) else None) == code
    found = admit(context, TransferBudget(budget="vision", to="speech", gpu_hours=1, reason="a gift"))
    assert isinstance(found, Rejected)
    assert found.reason == "gpu_hours: the budget speech would have more than 10000000 in this month"


def test_what_a_budget_has_not_left_is_not_transferred_and_unknown_ones_are_named() -> None:
    story = pool({"project": "vision", "gpu_hours": 10}, {"name": "speech", "project": "speech", "gpu_hours": 1})

    def asked(body: Any, sender: Requester = PERMITTED) -> Any:
        return admit(Context(story.state, sender, story.request()), body)

    runs(story, "train")
    story.cycle(facts.ClockAdvanced(), after=HOUR)
    transfer = TransferBudget(budget="vision", to="speech", gpu_hours=6, reason="a gift")
    assert isinstance(asked(transfer), facts.BudgetTransferred)
    for change, code in (
        ({"gpu_hours": 7}, "not-enough-budget"),
        ({"to": "vision"}, "malformed"),
        ({"reason": " "}, "malformed"),
        ({"to": "nobody"}, "no-such-budget"),
        ({"budget": "nobody"}, "no-such-budget"),
    ):
        assert asked(transfer.model_copy(update=change)).code == code
    assert asked(TopUpBudget(budget="nobody", gpu_hours=1, reason="x")).code == "no-such-budget"
    operated = policy(identity={"operators": ["root"]}, projects=PROJECTS, budgets=[{"name": "vision", "gpu_hours": 1}])
    story.apply_policy(operated)
    assert asked(TopUpBudget(budget="vision", gpu_hours=1, reason="x"), ADA).code == "not-permitted"


def test_a_job_learns_why_it_waits_what_it_would_use_and_all_how_far_budgets_are() -> None:
    story = pool({"project": "vision", "gpu_hours": 10, "at_limit": "stop-admitting"})
    runs(story, "train")
    story.submit("limited", gpus=8, project="vision", run_time_limit="1h")
    assert would_use(story.state, story.job("limited")) == [
        "the budget vision has 10.0 GPU-h of 10 GPU-h left this month: it would use at most 8.0 GPU-h of them"
    ]
    assert would_use(story.state, story.job("train")) == [
        "the budget vision has 10.0 GPU-h of 10 GPU-h left this month: with 4 GPUs they last 2h30m"
    ]
    assert would_use(story.state, story.job("limited"), short=True) == []
    assert len(would_use(story.state, story.job("train"), short=True)) == 1, "they would not last for the month"
    story.wait(2 * HOUR)
    assert len(would_use(story.state, story.job("limited"), short=True)) == 1, "it is at its warning"
    assert budgets_near(story.state) == ["The budget vision has used 8.0 GPU-h of 10 GPU-h in 2026-01: warned at 80 %."]
    assert len(budgets_near(story.state, "vision")) == 1
    assert budgets_near(story.state, "speech") == []
    story.wait(HOUR)
    (sentence,) = budget_sentences(story.state, story.job("limited"))
    follows = "no more of its jobs start until 2026-02-01 00:00 UTC or a top-up (policy field budgets: at_limit stop-admitting)"
    assert sentence.text == f"The budget vision has used 10.0 GPU-h of 10 GPU-h in 2026-01: {follows}."
    assert (
        what_it_lacks(story.state, story.job("limited"))
        == f"the budget vision has used 10.0 GPU-h of 10 GPU-h in 2026-01: {follows}"
    )


def test_months_are_those_of_the_calendar() -> None:
    for day, text in ((0, "1970-01"), (58, "1970-02"), (59, "1970-03"), (789, "1972-02"), (790, "1972-03"), (11_016, "2000-02")):
        month = month_of(day * DAY)
        assert month_text(month) == text
        assert month_begins(month) <= day * DAY < month_begins(month + 1)
    assert month_begins(month_of(NEW_YEAR)) == NEW_YEAR


def test_without_budgets_the_state_has_none_and_nothing_wakes_for_them() -> None:
    story = Story(policy(projects=PROJECTS))
    story.node("n1")
    runs(story, "train")
    assert story.state.budgets == {}
    assert story.wait(100 * DAY) == []


PAGE = Path(__file__).parents[3] / "docs/concepts/semantics/budgets.md"


def test_the_example_of_the_page_is_so() -> None:
    lines = [line.split("|")[1:-1] for line in PAGE.read_text().partition("## Example")[2].splitlines() if " of " in line]
    expected = {cells[0].strip(): [cell.strip() for cell in cells[2:]] for cells in lines if len(cells) == 4}
    said: list[str] = []
    story = pool(
        {"project": "vision", "gpu_hours": 100, "at_limit": "stop-admitting"},
        {"name": "speech", "project": "speech", "gpu_hours": 40, "at_limit": "stop-admitting"},
    )

    def look(time: str) -> None:
        said.append(time)
        figures = [f"{each['used_hours']:.0f} of {each['hours']}" for each in budget_views(story.state)]
        assert figures == expected[time], time

    runs(story, "train")
    look("1 January 00:00")
    story.wait(20 * HOUR)
    look("1 January 20:00")
    assert levels(story) == [("vision", "warning")]
    gift = facts.BudgetTransferred(request=story.request(), budget="speech", to="vision", gpu_hours=8, reason="a gift")
    story.cycle(gift, after=4 * HOUR)
    look("2 January 00:00")
    story.wait(3 * HOUR)
    look("2 January 03:00")
    assert levels(story)[1:] == [("vision", "exhausted")]
    assert story.job("train").phase == "running"
    story.cycle(facts.ClockAdvanced(), after=2 * HOUR)
    look("2 January 05:00")
    assert submission(story, "late", ADA).retry_at == NEW_YEAR + 31 * DAY
    story.cycle(facts.BudgetToppedUp(request=story.request(), budget="vision", gpu_hours=20, reason="paper"), after=HOUR)
    look("2 January 06:00")
    assert levels(story)[2:] == [("vision", "warning")]
    story.ends("train", after=HOUR)
    look("2 January 07:00")
    story.wait(NEW_YEAR + 31 * DAY - story.time)
    look("1 February 00:00")
    assert levels(story)[3:] == [("vision", "within")]
    assert said == list(expected)
