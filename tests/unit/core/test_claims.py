"""What a job claims holds as far as the policy grants it to its class or project, now and after each change of the policy."""

from pathlib import Path

import pytest
from tests.kits.claims import EVERY_CLAIM, classes
from tests.kits.explained import explained
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy

from bailiff_core.lifecycle import stale_grace
from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.grace import grace_of
from bailiff_core.model.job_labels import is_excluded
from bailiff_core.model.policy import DEFAULT_CLAIMS, Claims, Policy
from bailiff_core.queue.preemption_delay import delay_of
from bailiff_service.policy_files import read_policy

SAFE = {"claims": DEFAULT_CLAIMS.model_dump(mode="json")}
TREE = [{"name": "org"}, {"name": "team", "parent": "org"}, {"name": "other"}]


def projects(**claims):
    """The projects, with these claims."""
    return [entry | {"claims": claims.get(entry["name"], {})} for entry in TREE]


def test_ten_years_of_grace_are_ten_minutes(tell):
    story = tell(policy(**SAFE))
    story.node("n1", gpus=8)
    story.runs("greedy", gpus=8, grace=TEN_YEARS)
    story.evict("greedy")
    assert story.expect("EvictionDecided").grace == 10 * MINUTE
    assert story.job("greedy").demand.grace == TEN_YEARS, "the claim remains on record"


@pytest.mark.parametrize(
    ("parts", "granted"),
    [
        ({"eviction": {"grace": "20m"}}, 20 * MINUTE),  # the policy gives every job more
        ({"claims": {"grace": "3m"}}, 3 * MINUTE),
        ({"claims": {"grace": "1s"}}, 150 * SECOND),  # never less than what a job gets that claims nothing
        ({"priority_classes": classes(train={"claims": {"grace": "4m"}})}, 4 * MINUTE),
        ({"projects": projects(org={"grace": "1h"})}, HOUR),  # of the project above
        ({"projects": projects(org={"grace": "1h"}, team={"grace": "30m"})}, 30 * MINUTE),  # the nearest counts
        ({"projects": projects(team={"grace": "1m"})}, 10 * MINUTE),  # a project only adds
        ({"projects": projects(other={"grace": "1h"})}, 10 * MINUTE),
    ],
)
def test_who_gets_how_much_of_a_long_grace(tell, parts, granted):
    parts = {"projects": TREE} | parts
    story = tell(policy(**parts | {"claims": SAFE["claims"] | parts.get("claims", {})}))
    story.submit("greedy", gpus=1, grace=TEN_YEARS, project="team")
    assert grace_of(story.state, story.job("greedy")) == granted


def test_preemptible_false_has_to_be_granted(tell):
    story = tell(policy(**SAFE, projects=projects(team={"non_preemptible": True})))
    story.node("n1", gpus=8)
    story.runs("claims", gpus=1, project="other", preemptible=False)
    story.submit("granted", gpus=1, project="team", preemptible=False)
    story.submit("by-class", gpus=1, project="other", cls="build")
    story.submit("gives-up", gpus=1, project="other", cls="build", preemptible=True)
    assert {name: job.preemptible for name, job in story.state.jobs.items()} == {
        "claims": True,
        "granted": False,
        "by-class": False,
        "gives-up": True,
    }
    story.apply_policy(policy(**SAFE, projects=projects(other={"non_preemptible": True})))
    assert not story.job("claims").preemptible, "a change of the policy applies to running jobs"
    assert story.job("granted").preemptible


def test_a_class_says_what_its_jobs_may_claim_in_place_of_the_policy(tell):
    own = {"non_preemptible": False}
    rules = policy(claims=SAFE["claims"] | {"non_preemptible": True}, priority_classes=classes(train={"claims": own}))
    story = tell(rules)
    story.submit("train", gpus=1, preemptible=False)
    story.submit("study", gpus=1, cls="interactive", preemptible=False)
    assert (story.job("train").preemptible, story.job("study").preemptible) == (True, False)


def test_labels_protect_only_who_may_set_them(tell):
    excluded = {"protections": {"excluded": [{"tier": "gold"}]}}
    story = tell(policy(**SAFE, **excluded, projects=projects(team={"protective_labels": True})))
    for project in ("team", "other"):
        story.submit(project, gpus=1, project=project, labels={"tier": "gold"})
    assert [is_excluded(story.state, story.job(name)) for name in ("team", "other")] == [True, False]


def test_a_label_puts_no_stranger_under_a_budget(tell):
    budget = {"protections": {"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 0}]}}
    story = tell(policy(**SAFE, **budget))
    story.node("n1", gpus=8)
    story.runs("train", gpus=8, labels={"app": "web"})
    story.submit("urgent", gpus=8, cls="inference")
    story.propose()
    story.expect("PreemptionDecided")


def test_a_budget_of_a_project_needs_no_label(tell):
    budget = {"protections": {"budgets": [{"name": "all", "project": "org", "max_disruptions": 0}]}}
    story = tell(policy(**SAFE, **budget, projects=TREE, preemption={"scope": "pool", "quota_shields": False}))
    story.node("n1", gpus=8)
    story.runs("train", gpus=8, project="org")
    story.submit("urgent", gpus=8, cls="interactive", project="other")
    story.propose()
    story.expect("PreemptionRefused")


@pytest.mark.parametrize(
    ("claimed", "by_policy", "granted"), [("never", 0, 10 * MINUTE), (5, 0, 5), ("never", None, None), (5, HOUR, 5)]
)
def test_a_gang_does_not_stay_for_ever_below_its_minimum(tell, claimed, by_policy, granted):
    story = tell(policy(**SAFE, protections={"stale_gang": by_policy}))
    story.submit("gang", gpus=1, tasks=2, stale_grace=claimed)
    assert stale_grace.grace(story.state, story.job("gang")) == granted


@pytest.mark.parametrize(
    ("claimed", "limit", "granted"),
    [(None, None, 5 * MINUTE), (0, None, 5 * MINUTE), (0, MINUTE, MINUTE), (2 * MINUTE, MINUTE, 2 * MINUTE), (HOUR, None, HOUR)],
)
def test_nobody_shortens_the_policy_s_delay_without_a_grant(tell, claimed, limit, granted):
    story = tell(policy(claims=SAFE["claims"] | {"preemption_delay": limit}, protections={"preemption_delay": "5m"}))
    story.submit("hasty", gpus=1, preemption_delay=claimed)
    assert delay_of(story.state, story.job("hasty")) == granted


def test_explain_names_each_claim_and_what_of_it_is_granted(tell):
    protections = {"excluded": [{"tier": "gold"}], "preemption_delay": "5m"}
    story = tell(policy(**SAFE, protections=protections, projects=projects(team=EVERY_CLAIM.model_dump(mode="json"))))
    claims = {"grace": HOUR, "stale_grace": "never", "preemption_delay": 0, "preemptible": False, "labels": {"tier": "gold"}}
    said = {}
    for project in ("team", "other"):
        story.submit(project, gpus=1, tasks=2, project=project, **claims)
        said[project] = explained(story, project)["What does it claim, and what is granted?"]
    assert len(said["team"]) == len(Claims.model_fields)
    assert said["team"] == [
        "It claims grace 1h, which is granted.",
        "It claims preemptible false, which is granted.",
        "It claims stale_grace never, which is granted.",
        "It claims preemption_delay 0ms, which is granted.",
        "It claims labels protected, which is granted.",
    ]
    assert said["other"] == [
        "It claims grace 1h, and is granted 10m.",
        "It claims preemptible false, and is granted true.",
        "It claims stale_grace never, and is granted 10m.",
        "It claims preemption_delay 0ms, and is granted 5m.",
        "It claims labels protected, and is granted not protected.",
    ]


def test_a_policy_of_before_claims_bounds_the_grace_alone():
    story = Story()
    story.submit(
        "old", gpus=1, grace=TEN_YEARS, preemptible=False, labels={"tier": "gold"}, stale_grace="never", preemption_delay=0
    )
    old = story.state.rules.model_copy(update={"claims": None})
    story.state.policy = old
    job = story.job("old")
    assert grace_of(story.state, job) == 10 * MINUTE
    assert stale_grace.grace(story.state, job) is None
    assert old.complete().claims == DEFAULT_CLAIMS


def test_a_recorded_policy_says_what_it_grants():
    stated = policy(claims={"grace": "1h"}).complete().claims
    assert stated == DEFAULT_CLAIMS.model_copy(update={"grace": HOUR})
    assert (
        Policy.model_validate_json(policy(claims=EVERY_CLAIM.model_dump(mode="json")).complete().to_json()).claims == EVERY_CLAIM
    )


def test_a_crash_loop_does_not_choose_a_shorter_backoff(tell):
    story = tell(policy(restarts={"backoff": "2s"}))
    story.node("n1", gpus=8)
    story.runs("crash", gpus=1, restart_backoff=0, max_failures=1000)
    story.ends("crash", 1)
    assert story.job("crash").not_before == story.state.now + 2 * SECOND


EXAMPLE = Path(__file__).parents[3] / "deploy/examples/policy-claims.yaml"


@pytest.mark.parametrize(
    ("project", "grace", "preemptible", "protected"),
    [("research", 5 * MINUTE, True, False), ("platform", 5 * MINUTE, False, True), ("simulation", 30 * MINUTE, True, False)],
)
def test_the_example_grants_more_to_those_who_need_it(tell, project, grace, preemptible, protected):
    story = tell(read_policy(EXAMPLE))
    story.node("n1", gpus=8)
    story.submit("j", gpus=1, project=project, grace=TEN_YEARS, preemptible=False, labels={"serving": "live"})
    job = story.state.jobs["j"]
    assert (grace_of(story.state, job), job.preemptible) == (grace, preemptible)
    assert is_excluded(story.state, job) == protected
