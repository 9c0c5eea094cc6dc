"""Rules that shield victims: when they end, promises, displacements, and where they are off."""

from typing import Any

import pytest
from tests.kits.builders import HOUR, MINUTE
from tests.kits.log_builder import SECOND
from tests.kits.pools import Bench, core

from bailiff_core.model.state import Eviction, Job, Preemption, Task
from bailiff_core.model.units import Unit
from bailiff_core.protections import RULES, Shields, VictimSetTests, already_evicting, excluded_by, next_protection_end
from bailiff_core.protections import no_counter_reclaim as counter
from bailiff_core.protections.already_evicting import is_evicting
from bailiff_core.protections.disruption_budget import BudgetUsage
from bailiff_core.protections.rule import JobsShield, Rule
from bailiff_core.victims.batch import PREEMPTING_ACTIONS

# --- each rule that shields a victim: enabled, disabled, and at the moment at which it ends


DEPARTMENTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "speech", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]


def shield(bench: Bench, unit, action="preempt") -> str | None:
    bench.state.indices.snapshot = None
    return excluded_by(bench.state, action, bench.preemptor, unit)


# --- projects


def promised(bench: Bench, *, to: str, by: str):
    """A reservation of one project's job, and its victim of another project."""
    gang = bench.running("gang", project=to, phase="reserved")
    victim = bench.running("victim", project=by, phase="evicting")
    victim.eviction = Eviction(1, "preemption", 0, preemption=1, for_job="gang")
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", ["victim"])
    return gang, victim


@pytest.mark.parametrize(
    ("preemptor", "to", "by", "rule"),
    [
        *(("vision", "web", "vision", "no-reclaim-of-reserved"), ("vision", "web", "speech", "no-reclaim-of-reserved")),
        *(("vision", "speech", "vision", "no-reclaim-of-reserved"), ("vision", "speech", "web", None)),
        *(("vision", "web", "web", None), ("web", "vision", "speech", None)),
    ],
)
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


# --- min-runtime


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


def test_min_runtime_against_reclaim_goes_upward_from_there_to_the_pools_own():
    bench = Bench(projects=DEPARTMENTS, protections={"min_runtime": {"reclaim": "1m"}})
    bench.preemptor.project = "web"
    job = bench.running("x", project="vision", age=MINUTE - 1)
    assert shield(bench, core(job), "reclaim") == "min-runtime"
    bench.later(1)
    assert shield(bench, core(job), "reclaim") is None


# --- cooldown of a job


def test_cooldown_protects_a_job_resumed_after_an_eviction_not_after_a_failure():
    bench = Bench(protections={"cooldown": {"job": "5m"}})
    job = bench.running("x", age=SECOND)
    job.last_eviction, job.pending_since = bench.state.now - HOUR, bench.state.now - MINUTE
    assert shield(bench, core(job)) is None


def test_cooldown_applies_while_the_tasks_start_and_can_be_disabled():
    bench = Bench(protections={"cooldown": {"job": "5m"}})
    job = bench.running("x", phase="starting")
    job.pending_since = bench.state.now - MINUTE
    job.eviction_times = [job.pending_since]
    assert shield(bench, core(job)) == "cooldown"
    bench.state.policy = Bench().state.policy
    assert shield(bench, core(job)) is None


# --- when the next protection ends, and what protections make of jobs that start, leave, or were backfilled


DEPARTMENTS_ENDS_OF_PROTECTIONS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "speech", "parent": "lab", "quota": {"gpus": 2}, "min_runtime": {"preempt": "0s"}},
    {"name": "web", "quota": {"gpus": 4}},
]
POOL = {"scope": "pool", "quota_shields": False}


def shields(bench: Bench, action: Any = "preempt", preemptor: Job | None = None) -> Shields:
    bench.state.indices.snapshot = None
    return Shields(bench.state, action, preemptor or bench.preemptor)


def end(bench: Bench, *actions: Any) -> int | None:
    """Minutes from now until the next protection ends."""
    bench.state.indices.snapshot = None
    found = next_protection_end(bench.state, actions or ("preempt",), bench.preemptor)
    return None if found is None else (found - bench.state.now) // MINUTE


# --- the next end


def test_the_first_of_several_ends_counts_in_whichever_order_the_jobs_are_looked_at() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    for name, age in (("x", 4), ("y", 2), ("z", 7)):
        bench.running(name, age=age * MINUTE)
    bench.running("unprotected")
    assert end(bench) == 3


def test_the_next_end_tests_no_job_that_cannot_end_the_wait_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "2h"}})
    for number in range(20):  # none is cooling down: the cooldown is never the rule that excludes one
        bench.running(f"j{number}", age=5 * MINUTE)
    tested, test = [], Shields.excluded_by
    monkeypatch.setattr(Shields, "excluded_by", lambda self, unit: tested.append(unit) or test(self, unit))
    assert end(bench) == 5
    assert len(tested) == 1


def test_a_job_without_any_protection_is_passed_over() -> None:
    bench = Bench(protections={"eviction_cap": {"evictions": 1, "window": "1h"}})
    bench.running("first").eviction_times = [bench.state.now - 50 * MINUTE]
    bench.running("never-evicted")
    bench.running("last").eviction_times = [bench.state.now - 55 * MINUTE]
    assert end(bench) == 5


def test_of_a_job_with_two_protections_the_end_of_the_one_that_is_named_counts() -> None:
    """The second job's cooldown ends before the first job's minimum run time, but its own minimum run time does not."""
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "2m"}})
    bench.running("x", age=5 * MINUTE)
    both = bench.running("y", age=0)
    both.last_eviction = both.pending_since = bench.state.now - HOUR
    assert end(bench) == 5


def test_a_later_end_of_another_rule_does_not_hide_the_end_of_the_one_that_is_named() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "30m"}})
    bench.running("x", age=5 * MINUTE)
    both = bench.running("y", age=8 * MINUTE)
    both.last_eviction = both.pending_since = bench.state.now - HOUR
    assert end(bench) == 2


def test_a_protection_of_a_later_action_counts_where_an_earlier_one_has_none() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m", "consolidate": "0s"}})
    bench.running("x", age=4 * MINUTE)
    assert end(bench, "consolidate", "reclaim", "preempt") == 6
    assert end(bench, "consolidate", "reclaim") is None


def test_nobody_knows_when_the_protection_of_a_job_ends_that_still_starts() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "cooldown": {"job": "2m"}})
    starting = bench.running("x", phase="starting")
    starting.last_eviction = starting.pending_since = bench.state.now - HOUR
    assert end(bench) is None


def test_a_protection_that_ends_now_is_over() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}})
    bench.running("x", age=10 * MINUTE)
    assert end(bench) is None


def test_for_a_job_that_other_rules_protect_no_time_is_named() -> None:
    bench = Bench(protections={"min_runtime": {"preempt": "10m"}, "excluded": [{"app": "web"}]})
    bench.running("x", age=0, labels={"app": "web"})
    assert end(bench) is None


# --- groups


@pytest.mark.parametrize(
    ("protections", "singled_out"),
    [
        ({}, []),
        ({"cooldown": {"job": "5m"}}, ["evicted"]),
        ({"eviction_cap": {"evictions": 1, "window": "1h"}}, ["evicted"]),
        ({"excluded": [{"a": "b"}]}, ["labelled"]),
        ({"min_runtime": {"preempt": "10m"}}, ["labelled"]),
        ({"budgets": [{"name": "none", "labels": {"a": "b"}, "max_disruptions": 0}]}, ["labelled"]),
    ],
)
def test_only_jobs_that_a_rule_may_distinguish_are_judged_one_by_one(protections: Any, singled_out: list[str]) -> None:
    bench = Bench(protections=protections)
    bench.running("plain", age=HOUR)
    evicted = bench.running("evicted", age=HOUR)
    evicted.last_eviction, evicted.eviction_times = bench.state.now - HOUR, [bench.state.now - MINUTE]
    bench.running("labelled", age=0, labels={"a": "b"})
    assert list(shields(bench).singled_out()) == singled_out


def test_a_rule_judges_by_class_or_names_the_jobs_that_it_may_exclude() -> None:
    """Otherwise victim search on large pools would count jobs wrongly."""
    bench = Bench(
        projects=DEPARTMENTS_PROMISES_AND_DISPLACEMENTS,
        preemption=POOL,
        protections={
            "cooldown": {"job": "5m"},
            "eviction_cap": {"evictions": 1, "window": "1h"},
            "excluded": [{"a": "b"}],
            "min_runtime": {"preempt": "10m", "reclaim": "10m"},
            "budgets": [{"name": "none", "labels": {"a": "b"}, "max_disruptions": 0}],
        },
    )
    granted(bench)
    bench.state.displaced_by = {"preemptor": {"victim": bench.state.seq + 1}}
    for rule in RULES:
        for action in PREEMPTING_ACTIONS:
            test = rule.shield(bench.state, action, bench.preemptor)
            by_name = rule.name == already_evicting.NAME or isinstance(test, JobsShield)
            assert test is None or rule.by_group != by_name, rule.name


# --- the head of the queue and backfilled jobs


FIXED = {"excluded": [{"app": "fixed"}]}


def with_backfilled(protections: Any) -> tuple[Bench, dict[str, Job]]:
    """A head that asks for six GPUs, and backfilled jobs: one before it in the queue, and three behind it."""
    bench = Bench(protections=protections)
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    jobs = {name: bench.running(name, labels={"app": name}) for name in ("before", "fixed", "one", "two")}
    bench.preemptor = bench.waiting("head", priority=75, gpus=6)
    for name, job in jobs.items():
        job.backfilled = True
        bench.state.backfilled[name] = None
    jobs["before"].priority = 75
    return bench, jobs


def test_a_backfilled_job_that_leaves_already_is_no_victim_again() -> None:
    bench, jobs = with_backfilled(FIXED)
    jobs["one"].phase = "evicting"
    assert shields(bench).excluded_by(core(jobs["one"])) == "already-evicting"


def test_a_budget_counts_backfilled_jobs_of_the_head_only_where_it_may_not_evict_them_as_such() -> None:
    bench, jobs = with_backfilled({**FIXED, "budgets": [{"name": "all", "max_disruptions": 0}]})
    bench.running("plain")
    bench.state.indices.snapshot = None
    tests = VictimSetTests(bench.state, "preempt", bench.preemptor)
    assert tests.violation([core(jobs["one"]), core(jobs["two"])]) is None
    assert tests.violation([core(jobs["one"]), core(jobs["before"])]) is not None
    assert tests.violation([core(jobs["one"]), core(bench.state.jobs["plain"])]) is not None


# --- already evicting


def test_a_task_without_a_place_is_not_leaving() -> None:
    job = Bench().running("x", tasks=2, min_tasks=1)
    del job.tasks[1]
    assert not is_evicting(Unit(job, (0, 1), core=False))


# --- cooldown and minimum run time


def test_in_a_project_without_a_minimum_run_time_a_starting_gang_is_not_protected() -> None:
    preemption = {**POOL, "actions": ["allocate", "preempt"]}
    bench = Bench(
        projects=DEPARTMENTS_ENDS_OF_PROTECTIONS, preemption=preemption, protections={"min_runtime": {"preempt": "10m"}}
    )
    vision, speech = (bench.running(name, project=name, phase="starting") for name in ("vision", "speech"))
    found = shields(bench)
    assert (found.excluded_by(core(vision)), found.excluded_by(core(speech))) == ("min-runtime", None)


# --- budgets


def test_a_budget_that_is_overdrawn_already_forbids_no_victims_of_other_groups() -> None:
    """The policy was changed while two were leaving."""
    bench = Bench(protections={"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]})
    for name in "xy":
        bench.running(name, labels={"app": "web"}, phase="evicting")
    usage = BudgetUsage(bench.state)
    assert [left for _, left in usage.left] == [-1]
    assert usage.violation([core(bench.running("other"))]) is None
    assert "0 left" in str(usage.violation([core(bench.running("another", labels={"app": "web"}))]))


# --- promises and displacements: whose resources a preemptor's project is releasing, and who displaced whom


DEPARTMENTS_PROMISES_AND_DISPLACEMENTS = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]


def kept(bench: Bench, action: Any) -> Shields:
    bench.state.indices.snapshot = None
    return Shields(bench.state, action, bench.preemptor)


# --- reservations


def granted(bench: Bench, tasks: int = 1) -> Job:
    """A reservation of web, for which a job of vision is leaving."""
    gang = bench.running("gang", project="web", phase="reserved", tasks=tasks, min_tasks=1)
    victim = bench.running("victim", project="vision", phase="evicting")
    victim.eviction = Eviction(1, "preemption", 0, preemption=1)
    bench.preemptor.project = "vision"
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", ["victim"])
    return gang


def test_only_the_tasks_of_a_promise_that_are_reserved_are_protected() -> None:
    bench = Bench(projects=DEPARTMENTS_PROMISES_AND_DISPLACEMENTS, preemption=POOL)
    gang = granted(bench, tasks=3)
    gang.phase, gang.tasks[0].state = "running", "running"
    found = kept(bench, "reclaim")
    assert found.excluded_by(Unit(gang, (1,), core=False)) == "no-reclaim-of-reserved"
    assert found.excluded_by(Unit(gang, (0, 1), core=True)) == "no-reclaim-of-reserved"
    assert found.excluded_by(Unit(gang, (0,), core=True)) is None


def test_a_promise_is_not_protected_for_what_leaves_for_another_one() -> None:
    bench = Bench(projects=DEPARTMENTS_PROMISES_AND_DISPLACEMENTS, preemption=POOL)
    gang = granted(bench)
    victim = bench.state.jobs["victim"]
    assert victim.eviction is not None
    victim.eviction.preemption = 2
    assert kept(bench, "reclaim").excluded_by(core(gang)) is None


def test_a_victim_of_which_one_task_gets_no_other_place_is_released_in_part() -> None:
    """Its relocated task stays in use; the other one is what the preemptor's project gives."""
    bench = Bench(projects=DEPARTMENTS_PROMISES_AND_DISPLACEMENTS, preemption=POOL)
    gang = bench.running("gang", project="web", phase="reserved")
    victim = bench.running("victim", project="vision", phase="evicting", tasks=2)
    victim.eviction = Eviction(1, "preemption", 0, preemption=1)
    victim.reservation = [victim.tasks[0]]
    bench.preemptor.project = "vision"
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", ["victim"])
    assert kept(bench, "reclaim").excluded_by(core(gang)) == "no-reclaim-of-reserved"
    victim.reservation = list(victim.tasks)
    assert kept(bench, "reclaim").excluded_by(core(gang)) is None


# --- no counter-reclaim


def test_jobs_that_displaced_each_other_protect_both_from_a_third() -> None:
    bench = Bench()
    for name in "xy":
        bench.running(name)
    bench.state.displaced_by = {"preemptor": {"x": 10}, "x": {"y": 11}, "y": {"x": 12}}
    assert list(counter._displacing(bench.state, "preemptor", -1)) == ["x", "y"]


@pytest.mark.parametrize(("since", "found"), [(9, ["x"]), (10, []), (11, [])])
def test_only_what_was_displaced_after_the_entitlements_changed_is_recent(since: int, found: list[str]) -> None:
    bench = Bench()
    bench.running("x")
    bench.state.displaced_by = {"preemptor": {"x": 10}}
    assert list(counter._displacing(bench.state, "preemptor", since)) == found


@pytest.mark.parametrize(("starts", "covered"), [((1, 4), False), ((1, 2), True)])
def test_a_gang_counts_from_the_start_of_its_last_task(starts: tuple[int, int], covered: bool) -> None:
    """Ours is entitled to four GPUs: of six, those count that started no later than the gang's last task."""
    bench = Bench(projects=[{"name": "ours", "quota": {"gpus": 4}}, {"name": "theirs", "quota": {"gpus": 4}}])
    gang = bench.running("gang", project="theirs", tasks=2)
    for task, start in zip(gang.tasks, starts, strict=True):
        task.start_seq = start
    bench.running("later", project="theirs", gpus=4).tasks[0].start_seq = 3
    bench.waiting("asks", project="ours", gpus=4)
    bench.state.seq = 9
    assert counter._Shares(bench.state).cover(core(gang)) is covered


def test_a_task_without_a_place_or_a_start_started_last() -> None:
    bench = Bench()
    job = bench.running("x", tasks=2)
    bench.state.seq = 9
    assert [counter._Shares(bench.state)._start(job, index) for index in (0, 5)] == [9, 9]
    job.tasks[0].start_seq = 3
    assert counter._Shares(bench.state)._start(job, 0) == 3


@pytest.mark.parametrize(
    ("runs", "lost", "protects"),
    [(False, "preemptor", True), (False, "preemptor+", False), (True, "preemptor", False), (True, "preemptor+", True)],
)
def test_a_job_that_runs_asks_for_surplus_and_reclaims_none_from_those_that_took_its_surplus(
    runs: bool, lost: str, protects: bool
) -> None:
    bench = Bench(projects=DEPARTMENTS_PROMISES_AND_DISPLACEMENTS)
    other = bench.running("x", project="web")
    if runs:
        bench.sketch.at(bench.preemptor, ("a", [7]))
    bench.state.displaced_by = {lost: {"x": 1000}}
    assert counter.may_be_shielded_from(bench.state, "reclaim", bench.preemptor) is protects
    found = counter.shield(bench.state, "reclaim", bench.preemptor)
    assert (found is not None and found(core(other))) is protects


# --- where a protection is off, there is no test for it: jobs that differ only in what it looks at are then judged as one gro


TREE = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}


def is_on(bench: Bench, name: str, action: Any) -> bool:
    bench.state.indices.snapshot = None
    return BY_NAME[name].shield(bench.state, action, bench.preemptor) is not None


def test_a_budget_that_is_not_used_up_protects_nobody() -> None:
    bench = Bench(protections={"budgets": [{"name": "all", "max_disruptions": 1}]})
    assert not is_on(bench, "budget", "preempt")
    bench.running("x", phase="evicting")
    assert is_on(bench, "budget", "preempt")


# --- promises


def promise(bench: Bench, *, of: str = "web", by: tuple[str, ...] = ("vision",), preemptor: str = "vision") -> Job:
    """A reservation of a job of the one project, for which one job of each of the others is leaving."""
    gang = bench.running("gang", project=of, phase="reserved")
    gang.tasks[0].state = "reserved"
    for project in by:
        victim = bench.running(f"of-{project}", project=project, phase="evicting")
        victim.eviction = Eviction(1, "preemption", 0, preemption=1)
    gang.preemption, bench.state.preemptions[1] = 1, Preemption(1, "gang", [f"of-{project}" for project in by])
    bench.preemptor.project = preemptor
    return gang


@pytest.mark.parametrize(
    ("scope", "action", "on"),
    [("pool", "preempt", True), ("pool", "reclaim", True), ("project", "preempt", False), ("project", "reclaim", True)],
)
def test_promises_are_protected_where_the_preemptor_could_drop_them(scope: str, action: str, on: bool) -> None:
    bench = Bench(projects=TREE, preemption={**POOL, "scope": scope})
    promise(bench)
    assert is_on(bench, "no-reclaim-of-reserved", action) is on


@pytest.mark.parametrize(
    ("about", "on"),
    [
        ({}, True),
        ({"by": ()}, False),
        ({"by": ("web",)}, False),
        ({"by": ("web", "vision")}, True),
        ({"of": "vision"}, False),  # what a project promises to itself
    ],
)
def test_only_promises_are_protected_for_which_the_own_side_leaves(about: dict[str, Any], on: bool) -> None:
    bench = Bench(projects=TREE, preemption=POOL)
    gang = promise(bench, **about)
    assert is_on(bench, "no-reclaim-of-reserved", "preempt") is on
    if on:
        found = BY_NAME["no-reclaim-of-reserved"].shield(bench.state, "preempt", bench.preemptor)
        assert found is not None
        assert found(core(gang))


def test_jobs_that_displaced_the_preemptor_and_have_ended_need_no_protection() -> None:
    bench = Bench(projects=TREE)
    job = bench.running("x", project="web")
    bench.state.displaced_by = {"preemptor": {"x": 1000}}
    assert is_on(bench, "no-counter-reclaim", "reclaim")
    job.phase = "succeeded"
    assert not is_on(bench, "no-counter-reclaim", "reclaim")
