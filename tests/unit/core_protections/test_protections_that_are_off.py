"""Where a protection is off, there is no test for it: jobs that differ only in what it looks at are then judged as one group."""

from typing import Any

import pytest
from tests.unit.core_protections.kit import Bench, core

from bailiff_core.model.state import Eviction, Job, Preemption
from bailiff_core.protections import RULES, VictimSetTests
from bailiff_core.protections.rule import Rule

TREE = [
    {"name": "lab", "quota": {"gpus": 8}},
    {"name": "vision", "parent": "lab", "quota": {"gpus": 2}},
    {"name": "web", "quota": {"gpus": 4}},
]
POOL = {"scope": "pool", "quota_shields": False}
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}


def is_on(bench: Bench, name: str, action: Any) -> bool:
    bench.state.indices.snapshot = None
    return BY_NAME[name].shield(bench.state, action, bench.preemptor) is not None


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("excluded", {"excluded": [{"app": "web"}]}),
        ("eviction-cap", {"eviction_cap": {"evictions": 1, "window": "1h"}}),
        ("cooldown", {"cooldown": {"job": "5m"}}),
        ("min-runtime", {"min_runtime": {"preempt": "10m"}}),
        ("budget", {"budgets": [{"name": "all", "max_disruptions": 0}]}),
    ],
)
def test_without_its_part_of_the_policy_a_rule_is_off(name: str, policy: dict[str, Any]) -> None:
    assert not is_on(Bench(), name, "preempt")
    assert is_on(Bench(protections=policy), name, "preempt")


def test_a_budget_that_is_not_used_up_protects_nobody() -> None:
    bench = Bench(protections={"budgets": [{"name": "all", "max_disruptions": 1}]})
    assert not is_on(bench, "budget", "preempt")
    bench.running("x", phase="evicting")
    assert is_on(bench, "budget", "preempt")


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("lower-priority-only", ["preempt"]),
        ("own-project", ["reclaim"]),
        ("scope", ["preempt"]),
        ("min-runtime", ["reclaim", "preempt"]),
        ("already-evicting", ["consolidate", "reclaim", "preempt"]),
    ],
)
def test_a_rule_is_on_under_its_actions(name: str, actions: list[str]) -> None:
    times = {"min_runtime": {"preempt": "10m", "reclaim": "10m"}}
    bench = Bench(projects=TREE, preemption={"scope": "project"}, protections=times)
    assert [action for action in ("consolidate", "reclaim", "preempt") if is_on(bench, name, action)] == actions


def test_the_scope_of_the_pool_protects_nobody() -> None:
    assert not is_on(Bench(projects=TREE, preemption=POOL), "scope", "preempt")


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


# --- sets of victims


def test_without_budgets_and_quotas_any_set_of_permitted_victims_is_one() -> None:
    bench = Bench()
    tests = VictimSetTests(bench.state, "preempt", bench.preemptor)
    assert not tests.any
    assert tests.violation([core(bench.running(name)) for name in "xy"]) is None


def test_of_a_budget_and_a_quota_that_a_set_violates_the_budget_is_named() -> None:
    budgets = [{"name": "all", "max_disruptions": 1}]
    bench = Bench(projects=TREE, preemption={"scope": "pool"}, protections={"budgets": budgets})
    bench.preemptor.project = "vision"
    units = [core(bench.running(name, project="web", gpus=2)) for name in "xyz"]
    bench.state.indices.snapshot = None
    tests = VictimSetTests(bench.state, "preempt", bench.preemptor)
    assert tests.any
    assert tests.violation(units[:1]) is None
    assert str(tests.violation(units[:2])).startswith("budget 'all' allows 1 disruption"), "and web would go below its quota"
