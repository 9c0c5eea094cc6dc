"""Rules of the policy that a class or a project states for its own jobs: the most specific one holds, and says where it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.builders import HOUR, MINUTE
from tests.kits.pools import Bench, core

from bailiff_core.explain.evictions import protections_of
from bailiff_core.fold.displacements import note_reclaimed
from bailiff_core.model.grace import grace_by_policy, term_after
from bailiff_core.model.job_rules import COOLDOWN, EVICTION_CAP, GRACE, KILL_AFTER, MIN_RUNTIME, JobRule
from bailiff_core.model.policy import EvictionCap
from bailiff_core.protections import excluded_by
from bailiff_core.quota.quota_checks import may_borrow_at

RULES: dict[str, tuple[JobRule[Any], Any]] = {
    "eviction_cap": (EVICTION_CAP, lambda amount: {"evictions": amount, "window": "1d"}),
    "cooldown": (COOLDOWN, lambda amount: {"job": amount * MINUTE}),
    "grace": (GRACE, lambda amount: amount * MINUTE),
    "kill_after": (KILL_AFTER, lambda amount: amount * MINUTE),
    "min_runtime": (MIN_RUNTIME["preempt"], lambda amount: {"preempt": amount * MINUTE}),
}
GENERAL = {"grace": "eviction", "kill_after": "eviction"}
LEVELS = ("vision", "lab", "train", "policy")  # most specific first


def bench(field: str, stated: dict[str, int]) -> Bench:
    """A pool whose policy states the rule at these levels."""
    value = {level: {field: RULES[field][1](amount)} for level, amount in stated.items()}
    classes = [
        {"name": "urgent", "value": 90, "preemptible": True},
        {"name": "train", "value": 50, "preemptible": True, "global_default": True, **value.get("train", {})},
    ]
    projects = [{"name": "lab", **value.get("lab", {})}, {"name": "vision", "parent": "lab", **value.get("vision", {})}]
    general = {GENERAL.get(field, "protections"): value.get("policy", {})}
    return Bench(priority_classes=classes, projects=projects, preemption={"scope": "pool", "quota_shields": False}, **general)


@given(st.sampled_from(sorted(RULES)), st.sets(st.sampled_from(LEVELS)))
def test_the_most_specific_statement_holds_and_is_named(field, levels):
    stated = {level: at for at, level in enumerate(LEVELS, start=1) if level in levels}
    pool = bench(field, stated)
    rule, _ = RULES[field]
    found = rule.of(pool.state, pool.running("job", project="vision"))
    by_job = rule.by_job(pool.state)
    if not stated:
        assert (found.field, found.value) == (rule.general, rule.default(pool.state.rules))
        return
    level = next(level for level in LEVELS if level in stated)
    places = {"train": f"priority_classes.train.{rule.name}", "policy": rule.general}
    assert found.field == places.get(level, f"projects.{level}.{rule.name}")
    amount = found.value.evictions if isinstance(found.value, EvictionCap) else found.value // MINUTE
    assert amount == stated[level]
    assert by_job is not None
    assert by_job(pool.state.jobs["job"]) == found.value


def test_a_class_protects_its_jobs_only():
    pool = bench("min_runtime", {"train": 10})
    assert excluded_by(pool.state, "preempt", pool.preemptor, core(pool.running("young", age=0))) == "min-runtime"
    pool.state.indices.snapshot = None
    other = pool.running("other", age=0)
    other.class_name = "urgent"
    assert excluded_by(pool.state, "preempt", pool.preemptor, core(other)) is None


@pytest.mark.parametrize(("field", "rule"), [("eviction_cap", "eviction-cap"), ("cooldown", "cooldown")])
def test_a_project_protects_its_jobs_where_the_policy_protects_none(field, rule):
    pool = bench(field, {"vision": 1})
    for project, expected in (("vision", rule), ("lab", None)):
        job = pool.running(project, age=0, project=project)
        job.eviction_times, job.last_eviction, job.pending_since = [pool.state.now - 1], pool.state.now - 1, 0
        pool.state.indices.snapshot = None
        assert excluded_by(pool.state, "preempt", pool.preemptor, core(job)) == expected, project


def test_a_project_may_switch_off_what_the_policy_protects():
    pool = bench("cooldown", {"vision": 0, "policy": 10})
    job = pool.running("again", age=0, project="vision")
    job.last_eviction, job.pending_since = pool.state.now - 1, 0
    assert excluded_by(pool.state, "preempt", pool.preemptor, core(job)) is None


def test_the_graces_of_a_victim_are_those_of_its_project():
    pool = bench("grace", {"vision": 5, "train": 2})
    inside, outside = pool.running("inside", project="vision"), pool.running("outside")
    assert grace_by_policy(pool.state, inside) == 5 * MINUTE
    assert grace_by_policy(pool.state, outside) == 2 * MINUTE
    pool = bench("kill_after", {"lab": 1})
    assert term_after(pool.state, pool.running("job", project="vision"), 10 * MINUTE) == 9 * MINUTE


def test_a_project_states_for_how_long_it_may_not_borrow():
    projects = [{"name": "lab", "cooldown": {"project": "1h"}}, {"name": "vision", "parent": "lab"}, {"name": "web"}]
    pool = Bench(projects=projects, protections={"cooldown": {"project": "5m"}})
    note_reclaimed(pool.state, "web", ["vision"])
    note_reclaimed(pool.state, "vision", ["web"])
    assert may_borrow_at(pool.state, "vision") == pool.state.reclaimed_at["vision"] + HOUR
    assert may_borrow_at(pool.state, "web") == pool.state.reclaimed_at["web"] + 5 * MINUTE


def test_explain_names_the_field_that_holds():
    pool = bench("grace", {"lab": 5})
    text = " ".join(sentence.text for sentence in protections_of(pool.state, pool.running("job", project="vision")))
    assert "Its grace is 5m (projects.lab.grace)." in text
