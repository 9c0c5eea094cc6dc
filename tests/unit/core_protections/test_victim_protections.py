"""Each rule that shields a victim: enabled, disabled, and at the moment at which it ends."""

import pytest
from tests.unit.core_protections.kit import HOUR, MINUTE, SECOND, Bench, core, surplus

from bailiff_core.model.state import Eviction, Preemption, Task
from bailiff_core.protections import RULES, VictimSetTests, excluded_by

DEPARTMENTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "speech", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]


def shield(bench: Bench, unit, action="preempt") -> str | None:
    bench.state.indices.snapshot = None
    return excluded_by(bench.state, action, bench.preemptor, unit)


def test_without_protections_every_lower_preemptible_job_may_be_a_victim():
    bench = Bench()
    assert shield(bench, core(bench.running("x"))) is None


def forbidden(bench: Bench, leaving, action="preempt") -> str | None:
    bench.state.indices.snapshot = None
    return VictimSetTests(bench.state, action, bench.preemptor).violation(leaving)


# --- already leaving, held, not preemptible, priority


def test_a_job_that_is_being_evicted_is_no_victim_again():
    bench = Bench()
    assert shield(bench, core(bench.running("x", phase="evicting"))) == "already-evicting"


def test_a_releasing_surplus_task_is_no_victim_but_the_others_are():
    bench = Bench()
    job = bench.running("x", tasks=3, min_tasks=1)
    job.tasks[-1].eviction = Eviction(1, "preemption", 0)
    assert shield(bench, surplus(job)) == "already-evicting"
    job.tasks[-1].eviction = None
    assert shield(bench, surplus(job)) is None


@pytest.mark.parametrize(("action", "priority", "rule"), [
    ("preempt", 50, None), ("preempt", 75, "reserved"), ("reclaim", 75, None), ("consolidate", 50, "reserved"),
])  # fmt: skip
def test_a_reservation_is_taken_only_by_a_job_that_may_preempt_its_owner(action, priority, rule):
    bench = Bench()
    assert shield(bench, core(bench.running("x", phase="reserved", priority=priority)), action) == rule


@pytest.mark.parametrize("action", ["consolidate", "reclaim", "preempt"])
def test_non_preemptible_jobs_and_their_surplus_are_protected_under_every_action(action):
    bench = Bench()
    job = bench.running("x", tasks=2, min_tasks=1)
    job.preemptible = False
    assert shield(bench, core(job), action) == shield(bench, surplus(job), action) == "not-preemptible"


@pytest.mark.parametrize(("action", "rule"), [("preempt", "lower-priority-only"), ("reclaim", None), ("consolidate", None)])
def test_only_preempt_requires_lower_priority(action, rule):
    bench = Bench()
    assert shield(bench, core(bench.running("x", priority=75)), action) == rule
    assert shield(bench, core(bench.running("y", priority=74)), action) is None


# --- projects


@pytest.mark.parametrize(("scope", "rule"), [("project", "scope"), (None, "scope"), ("pool", None)])
def test_preempt_stays_in_its_project_unless_the_scope_is_the_pool(scope, rule):
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": scope, "quota_shields": False})
    bench.preemptor.project = "vision"
    assert shield(bench, core(bench.running("theirs", project="web"))) == rule
    assert shield(bench, core(bench.running("ours", project="vision"))) is None


def test_without_projects_the_scope_is_the_pool():
    bench = Bench()
    assert shield(bench, core(bench.running("x", project="elsewhere"))) is None


@pytest.mark.parametrize(("action", "rule"), [("reclaim", "own-project"), ("preempt", None), ("consolidate", None)])
def test_a_project_reclaims_nothing_from_itself(action, rule):
    bench = Bench(projects=DEPARTMENTS)
    bench.preemptor.project = "vision"
    assert shield(bench, core(bench.running("x", project="vision")), action) == rule


def promised(bench: Bench, *, to: str, by: str):
    """A reservation of one project's job, and its victim of another project."""
    gang = bench.running("gang", project=to, phase="reserved")
    victim = bench.running("victim", project=by, phase="evicting")
    victim.eviction = Eviction(1, "preemption", 0, preemption=1, for_job="gang")
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", ["victim"])
    return gang, victim


@pytest.mark.parametrize(("preemptor", "to", "by", "rule"), [
    ("vision", "web", "vision", "no-reclaim-of-reserved"),
    ("vision", "web", "speech", "no-reclaim-of-reserved"),
    ("vision", "speech", "vision", "no-reclaim-of-reserved"),
    ("vision", "speech", "web", None),
    ("vision", "web", "web", None),
    ("web", "vision", "speech", None),
])  # fmt: skip
def test_a_reservation_of_resources_released_by_the_own_subtree_is_protected(preemptor, to, by, rule):
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": "pool", "quota_shields": False})
    bench.preemptor.project = preemptor
    gang, _ = promised(bench, to=to, by=by)
    assert shield(bench, core(gang), "reclaim") == rule
    assert shield(bench, core(bench.running("other", project=to)), "reclaim") is None, "only the promise is"


def test_a_reservation_that_waits_for_nobody_of_the_own_subtree_is_not_protected_beside_one_that_does():
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": "pool", "quota_shields": False})
    bench.preemptor.project = "vision"
    gang, _ = promised(bench, to="web", by="vision")
    other = bench.running("other", project="web", phase="reserved")
    other.tasks[0].state = gang.tasks[0].state = "reserved"
    assert shield(bench, core(gang), "reclaim") == "no-reclaim-of-reserved"
    assert shield(bench, core(other), "reclaim") is None


def test_a_victim_that_is_forgotten_by_now_does_not_matter():
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": "pool", "quota_shields": False})
    bench.preemptor.project = "vision"
    gang, _ = promised(bench, to="web", by="vision")
    bench.state.preemptions[1].victims = ["forgotten", "victim"]
    assert shield(bench, core(gang), "reclaim") == "no-reclaim-of-reserved"
    bench.state.preemptions[1].victims = ["forgotten"]
    assert shield(bench, core(gang), "reclaim") is None


def test_no_reclaim_of_reserved_applies_to_preempt_too_while_reclaim_could_take_the_reservation_back():
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": "pool", "quota_shields": False})
    bench.preemptor.project = "vision"
    gang, _ = promised(bench, to="web", by="vision")
    assert shield(bench, core(gang)) == "no-reclaim-of-reserved"
    no_reclaim = {"scope": "pool", "quota_shields": False, "actions": ["allocate", "preempt"]}
    bench.state.policy = Bench(projects=DEPARTMENTS, preemption=no_reclaim).state.policy
    assert shield(bench, core(gang)) is None


def test_no_reclaim_of_reserved_ends_when_the_owner_no_longer_returns():
    bench = Bench(projects=DEPARTMENTS)
    bench.preemptor.project = "vision"
    gang, victim = promised(bench, to="web", by="vision")
    victim.eviction.started_seq = 2
    assert shield(bench, core(gang), "reclaim") == "no-reclaim-of-reserved", "told, and still there: it could be spared"
    victim.tasks[0].state = "exited"
    assert shield(bench, core(gang), "reclaim") is None
    victim.tasks[0].state, victim.reservation = "running", [Task(0, 0, 1 << 7, "reserved")]
    assert shield(bench, core(gang), "reclaim") is None, "one that moves was never out of its project's use"


def test_quota_shields_protects_jobs_of_others_within_their_quota():
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": "pool"})
    bench.preemptor.project = "web"
    within = bench.running("within", project="vision", gpus=2)
    assert shield(bench, core(within)) == "quota-shields"
    beyond = bench.running("beyond", project="vision", gpus=1)
    assert shield(bench, core(within)) is None, "one GPU over: any of them may be the one"
    assert forbidden(bench, [core(within)]) is None
    assert forbidden(bench, [core(beyond)]) is None
    both = [core(within), core(beyond)]
    reason = forbidden(bench, both)
    assert reason == "project vision would lose more than it uses beyond its quota", "whichever goes last finds it within"
    assert forbidden(bench, both, "reclaim") is None, "reclaim has a test of its own"


def test_quota_shields_can_be_disabled_and_never_applies_within_the_project():
    bench = Bench(projects=DEPARTMENTS, preemption={"scope": "pool"})
    bench.preemptor.project = "vision"
    assert shield(bench, core(bench.running("ours", project="vision"))) is None
    theirs = bench.running("theirs", project="web")
    assert shield(bench, core(theirs)) == "quota-shields"
    bench.state.policy = Bench(projects=DEPARTMENTS, preemption={"scope": "pool", "quota_shields": False}).state.policy
    assert shield(bench, core(theirs)) is None


# --- excluded


def test_excluded_jobs_carry_all_labels_of_an_entry():
    bench = Bench(protections={"excluded": [{"team": "audit", "tier": "gold"}, {"pinned": "yes"}]})
    assert shield(bench, core(bench.running("one", labels={"team": "audit"}))) is None
    assert shield(bench, core(bench.running("both", labels={"team": "audit", "tier": "gold"}))) == "excluded"
    assert shield(bench, core(bench.running("other", labels={"pinned": "yes"})), "reclaim") == "excluded"


def test_an_entry_without_labels_would_exclude_everyone_and_is_refused():
    with pytest.raises(ValueError, match="at least 1 item"):
        Bench(protections={"excluded": [{}]})


# --- min-runtime


def test_min_runtime_ends_to_the_microsecond():
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    job = bench.running("x", age=10 * MINUTE - 1)
    assert shield(bench, core(job)) == "min-runtime"
    bench.later(1)
    assert shield(bench, core(job)) is None


def test_min_runtime_is_separate_for_each_action_and_consolidation_has_none():
    bench = Bench(protections={"min_runtime": {"reclaim": "10m"}})
    job = bench.running("x", age=MINUTE, project="theirs")
    assert [shield(bench, core(job), action) for action in ("consolidate", "reclaim", "preempt")] == [None, "min-runtime", None]


def test_min_runtime_does_not_protect_surplus():
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    job = bench.running("x", tasks=2, min_tasks=1, age=MINUTE)
    assert shield(bench, surplus(job)) is None
    assert shield(bench, core(job)) == "min-runtime"


def test_a_starting_gang_has_run_for_no_time_and_a_reservation_is_no_run():
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    assert shield(bench, core(bench.running("x", phase="starting"))) == "min-runtime"
    assert shield(bench, core(bench.running("y", phase="reserved"))) is None


def test_min_runtime_against_preempt_is_the_nearest_one_above_the_victim():
    projects = [
        {"name": "lab", "min_runtime": {"preempt": "30m"}},
        {"name": "vision", "parent": "lab"},
        {"name": "speech", "parent": "lab", "min_runtime": {"preempt": "0s"}},
    ]
    bench = Bench(
        projects=projects, preemption={"scope": "pool", "quota_shields": False}, protections={"min_runtime": {"preempt": "1h"}}
    )
    ages = {"vision": 30 * MINUTE, "speech": 0, "unknown": HOUR}
    for project, least in ages.items():
        job = bench.running(f"old-{project}", age=least, project=project)
        assert shield(bench, core(job)) is None, project
        if least:
            job.last_start += 1
            assert shield(bench, core(job)) == "min-runtime", project


def test_min_runtime_against_reclaim_is_looked_up_below_the_common_ancestor():
    projects = [
        {"name": "lab", "min_runtime": {"reclaim": "30m"}},
        {"name": "vision", "parent": "lab", "min_runtime": {"reclaim": "5m"}},
        {"name": "speech", "parent": "lab"},
        {"name": "web"},
    ]
    bench = Bench(projects=projects)
    job = bench.running("x", project="vision", age=5 * MINUTE)
    bench.preemptor.project = "speech"
    assert shield(bench, core(job), "reclaim") is None, "between the two teams it is what vision states"
    job.last_start += 1
    assert shield(bench, core(job), "reclaim") == "min-runtime"
    bench.preemptor.project, job.last_start = "web", bench.state.now - 30 * MINUTE + 1
    assert shield(bench, core(job), "reclaim") == "min-runtime", "between the departments it is what lab states"
    bench.later(1)
    assert shield(bench, core(job), "reclaim") is None


def test_min_runtime_against_reclaim_goes_upward_from_there_to_the_pools_own():
    bench = Bench(projects=DEPARTMENTS, protections={"min_runtime": {"reclaim": "1m"}})
    bench.preemptor.project = "web"
    job = bench.running("x", project="vision", age=MINUTE - 1)
    assert shield(bench, core(job), "reclaim") == "min-runtime"
    bench.later(1)
    assert shield(bench, core(job), "reclaim") is None


# --- eviction-cap


def test_eviction_cap_counts_evictions_within_the_window():
    bench = Bench(protections={"eviction_cap": {"evictions": 2, "window": "1h"}})
    job = bench.running("x")
    job.eviction_times = [bench.state.now - 2 * HOUR, bench.state.now - HOUR + 1]
    assert shield(bench, core(job)) is None, "only one of the two lies in the window"
    job.eviction_times.append(bench.state.now - MINUTE)
    assert shield(bench, core(job)) == shield(bench, core(job), "consolidate") == "eviction-cap"
    bench.later(1)
    assert shield(bench, core(job)) is None, "the older one has left the window"


def test_eviction_cap_does_not_protect_surplus_or_reservations_and_can_be_disabled():
    bench = Bench(protections={"eviction_cap": {"evictions": 1, "window": "1h"}})
    job, promised = bench.running("x", tasks=2, min_tasks=1), bench.running("y", phase="reserved")
    job.eviction_times = promised.eviction_times = [bench.state.now]
    assert shield(bench, core(job)) == "eviction-cap"
    assert shield(bench, surplus(job)) is shield(bench, core(promised)) is None
    bench.state.policy = Bench().state.policy
    assert shield(bench, core(job)) is None


# --- cooldown of a job


def test_cooldown_counts_from_the_start_after_the_eviction_and_covers_surplus():
    bench = Bench(protections={"cooldown": {"job": "5m"}})
    job = bench.running("x", tasks=2, min_tasks=1, age=5 * MINUTE - 1)
    assert shield(bench, core(job)) is None, "it has never been evicted"
    job.last_eviction = job.pending_since = bench.state.now - HOUR
    assert shield(bench, core(job)) == shield(bench, surplus(job)) == "cooldown"
    bench.later(1)
    assert shield(bench, core(job)) is None


def test_cooldown_protects_a_job_resumed_after_an_eviction_not_after_a_failure():
    bench = Bench(protections={"cooldown": {"job": "5m"}})
    job = bench.running("x", age=SECOND)
    job.last_eviction, job.pending_since = bench.state.now - HOUR, bench.state.now - MINUTE
    assert shield(bench, core(job)) is None


def test_cooldown_applies_while_the_tasks_start_and_can_be_disabled():
    bench = Bench(protections={"cooldown": {"job": "5m"}})
    job = bench.running("x", phase="starting")
    job.last_eviction = job.pending_since = bench.state.now - MINUTE
    assert shield(bench, core(job)) == "cooldown"
    bench.state.policy = Bench().state.policy
    assert shield(bench, core(job)) is None


# --- budget

WEB_BUDGET = {"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]}


def test_a_budget_counts_evictions_in_progress():
    bench = Bench(protections=WEB_BUDGET)
    one, other = (bench.running(name, labels={"app": "web"}) for name in "xy")
    assert shield(bench, core(one)) is None
    leaving = bench.running("z", labels={"app": "web"}, phase="evicting")
    assert shield(bench, core(one)) == "budget"
    assert shield(bench, core(bench.running("w"))) is None, "another group"
    leaving.cancelled = True
    assert shield(bench, core(other)) is None, "cancellation requested: that costs the group nothing"


def test_a_budget_bounds_a_set_as_a_whole():
    bench = Bench(protections=WEB_BUDGET)
    jobs = [bench.running(name, labels={"app": "web"}) for name in "xy"]
    assert forbidden(bench, [core(jobs[0])]) is None
    reason = forbidden(bench, [core(job) for job in jobs])
    assert "budget 'web' allows 1 disruption" in reason


def test_a_budget_does_not_count_surplus_or_reservations():
    bench = Bench(protections=WEB_BUDGET)
    elastic = bench.running("x", tasks=3, min_tasks=1, labels={"app": "web"})
    promised = bench.running("y", phase="reserved", labels={"app": "web"})
    gone = [surplus(elastic), core(promised), core(bench.running("z", labels={"app": "web"}))]
    assert forbidden(bench, gone) is None
    bench.state.policy = Bench(protections={"budgets": [{"name": "web", "max_disruptions": 0}]}).state.policy
    assert shield(bench, surplus(elastic)) is shield(bench, core(promised)) is None
    assert shield(bench, core(elastic)) == "budget"


def test_a_budget_of_a_project_covers_what_lies_below_it():
    bench = Bench(projects=DEPARTMENTS, protections={"budgets": [{"name": "lab", "project": "lab", "max_disruptions": 0}]})
    assert shield(bench, core(bench.running("x", project="vision")), "reclaim") == "budget"
    assert shield(bench, core(bench.running("y", project="web")), "reclaim") is None


def test_a_budget_of_an_unknown_project_is_refused():
    with pytest.raises(ValueError, match="budget 'lab' names the project 'lab', which is not defined"):
        Bench(protections={"budgets": [{"name": "lab", "project": "lab", "max_disruptions": 0}]})


# --- the register


def test_the_first_rule_in_order_names_the_group():
    bench = Bench(protections={"excluded": [{"a": "b"}], "min_runtime": {"preempt": "10m"}})
    job = bench.running("x", labels={"a": "b"}, age=0, priority=75)
    job.preemptible = False
    for name in ("not-preemptible", "lower-priority-only", "excluded", "min-runtime"):
        assert shield(bench, core(job)) == name
        job.preemptible = True
        job.priority = 75 if name == "not-preemptible" else 50
        if name == "excluded":
            job.demand = job.demand.model_copy(update={"labels": {}})


def test_every_rule_has_its_own_name_and_completes_the_phrase_a_job_that():
    assert len({rule.name for rule in RULES}) == len(RULES) == 15
    assert all(rule.predicate.split()[0] in ("is", "does", "has", "was", "belongs", "preempted", "restarted") for rule in RULES)


def test_a_minimum_run_time_of_one_microsecond_is_one():
    bench = Bench(protections={"min_runtime": {"preempt": 1}})
    job = bench.running("x", age=0)
    assert shield(bench, core(job)) == "min-runtime"
    bench.later(1)
    assert shield(bench, core(job)) is None
