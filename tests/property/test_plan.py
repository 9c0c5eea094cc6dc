"""Random snapshots, planned round by round: the invariants of every round are checked from the report alone."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kits.examples import examples

from bailiff_core.plan import InvalidSnapshot, Planning, PlanReport, Round, read_snapshot, run
from bailiff_core.views import VictimView

ROUNDS = 25
ON_A_NODE = ("running", "placed", "evicted", "releasing", "stuck_releasing")
NODES = ("n1", "n2", "n3")
PROJECTS = ("a", "b", "c")
KINDS: tuple[dict[str, Any], ...] = (
    {"gpus": 1},
    {"gpus": 2},
    {"fraction": 0.5},
    {"fraction": "0.3 x 2"},
    {"gpu_memory": "20GiB"},
)


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    """Three small nodes, three projects or none, up to eight jobs of which some run."""
    nodes = [{"name": name, "gpus": draw(st.integers(1, 4)), "cpus": 16} for name in NODES]
    with_projects = draw(st.booleans())
    projects = [
        {
            "name": name,
            "quota": {"gpus": draw(st.integers(0, 5))},
            "over_quota_weight": draw(st.integers(0, 3)),
            "parent": draw(st.sampled_from([None, "a"])) if name == "c" else None,
        }
        for name in PROJECTS
    ]
    jobs = []
    left = {node["name"]: Fraction(node["gpus"]) for node in nodes}
    for number in range(draw(st.integers(2, 8))):
        count = draw(st.integers(1, 4))
        job: dict[str, Any] = {
            "name": f"j{number}",
            "priority": draw(st.sampled_from([10, 50, 75, 120])),
            "min_tasks": draw(st.integers(1, count)),
            "elastic": draw(st.sampled_from(["restart", "live"])),
            "submitted": f"{draw(st.integers(0, 5))}h ago",
            "tasks": count,
            "cpus": draw(st.integers(0, 1)),
        }
        job |= draw(st.sampled_from(KINDS))
        node = draw(st.sampled_from(NODES))
        each = share(job) * (job["gpus"] if "gpus" in job else 2 if "x" in str(job.get("fraction")) else 1)
        if draw(st.integers(0, 3)) and each * count <= left[node]:
            left[node] -= each * count
            job["node"] = node
            job["state"] = draw(st.sampled_from(["running", "running", "running", "releasing", "reserved"]))
        if with_projects:
            job["project"] = draw(st.sampled_from(PROJECTS))
        jobs.append(job)
    preemption = {
        "max_migrations": draw(st.sampled_from([0, 1, None])),
        "scope": draw(st.sampled_from([None, "pool", "project"])),
    }
    policy = {"preemption": preemption, "backfill": draw(st.sampled_from(["greedy", "reserve", "preemptible"]))}
    return {"nodes": nodes, "projects": projects if with_projects else [], "jobs": jobs, "policy": policy}


def planned(document: Mapping[str, Any], rounds: int) -> PlanReport | None:
    """The plan, or `None` if the random snapshot is invalid."""
    try:
        return run(read_snapshot(document), rounds=rounds, step=60_000_000)
    except InvalidSnapshot:
        return None


@examples(25)
@given(snapshots())
def test_every_plan_settles_and_keeps_its_invariants(document: dict[str, Any]) -> None:
    settles_and_keeps_its_promises(document)


@pytest.mark.long
@settings(max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots())
def test_many_more_plans_settle_and_keep_their_invariants(document: dict[str, Any]) -> None:
    settles_and_keeps_its_promises(document)


def settles_and_keeps_its_promises(document: Mapping[str, Any]) -> None:
    report = planned(document, ROUNDS)
    if report is None:
        return
    jobs = {job["name"]: job for job in document["jobs"]}
    for found in report.rounds:
        nothing_is_over_full(document, found)
        gangs_are_whole(jobs, found)
        victims_may_be_taken(jobs, found, backfills=document["policy"].get("backfill") == "preemptible")
        counts_add_up(found)
        whoever_waits_has_a_reason(found)
    assert report.converged, "it does not converge"


def nothing_is_over_full(document: Mapping[str, Any], found: Round) -> None:
    """No device is over-allocated, by running or by reserved tasks."""
    jobs = {job["name"]: job for job in document["jobs"]}
    for states in (ON_A_NODE, ("running", "placed", "reserved", "moved", "stuck_releasing")):
        used: dict[tuple[str, str], Fraction] = {}
        for line in found.tasks:
            if line.after.state not in states:
                continue
            assert line.after.node is not None
            at = line.before if line.after.state == "moved" and states is ON_A_NODE else line.after
            for device in at.devices:
                used[str(at.node), device] = used.get((str(at.node), device), Fraction(0)) + share(jobs[line.job])
        assert all(amount <= 1 for amount in used.values()), used


def share(job: Mapping[str, Any]) -> Fraction:
    if "gpus" in job:
        return Fraction(1)
    return Fraction(1, 4) if "gpu_memory" in job else Fraction(str(job["fraction"]).partition(" ")[0])


def gangs_are_whole(jobs: Mapping[str, Any], found: Round) -> None:
    """A placed or reserved job has its minimum of tasks, or had fewer before."""
    for name, job in jobs.items():
        lines = [line for line in found.tasks if line.job == name]
        newly = [line for line in lines if line.after.state in ("placed", "reserved") and line.before.state == "pending"]
        there = [line for line in lines if line.after.state in ("running", "placed", "reserved", "moved")]
        assert not newly or len(there) >= job["min_tasks"], name
        left = [line for line in lines if line.after.state in ("evicted", "moved")]
        stays = [line for line in lines if line.after.state in ("running", "placed")]
        assert not left or not stays or len(stays) >= job["min_tasks"], name


def victims_may_be_taken(jobs: Mapping[str, Any], found: Round, *, backfills: bool) -> None:
    for decision in found.decisions:
        for victim in decision.victims:
            assert jobs[victim["job"]]["priority"] < 100, "not preemptible"
            if decision.action == "preempt":
                more = jobs[decision.job]["priority"] - jobs[victim["job"]]["priority"]
                assert more > 0 or (backfills and more == 0), "only what was started by backfill is evicted by its equals"
            if decision.action == "reclaim" and not victim["to"]:
                assert jobs[victim["job"]]["project"] != jobs[decision.job]["project"]
            if decision.action == "consolidate":
                assert victim["to"]


def tasks_of(found: Round, victim: VictimView) -> list[str]:
    """The names of the tasks that it stops: all, unless the job changes its size live."""
    return [line.task for line in found.tasks if line.job == victim["job"]]


def counts_add_up(found: Round) -> None:
    """Victims with resources are those shown as evicted or moved, except stale gangs and those that restart to grow."""
    shown = {line.task for line in found.tasks if line.after.state in ("evicted", "moved")}
    victims = [victim for line in found.decisions for victim in line.victims if victim["effect"] != "loses its reservation"]
    named = {task for victim in victims for task in tasks_of(found, victim)}
    stale = {task for line in found.decisions if line.action in ("stale-gang", "allocate") for task in line.tasks}
    assert shown <= named | stale
    assert found.counts.evictions == len(shown)
    totals = [(node.gpus, node.gpus_free) for node in found.nodes]
    assert all(0 <= idle <= gpus for gpus, idle in totals)


def whoever_waits_has_a_reason(found: Round) -> None:
    reasons = {line.job: line.reason for line in found.pending}
    leaving = {line.job for line in found.tasks if line.after.state in ("evicted", "moved", "releasing", "stuck_releasing")}
    for line in found.tasks:
        if line.after.state == "pending" and line.job not in leaving:
            assert reasons[line.job], line.job


@examples(25)
@given(snapshots())
def test_a_plan_gives_the_same_report_twice(document: dict[str, Any]) -> None:
    assert planned(document, 3) == planned(document, 3)


@examples(25)
@given(snapshots())
def test_a_plan_continues_from_a_round_as_from_its_snapshot(document: dict[str, Any]) -> None:
    """Sums updated while decisions are enacted equal recomputed ones."""
    try:
        planning = Planning(read_snapshot(document))
    except InvalidSnapshot:
        return
    for _ in range(3):
        planning.round()
        for node in planning.state.nodes.values():
            held = sum(
                group.cpu_milli
                for job in planning.state.active_jobs()
                for task in job.tasks
                if task.node == node.number and task.state not in ("reserved", "released")
                for group in [job.groups()[task.index]]
            )
            assert node.allocated.cpu_milli == held
