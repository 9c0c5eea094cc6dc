"""Which rule shields which job from `asks`, an interactive job: each rule on, off, and at the moment at which it ends."""

from typing import Any

import pytest
from tests.kits.pools import core, pool, surplus

from bailiff_core.model.state import PoolState
from bailiff_core.protections import RULES, VictimSetTests, excluded_by

ALL = ("consolidate", "reclaim", "preempt")
LAB = "lab: quota 8; vision: quota 2, under lab; speech: quota 2, under lab; web: quota 4"
POOL = {"preemption": {"scope": "pool", "quota_shields": False}}


def within(protections: dict[str, Any], **policy: Any) -> dict[str, Any]:
    return {"policy": {"protections": protections, **policy}}


# About the pool and its policy; the jobs; and the rule that shields each of them, under preempt or the action that is named.
# `x surplus`: the last task of an elastic job alone, instead of the whole job.
Row = tuple[dict[str, Any], str, str]
SHIELDS: dict[str, Row] = {
    "without protections every preemptible job of lower priority may be a victim": (
        {},
        "x: train, 1 gpu, on a; y: 1 gpu, priority 74, preemptible, on a; z: 1 gpu, priority 75, preemptible, on a",
        "x: -; y: -; z: lower-priority-only; consolidate z: -",
    ),
    "a job that is being evicted is no victim again, but other tasks of it are": (
        {},
        (
            "x: train, 1 gpu, releasing on a; y: {is: 'train, 1 gpu, min 1', tasks: [{count: 2, node: a, state: running},"
            " {count: 1, node: a, state: releasing}]}"
        ),
        "x: already-evicting; y surplus: already-evicting; y: -",
    ),
    "a reservation is taken only by a job that may preempt its owner": (
        {},
        "x: train, 1 gpu, reserved on a; y: interactive, 1 gpu, reserved on a",
        "x: -; y: reserved; consolidate x: reserved",
    ),
    "jobs that are not preemptible and their surplus are shielded under every action": (
        {},
        "x: train, 2 x 1 gpu, min 1, not preemptible, on a",
        "".join(f"{action} x: not-preemptible; {action} x surplus: not-preemptible; " for action in ALL),
    ),
    "preempt stays in its project unless the scope is the pool": (
        {"projects": LAB},
        "asks: interactive, 1 gpu, in vision; x: train, 1 gpu, in web, on a; y: train, 1 gpu, in vision, on a",
        "x: scope; y: -; reclaim y: own-project; consolidate y: -",
    ),
    "with the scope pool, quota-shields protects jobs of others within their quota": (
        {"projects": LAB, "policy": {"preemption": {"scope": "pool"}}},
        "asks: interactive, 1 gpu, in vision; x: train, 1 gpu, in web, on a; y: train, 1 gpu, in vision, on a",
        "x: quota-shields; y: -",
    ),
    "quota-shields can be switched off": (
        {"projects": LAB, "policy": POOL},
        "asks: interactive, 1 gpu, in vision; x: train, 1 gpu, in web, on a",
        "x: -",
    ),
    "where a project is beyond its quota, any of its jobs may be the one": (
        {"projects": LAB, "policy": {"preemption": {"scope": "pool"}}},
        "asks: interactive, 1 gpu, in web; x: train, 2 gpus, in vision, on a; y: train, 1 gpu, in vision, on a",
        "x: -; y: -",
    ),
    "without projects the scope is the pool": ({}, "x: train, 1 gpu, on a", "x: -"),
    "excluded jobs carry all labels of an entry": (
        within({"excluded": [{"team": "audit", "tier": "gold"}, {"pinned": "yes"}]}),
        (
            "one: train, 1 gpu, on a, team=audit; both: train, 1 gpu, on a, team=audit, tier=gold;"
            " pin: train, 1 gpu, on a, pinned=yes"
        ),
        "one: -; both: excluded; consolidate pin: excluded",
    ),
    "min-runtime ends to the microsecond": (
        within({"min_runtime": {"preempt": "10m"}}),
        "x: train, 1 gpu, on a, submitted 599999999us ago; y: train, 1 gpu, on a, submitted 10m ago",
        "x: min-runtime; y: -",
    ),
    "a minimum run time of one microsecond is one": (
        within({"min_runtime": {"preempt": "1us"}}),
        "x: train, 1 gpu, on a; y: train, 1 gpu, on a, submitted 1us ago",
        "x: min-runtime; y: -",
    ),
    "min-runtime is separate for each action; the longer of the others is that of consolidate": (
        {"projects": LAB, **within({"min_runtime": {"reclaim": "10m"}}, **POOL)},
        "asks: interactive, 1 gpu, in web; x: train, 1 gpu, in vision, on a, submitted 1m ago",
        "consolidate x: min-runtime; reclaim x: min-runtime; preempt x: -",
    ),
    "min-runtime of consolidate may be shorter": (
        within({"min_runtime": {"preempt": "10m", "consolidate": "1m"}}),
        "x: train, 1 gpu, on a, submitted 1m ago; y: train, 1 gpu, on a, submitted 59s ago",
        "consolidate x: -; preempt x: min-runtime; consolidate y: min-runtime",
    ),
    "higher-priority shields what has more from moves only": (
        {},
        "asks: train, 1 gpu; x: interactive, 1 gpu, on a; y: train, 1 gpu, on a",
        "consolidate x: higher-priority; consolidate y: -; preempt x: lower-priority-only",
    ),
    "higher-priority is off where the policy says so": (
        {"policy": {"preemption": {"move_higher_priority": True}}},
        "asks: train, 1 gpu; x: interactive, 1 gpu, on a",
        "consolidate x: -",
    ),
    "payback shields from moves what loses more than the preemptor gains": (
        {},
        "asks: interactive, 1 gpu; x: train, 1 gpu, on a, submitted 59m ago; y: train, 1 gpu, on a, submitted 60m ago",
        "consolidate x: -; consolidate y: payback; preempt y: -",
    ),
    "quota-shields hold for moves with any scope, where the preemptor would only borrow": (
        {"projects": LAB, "policy": {"preemption": {"actions": ["allocate", "consolidate"]}}},
        "asks: interactive, 5 gpus, in web; x: train, 1 gpu, in vision, on a",
        "consolidate x: quota-shields; preempt x: scope",
    ),
    "min-runtime shields no surplus and no reservation": (
        within({"min_runtime": {"preempt": "10m"}}),
        "x: train, 2 x 1 gpu, min 1, on a; y: train, 1 gpu, reserved on a",
        "x: min-runtime; x surplus: -; y: -",
    ),
    "eviction-cap counts the evictions within its window": (
        within({"eviction_cap": {"evictions": 2, "window": "1h"}}),
        (
            "x: {is: 'train, 1 gpu, on a', evicted_at: [2h ago, 59m ago]};"
            " y: {is: 'train, 1 gpu, on a', evicted_at: [59m ago, 1m ago]};"
            " z: {is: 'train, 1 gpu, on a', evicted_at: [60m ago, 1m ago]}"
        ),
        "x: -; y: eviction-cap; consolidate y: eviction-cap; z: -",
    ),
    "eviction-cap shields neither surplus nor reservations": (
        within({"eviction_cap": {"evictions": 1, "window": "1h"}}),
        "x: train, 2 x 1 gpu, min 1, on a, evicted 1m ago; y: train, 1 gpu, reserved on a, evicted 1m ago",
        "x: eviction-cap; x surplus: -; y: -",
    ),
    "eviction-cap can be off": ({}, "x: train, 1 gpu, on a, evicted 1m ago", "x: -"),
    "cooldown counts from the start after an eviction, and covers surplus": (
        within({"cooldown": {"job": "5m"}}),
        (
            "x: train, 2 x 1 gpu, min 1, on a, submitted 2h ago, evicted 1h ago, started 299999999us ago;"
            " y: train, 1 gpu, on a, submitted 2h ago, evicted 1h ago, started 5m ago; z: train, 1 gpu, on a"
        ),
        "x: cooldown; x surplus: cooldown; y: -; z: -",
    ),
    "a reservation after an eviction is not cooling down": (
        within({"cooldown": {"job": "5m"}}),
        "x: train, 1 gpu, reserved on a, submitted 1h ago, evicted 1m ago",
        "x: -",
    ),
    "a budget counts evictions in progress, in its group": (
        within({"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]}),
        "x: train, 1 gpu, on a, app=web; leaves: train, 1 gpu, releasing on a, app=web; other: train, 1 gpu, on a",
        "x: budget; other: -",
    ),
    "a budget of no disruptions shields neither surplus nor reservations": (
        within({"budgets": [{"name": "all", "max_disruptions": 0}]}),
        "x: train, 2 x 1 gpu, min 1, on a; y: train, 1 gpu, reserved on a",
        "x: budget; x surplus: -; y: -",
    ),
    "a budget of a project covers what lies below it": (
        {"projects": LAB, **within({"budgets": [{"name": "lab", "project": "lab", "max_disruptions": 0}]})},
        "asks: interactive, 1 gpu; x: train, 1 gpu, in vision, on a; y: train, 1 gpu, in web, on a",
        "reclaim x: budget; reclaim y: -",
    ),
    "one budget that is used up is enough": (
        within(
            {
                "budgets": [
                    {"name": "web", "labels": {"app": "web"}, "max_disruptions": 0},
                    {"name": "fast", "labels": {"tier": "fast"}, "max_disruptions": 0},
                ]
            }
        ),
        "x: train, 1 gpu, on a, app=web; y: train, 1 gpu, on a, tier=fast; z: train, 1 gpu, on a, app=web, tier=fast",
        "x: budget; y: budget; z: budget",
    ),
    "the first rule in order is named": (
        within({"excluded": [{"a": "b"}], "min_runtime": {"preempt": "10m"}}),
        (
            "w: 1 gpu, priority 75, not preemptible, on a, a=b; x: 1 gpu, priority 75, preemptible, on a, a=b;"
            " y: train, 1 gpu, on a, a=b; z: train, 1 gpu, on a"
        ),
        "w: not-preemptible; x: lower-priority-only; y: excluded; z: min-runtime",
    ),
}


def shielded(state: PoolState, who: str) -> str:
    """The rule's name, `-` for none. who: `[action] job [surplus]`."""
    words = who.split()
    action = words.pop(0) if words[0] in ALL else "preempt"
    job = state.jobs[words[0]]
    unit = surplus(job) if words[1:] == ["surplus"] else core(job)
    return excluded_by(state, action, state.jobs["asks"], unit) or "-"  # type: ignore[arg-type]


@pytest.mark.parametrize("sentence", SHIELDS)
def test_shields(sentence: str) -> None:
    about, jobs, expected = SHIELDS[sentence]
    state = pool(jobs if jobs.startswith("asks:") else f"asks: interactive, 1 gpu; {jobs}", **about)
    wanted = dict(part.strip().split(": ") for part in expected.split(";") if part.strip())
    assert {who: shielded(state, who) for who in wanted} == wanted


# Which sets of jobs may not be evicted together, though each of them may be.
SETS: dict[str, tuple[dict[str, Any], str, list[tuple[str, str]]]] = {
    "a budget bounds a set as a whole, without surplus and reservations": (
        within({"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]}),
        (
            "asks: interactive, 1 gpu; x: train, 1 gpu, on a, app=web; y: train, 1 gpu, on a, app=web;"
            " e: train, 2 x 1 gpu, min 1, on a, app=web; r: train, 1 gpu, reserved on a, app=web"
        ),
        [("x", ""), ("x, y", "budget 'web' allows 1 disruption"), ("x, e surplus, r", "")],
    ),
    "quota-shields bounds what a set may take from a project": (
        {"projects": LAB, "policy": {"preemption": {"scope": "pool"}}},
        "asks: interactive, 1 gpu, in web; x: train, 2 gpus, in vision, on a; y: train, 1 gpu, in vision, on a",
        [("x", ""), ("y", ""), ("x, y", "project vision would lose more than it uses beyond its quota"), ("reclaim x, y", "")],
    ),
    "of a budget and a quota that a set violates, the budget is named": (
        {"projects": LAB, **within({"budgets": [{"name": "all", "max_disruptions": 1}]}, preemption={"scope": "pool"})},
        (
            "asks: interactive, 1 gpu, in vision; x: train, 2 gpus, in web, on a; y: train, 2 gpus, in web, on a;"
            " z: train, 2 gpus, in web, on a"
        ),
        [("x", ""), ("x, y", "budget 'all' allows 1 disruption")],
    ),
}


@pytest.mark.parametrize("sentence", SETS)
def test_sets_of_victims(sentence: str) -> None:
    about, jobs, rows = SETS[sentence]
    state = pool(jobs, **about)
    for who, expected in rows:
        action = "reclaim" if who.startswith("reclaim ") else "preempt"
        names = [name.split() for name in who.removeprefix("reclaim ").split(", ")]
        units = [surplus(state.jobs[name]) if rest else core(state.jobs[name]) for name, *rest in names]
        found = VictimSetTests(state, action, state.jobs["asks"]).violation(units) or ""  # type: ignore[arg-type]
        assert found.startswith(expected) if expected else not found, who


def test_every_rule_has_its_own_name_and_completes_the_phrase_a_job_that() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES) == 19
    assert all(
        rule.predicate.split()[0] in ("is", "does", "has", "was", "belongs", "preempted", "restarted", "would") for rule in RULES
    )
