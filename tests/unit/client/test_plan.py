"""`bailiff plan`: decisions for a snapshot, errors in a snapshot, and the preview of a job in a running pool."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, preemption_story, quiet_story
from tests.unit.client.plan_page import FILE, PAGE
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.client.errors import ExitCode
from bailiff.json_schemas import schemas
from bailiff_bus import topics
from bailiff_core.admission.submission import with_defaults
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, PreemptionRules, Project
from bailiff_core.plan import Planning, read_snapshot, run
from bailiff_core.plan.snapshot import DeviceDoc, JobDoc, NodeDoc, ProjectDoc
from bailiff_core.plan.snapshot_validation import validate_snapshot
from bailiff_core.records.nodes import DeviceInfo, NodeJoined
from bailiff_service.policy_files import policy_from

ROOT = Path(__file__).parents[3]
Plan = Callable[..., Any]

POOL: dict[str, Any] = {
    "now": "10h",
    "nodes": [{"name": "n1", "gpus": 8, "cpus": 64}],
    "jobs": [
        {"name": "night", "tasks": 2, "gpus": 4, "node": "n1", "submitted": "3h ago", "last_start": "1h ago"},
        {"name": "serve", "class": "interactive", "gpus": 8},
    ],
}


def plan(*arguments: str, text: str = "") -> Any:
    return CliRunner().invoke(app, ["plan", *arguments], input=text)


def faults(text: str) -> list[str]:
    found = plan("-", text=text)
    assert found.exit_code == ExitCode.USAGE, found.output
    return [line.removeprefix("bailiff: standard input:") for line in found.stderr.splitlines()[:-1]]


def states(report: Any, round_index: int = 0) -> dict[str, tuple[str, str | None]]:
    return {line["task"]: (line["after"]["state"], line["after"]["node"]) for line in report["rounds"][round_index]["tasks"]}


# --- input
# ruff: noqa: E501


@pytest.mark.slow
def test_a_snapshot_may_be_yaml_or_json_a_file_or_standard_input(tmp_path: Path) -> None:
    written = {"pool.yaml": yaml.safe_dump(POOL), "pool.json": json.dumps(POOL, indent="\t")}
    printed = []
    for name, text in written.items():
        (tmp_path / name).write_text(text)
        printed += [plan(str(tmp_path / name), "-o", "json").output, plan("-", "-o", "json", text=text).output]
    assert len(set(printed)) == 1
    assert states(json.loads(printed[0])) == {
        "night-0": ("evicted", "n1"),
        "night-1": ("evicted", "n1"),
        "serve-0": ("reserved", "n1"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes:\n- {name: n1, gpu: 8}", "2: nodes.0.gpu: no such field; did you mean gpus?"),
        ("nodes: []\njobs:\n- name: a\n  priorty: 3", "4: jobs.0.priorty: no such field; did you mean priority?"),
        (
            "nodes: []\npolicy:\n  protections:\n    cooldwn: {}",
            "4: policy.protections.cooldwn: no such field; did you mean cooldown?",
        ),
        ("jobs: []", "1: nodes: expected a value, found nothing"),
        ("[]", "1: snapshot: expected the fields of a snapshot (nodes, jobs, projects, policy, now), found a list of 0"),
        ('{"nodes": [\n {"name": "n1",\n  "gpus": -1}]}', "3: nodes.0.gpus: expected a whole number ≥ 0, found -1"),
        ("nodes: []\njobs:\n- {name: a, state: runing}", "3: jobs.0.state: expected 'pending', 'running', 'reserved', "),
        (
            "nodes: []\njobs:\n- {name: a, tasks: [{gpus: 1.5}]}",
            "3: jobs.0.tasks.0.gpus: expected whole GPUs such as 4, or a fraction",
        ),
        ("nodes: []\njobs:\n- {name: a, memory: 4 gigs}", "3: jobs.0.memory: '4 gigs' is not an amount of memory: write "),
        ("nodes: []\njobs:\n- {name: a, submitted: 1e99d}", "3: jobs.0.submitted: expected microseconds, a time such as "),
        (
            "nodes: []\nnow: 5s\njobs:\n- {name: a, submitted: 1h ago}",
            "4: jobs.0.submitted: '1h ago' lies before time 0: set `now` later",
        ),
        ("nodes: []\nprojects:\n- {name: a, quota: {gpu: 4}}", "3: projects.0.quota.gpu: no such field; did you mean gpus?"),
        (
            "nodes: []\njobs:\n- {name: a, sub_groups: [{name: x, min_task: 1}]}",
            "3: jobs.0.sub_groups.0.min_task: no such field; did you mean min_tasks?",
        ),
    ],
)
def test_a_fault_names_line_field_found_and_allowed(text: str, expected: str) -> None:
    assert faults(text)[0].startswith(expected)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ("- {name: a, node: n2}", "jobs.0.node: no node 'n2'; there are n1"),
        ("- {name: a, state: running}", "jobs.0.state: a running task has a node: give `node`"),
        (
            "- {name: a, node: n1, state: pending}",
            "jobs.0.node: a pending task has no node; to restrict where it may run, give `nodes`",
        ),
        ("- {name: a, gpus: 3, node: n1}", "jobs.0.node: node n1 has 2 GPUs, and too few are left for this running task"),
        ("- {name: a, cpus: 5, node: n1}", "jobs.0.node: node n1 is overcommitted: it has 4 cores, and its tasks take 5 cores"),
        (
            "- {name: a, gpus: 1, node: n1, devices: [0]}\n- {name: b, gpus: 1, node: n1, devices: 0}",
            "jobs.1.devices: device '0' of n1 is allocated whole to another task already",
        ),
        (
            "- {name: a, fraction: 0.6, node: n1, devices: [0]}\n- {name: b, fraction: 0.6, node: n1, devices: [0]}",
            "jobs.1.devices: device '0' of n1 is full: 60 % of it are taken",
        ),
        (
            "- {name: a, fraction: 0.6, node: n1, devices: [0]}\n- {name: b, gpus: 1, node: n1, devices: [0]}",
            "jobs.0.devices: device '0' of n1 is allocated whole to another task already",
        ),
        ("- {name: a, gpus: 1, node: n1, devices: [7]}", "jobs.0.devices: node n1 has no device '7'; there are 0, 1"),
        ("- {name: a, gpus: 2, node: n1, devices: [1]}", "jobs.0.devices: names 1 device, but the task takes 2"),
        ("- {name: a, gpus: 1, devices: [1]}", "jobs.0.devices: a pending task is on no device"),
        ("- {name: a, tasks: 2, min_tasks: 3}", "jobs.0.min_tasks: is 3, but the job has 2 tasks"),
        ("- {name: a}\n- {name: a}", "jobs.1.name: 'a' occurs twice"),
        ("- {name: a, tasks: [{name: x}, {name: x}]}", "jobs.0.tasks.1.name: two tasks are named 'x'"),
        ("- {name: a, class: trian}", "jobs.0.class: no priority class 'trian'; did you mean 'train'?"),
        ("- {name: a, class: train, priority: 3}", "jobs.0.priority: conflicts with class: give one of them"),
        ("- {name: a, project: x}", "jobs.0.project: no project 'x'; there are none"),
        ("- {name: a, gpus: 1, fraction: 0.5}", "jobs.0.fraction: conflicts with gpus: give one of them"),
        (
            "- {name: a, submitted: 2026-01-01T00:00:01Z}",
            "jobs.0.submitted: expected a time before `now`, 2026-01-01T00:00:00.000000Z; found 2026-01-01T00:00:01.000000Z",
        ),
        (
            "- {name: a, fraction: 0.5555}",
            "jobs.0.fraction: expected a fraction of a GPU from 0.1 to 1, or of several, as in 0.5 x 2, in steps of 0.001, found 0.5555",
        ),
        (
            "- {name: a, sub_groups: [{name: s, min_groups: 1}], sub_group: s}",
            "jobs.0.sub_groups.0.min_groups: 's' holds tasks and no sub-groups: write min_tasks",
        ),
        (
            "- {name: a, sub_groups: [{name: p, min_tasks: 1}, {name: s, parent: p}], sub_group: s}",
            "jobs.0.sub_groups.0.min_tasks: 'p' holds sub-groups and no tasks of its own: write min_groups",
        ),
        ("- {name: a, sub_group: x}", "jobs.0.sub_group: no sub-group 'x'; there are none"),
    ],
)
def test_inconsistent_jobs_are_rejected(jobs: str, expected: str) -> None:
    assert [line.partition(" ")[2] for line in faults(f"nodes: [{{name: n1, gpus: 2, cpus: 4}}]\njobs:\n{jobs}")] == [expected]


def test_cycles_and_missing_parents_of_projects_are_reported_with_their_line() -> None:
    expected = faults("nodes: []\nprojects:\n- {name: a, parent: b}\n- {name: b, parent: a}\n- {name: c, parent: d}")
    assert expected == [
        "3: projects.0.parent: a -> b -> a is a cycle",
        "4: projects.1.parent: b -> a -> b is a cycle",
        "5: projects.2.parent: there is no 'd'; there are a, b",
    ]


def test_duplicate_keys_and_invalid_json_are_reported_with_their_line(tmp_path: Path) -> None:
    assert faults('{"nodes": [],\n "nodes": []}') == ["2: nodes occurs twice"]
    file = tmp_path / "pool.json"
    file.write_text('{"nodes": [\n}')
    found = plan(str(file))
    assert (found.exit_code, f"{file}:2: not JSON" in found.stderr) == (ExitCode.USAGE, True)


def test_actions_must_be_known() -> None:
    found = plan("-", "--actions", "allocate,steal", text=yaml.safe_dump(POOL))
    assert found.exit_code == ExitCode.USAGE
    assert "expected some of allocate, consolidate, reclaim, preempt, stale-gang, found 'steal'" in found.stderr


# --- output


def test_actions_restrict_the_pass() -> None:
    found = json.loads(plan("-", "--actions", "allocate", "-o", "json", text=yaml.safe_dump(POOL)).output)
    assert states(found)["serve-0"] == ("pending", None)
    assert found["converged"] is True
    assert found["rounds"][0]["pending"][0]["reason"] == "needs a node with 8 free GPUs, no node has them"


def test_of_a_job_that_only_waits_behind_the_head_nothing_is_said_about_victims() -> None:
    classes = [DEFAULT_POLICY.find_class(name).to_data() for name in ("inference", "train")]  # type: ignore[union-attr]
    small = {"name": "small", "value": 10, "preemptible": False}
    runs = {"name": "runs", "class": "inference", "gpus": 3, "node": "n1"}
    pool = {
        "policy": {"priority_classes": [*classes, small]},
        "nodes": [{"name": "n1", "gpus": 4}],
        "jobs": [runs, {"name": "head", "gpus": 4}, {"name": "firm", "class": "small", "gpus": 1}],
    }
    found = json.loads(plan("-", "-o", "json", text=yaml.safe_dump(pool)).output)
    head, firm = found["rounds"][0]["pending"]
    delays = "it would delay head, which is first in the queue (policy field backfill: preemptible)"
    assert (firm["job"], firm["reason"]) == ("firm", delays)
    assert (bool(head.get("attempted_actions")), firm.get("attempted_actions", [])) == (True, [])


HELD_BACK = """
nodes: [{name: n0, gpus: 8}]
jobs:
  - {name: elastic, elastic: live, priority: 10, gpus: 1, submitted: 20h ago, last_start: 10m ago, min_tasks: 4,
     tasks: [{name: e, count: 4, node: n0}, {name: f, count: 4}]}
  - {name: head, priority: 90, gpus: 8, submitted: 10m ago, preemption_delay: 1h}
"""


def test_what_fits_and_would_delay_the_head_is_not_said_to_be_placed_next() -> None:
    found = json.loads(plan("-", "--rounds", "3", "--step", "600", "-o", "json", text=HELD_BACK).output)
    for report_round in found["rounds"][1:]:
        (reason,) = (line["reason"] for line in report_round["pending"] if line["job"] == "elastic")
        assert reason.startswith("it fits, but it is not started where that would delay the first job in the queue")
        assert "policy field backfill" in reason


def drained_pool(waits: dict[str, Any], **limits: Any) -> str:
    """Two drained nodes of 2 and 4 GPUs, and a busy one; the reason of the job that waits."""
    pool = {
        "nodes": [
            {"name": "n0", "gpus": 2, "drained": True},
            {"name": "n1", "gpus": 1},
            {"name": "n2", "gpus": 4, "drained": True, "labels": {"rack": "r2"}},
            {"name": "n3", "drained": True},
        ],
        "projects": [{"name": "p", "quota": {"gpus": 7}, **limits}],
        "jobs": [
            {"name": "runs", "project": "p", "gpus": 1, "node": "n1", "priority": 90},
            {"name": "waits", "project": "p", "priority": 60, **waits},
        ],
    }
    (line,) = json.loads(plan("-", "-o", "json", text=yaml.safe_dump(pool)).output)["rounds"][0]["pending"]
    return str(line["reason"])


AGAIN = "drained; to place tasks there again:"


@pytest.mark.parametrize(
    ("waits", "named"),
    [
        ({"gpus": 1, "nodes": ["n0"]}, f"it would fit with n0, which is {AGAIN} bailiff undrain n0"),
        ({"gpus": 3}, f"it would fit with n2, which is {AGAIN} bailiff undrain n2"),
        ({"gpus": 1, "node_labels": {"rack": "r2"}}, f"it would fit with n2, which is {AGAIN} bailiff undrain n2"),
        ({"gpus": 2, "tasks": 3}, f"it would fit with n0, n2, which are {AGAIN} bailiff undrain n0, bailiff undrain n2"),
        ({"gpus": 2, "tasks": 2}, f"it would fit with n2, which is {AGAIN} bailiff undrain n2"),
    ],
)
def test_who_waits_for_drained_nodes_is_told_which_to_undrain(waits: dict[str, Any], named: str) -> None:
    assert drained_pool(waits).endswith(f"; {named}")


@pytest.mark.parametrize(
    ("waits", "limits"),
    [
        ({"gpus": 8}, {}),  # fits nowhere
        ({"gpus": 1, "nodes": ["n1"]}, {}),  # wants another node
        ({"gpus": 1, "gpu_models": ["h100"]}, {}),
        ({"gpus": 1}, {"limit": {"gpus": 1}}),  # its project's limit
    ],
)
def test_who_would_not_start_on_drained_nodes_is_told_of_none(waits: dict[str, Any], limits: dict[str, Any]) -> None:
    assert "drained" not in drained_pool(waits, **limits)


ELASTIC = {"name": "wide", "gpus": 1, "min_tasks": 4, "submitted": "3h ago", "last_start": "10m ago"}


@pytest.mark.parametrize(
    ("elastic", "restart", "ends"),
    [(None, 480_000, ["moved"] * 4 + ["evicted"] * 4), ("live", 240_000, ["running"] * 4 + ["evicted"] * 4)],
)
def test_a_victim_shrinks_and_costs_what_it_would_live(elastic: str | None, restart: int, ends: list[str]) -> None:
    wide = {**ELASTIC, "tasks": 8, "node": "n1", **({"elastic": elastic} if elastic else {})}
    pool = {"now": "10h", "nodes": [{"name": "n1", "gpus": 8}], "jobs": [wide, {"name": "asks", "gpus": 4, "priority": 80}]}
    first, then = run(read_snapshot(pool), rounds=2).rounds
    (decision,) = first.decisions
    assert decision.victims[0]["restart_gpu_ms"] == restart
    assert [line.after.state for line in first.tasks if line.job == "wide"] == ends
    assert [line.after.state for line in then.tasks] == ["running"] * 4 + ["pending"] * 4 + ["running"]


def growing(**fields: Any) -> dict[str, Any]:
    tasks = [{"count": 4, "node": "n1"}, {"count": 4}]
    return {"now": "10h", "nodes": [{"name": "n1", "gpus": 8}], "jobs": [{**ELASTIC, "tasks": tasks, **fields}]}


def test_a_gang_that_restarts_to_grow_says_what_it_wins_and_loses() -> None:
    first, then = run(read_snapshot(growing()), rounds=2, step=60_000_000).rounds
    (decision,) = first.decisions
    assert (
        "it grows to 8 tasks: 4.0 GPU-h in 1h for a loss of 40.0 GPU-min of work and 4.0 GPU-min to restart (assumed)"
        in decision.reason
    )
    assert [line.after.state for line in first.tasks] == ["moved"] * 4 + ["reserved"] * 4
    assert {line.after.state for line in then.tasks} == {"running"}


def test_a_gang_that_may_not_restart_to_grow_yet_says_until_when() -> None:
    first, then = run(read_snapshot(growing(last_start="2m ago")), rounds=2, step=240_000_000).rounds
    (line,) = first.pending
    assert line.reason == "it does not restart to grow before 01-01 10:03:00 (policy field restarts.grow_after)"
    assert (first.decisions, "it grows to 8 tasks" in then.decisions[0].reason) == ((), True)


@pytest.mark.parametrize(
    ("project", "policy", "victim"),
    [({}, {}, True), ({"claims": {"non_preemptible": True}}, {}, False), ({}, {"claims": {"non_preemptible": True}}, False)],
)
def test_a_job_is_kept_from_eviction_only_by_a_claim_that_is_granted(
    project: dict[str, Any], policy: dict[str, Any], victim: bool
) -> None:
    pool = {
        "nodes": [{"name": "n1", "gpus": 1}],
        "projects": [{"name": "p", "quota": {"gpus": 1}, **project}],
        "policy": policy,
        "jobs": [
            {"name": "claims", "project": "p", "gpus": 1, "node": "n1", "preemptible": False},
            {"name": "asks", "project": "p", "gpus": 1, "class": "inference"},
        ],
    }
    assert bool(run(read_snapshot(pool)).rounds[0].decisions) is victim


def test_an_unhealthy_gpu_is_not_assigned() -> None:
    devices = [{"id": "a", "healthy": False}, {"id": "b"}]
    pool = {"nodes": [{"name": "n1", "devices": devices}], "jobs": [{"name": "one", "gpus": 1}, {"name": "two", "gpus": 2}]}
    found = run(read_snapshot(pool)).rounds[0]
    assert [line.after.devices for line in found.tasks] == [("b",), ()]


def test_a_backfilled_job_is_evicted_for_the_head_as_live() -> None:
    runs = {"name": "runs", "gpus": 2, "node": "n1", "submitted": "1h ago"}
    head = {"name": "head", "gpus": 2, "submitted": "2h ago"}
    for backfilled in (True, False):
        pool = {"now": "10h", "nodes": [{"name": "n1", "gpus": 2}], "jobs": [{**runs, "backfilled": backfilled}, head]}
        assert bool(run(read_snapshot(pool)).rounds[0].decisions) is backfilled


NOT_IN_A_PLAN = {  # fields of a submitted job: why a snapshot's job has none
    "kill_after": "how its eviction proceeds, not whether",
    "on_term": "the victims of a plan exit as preempted",
    "on_failure": "no job of a plan fails",
    "max_failures": "likewise",
    "restart_backoff": "likewise",
    "after": "a job that waits for others asks for nothing yet",
    "begin": "likewise, before its time",
    "ports": "of no effect on decisions",
    "checkpoint": "no node of a snapshot saves tasks",
    "checkpoint_every": "likewise",
    "snapshots": "likewise",
    "parking": "no node of a snapshot parks tasks",
}
RENAMED = {"job": "name", "cpu_milli": "cpus", "memory_bytes": "memory", "node": "name", "profile": "mig", "gpu_milli": "gpus"}
OF_A_REPORT = {"number", "incarnation", "machine_id", "boot_id", "report_number", "announced", "kind", "fault"}
OF_SUBMISSION_ALONE = {"checkpoint_store", "parent"}  # of nodes: only an admission reads the first, nothing the second


def test_a_snapshot_says_and_assumes_what_a_live_pool_does() -> None:
    """Every field of the live system that decisions read can be written in a snapshot, and left out means the same."""
    resolved = validate_snapshot(read_snapshot({"nodes": [], "jobs": [{"name": "j"}]}))
    assert resolved.policy == DEFAULT_POLICY.complete()
    default = DEFAULT_POLICY.find_class(None)
    assert default is not None
    submitted = with_defaults(DEFAULT_POLICY, JobDemand(job="j", tasks=(TaskGroup(),), priority_class=default.name))
    assert resolved.jobs[0].demand == submitted
    pairs = ((JobDemand, JobDoc), (Project, ProjectDoc), (NodeJoined, NodeDoc), (DeviceInfo, DeviceDoc))
    for live, written in pairs:
        lacking = {RENAMED.get(name, name) for name in live.model_fields} - set(written.model_fields)
        assert lacking <= {*NOT_IN_A_PLAN, *OF_A_REPORT, *OF_SUBMISSION_ALONE}, live
    for live, written in ((Project, ProjectDoc), (DeviceInfo, DeviceDoc), (NodeJoined, NodeDoc)):
        for name in live.model_fields.keys() & written.model_fields.keys() - {"model", "devices"}:
            field = live.model_fields[name]
            assert field.is_required() or field.get_default() == written.model_fields[name].get_default(), (live, name)


def test_rounds_converge_and_time_advances_by_the_step() -> None:
    found = json.loads(plan("-", "--rounds", "3", "--step", "60", "-o", "json", text=yaml.safe_dump(POOL)).output)
    assert [each["changed"] for each in found["rounds"]] == [True, False, False]
    assert [each["now"][11:16] for each in found["rounds"]] == ["10:00", "10:01", "10:02"]
    assert states(found, 1) == {"night-0": ("pending", None), "night-1": ("pending", None), "serve-0": ("running", "n1")}
    counts = [each["counts"] for each in found["rounds"]]
    assert counts[0] == {"placements": 0, "evictions": 2, "reservations": 1}
    assert counts[1] == counts[2] == {"placements": 0, "evictions": 0, "reservations": 0}


def test_a_victim_that_ends_when_evicted_is_gone() -> None:
    pool = {**POOL, "jobs": [{**POOL["jobs"][0], "on_eviction": "end"}, POOL["jobs"][1]]}
    report = run(read_snapshot(pool), rounds=3)
    after = [[line.after.state for line in each.tasks] for each in report.rounds]
    assert after == [["evicted", "evicted", "reserved"], ["gone", "gone", "running"], ["gone", "gone", "running"]]
    assert report.converged


def test_releasing_resources_can_be_reserved_and_stuck_ones_cannot() -> None:
    pool = {
        "nodes": [{"name": "n1", "gpus": 2}, {"name": "n2", "gpus": 2}],
        "jobs": [
            {"name": "going", "gpus": 2, "state": "releasing", "node": "n1"},
            {"name": "stuck", "gpus": 2, "state": "stuck_releasing", "node": "n2"},
            {"name": "next", "gpus": 2},
            {"name": "last", "gpus": 2, "submitted": "now"},
        ],
    }
    report = run(read_snapshot(pool), rounds=3)
    for each in report.rounds:
        assert [(line.task, line.after.state, line.after.node) for line in each.tasks] == [
            ("going-0", "releasing", "n1"),
            ("stuck-0", "stuck_releasing", "n2"),
            ("next-0", "pending", None),
            ("last-0", "reserved", "n1"),
        ]
        assert [(node.gpus_free, node.gpus_releasing, node.gpus_reserved) for node in each.nodes] == [(0, 2, 2), (0, 0, 0)]


def test_reserved_tasks_of_a_snapshot_start_when_their_resources_are_free() -> None:
    pool = {
        "nodes": [{"name": "n1", "gpus": 2}],
        "jobs": [{"name": "a", "gpus": 1, "state": "reserved", "node": "n1"}, {"name": "b", "gpus": 1}],
    }
    report = run(read_snapshot(pool), rounds=2)
    assert [[line.after.state for line in each.tasks] for each in report.rounds] == [
        ["reserved", "placed"],
        ["running", "running"],
    ]


def test_a_reservation_on_releasing_resources_does_not_expire() -> None:
    """Its resources are never released; time alone does not drop the reservation, so the plan converges."""
    pool = {
        "nodes": [{"name": "n1", "gpus": 2}],
        "jobs": [{"name": "going", "gpus": 2, "state": "releasing", "node": "n1"}, {"name": "next", "gpus": 2}],
    }
    report = run(read_snapshot(pool), rounds=3, step=7_200_000_000)
    assert [each.tasks[1].after.state for each in report.rounds] == ["reserved"] * 3
    assert report.converged


def test_ended_tasks_do_not_change() -> None:
    pool = {
        "nodes": [{"name": "n1", "gpus": 2}],
        "jobs": [
            {"name": "over", "tasks": [{"state": "succeeded"}, {"state": "failed"}]},
            {"name": "done", "state": "succeeded"},
            {"name": "half", "min_tasks": 1, "gpus": 1, "tasks": [{"state": "succeeded"}, {"node": "n1"}]},
        ],
    }
    report = run(read_snapshot(pool), rounds=2)
    for each in report.rounds:
        assert [line.after.state for line in each.tasks] == ["succeeded", "failed", "succeeded", "succeeded", "running"]
        assert (each.pending, each.changed) == ((), False)


def test_ageing_and_schedule_timeout_add_notes() -> None:
    pool = {
        "now": "10h",
        "nodes": [{"name": "n1", "gpus": 1}],
        "policy": {
            "protections": {"ageing": {"boost": 20, "waiting": "1h"}, "schedule_timeout": {"after": "2h", "action": "fail"}}
        },
        "jobs": [
            {"name": "runs", "gpus": 1, "node": "n1", "class": "build"},
            {"name": "old", "gpus": 1, "submitted": "90m ago"},
            {"name": "older", "gpus": 1, "submitted": "3h ago"},
        ],
    }
    found = run(read_snapshot(pool)).rounds[0]
    assert [note.partition(":")[0] for note in found.notes] == ["ageing", "ageing", "schedule-timeout", "older has failed"]
    assert [line.after.state for line in found.tasks] == ["running", "pending", "failed"]


def test_task_names_break_ties_in_text_order() -> None:
    """Tasks are placed in the order of their names, independent of their order in the file."""
    pool = {
        "nodes": [{"name": "n1", "gpus": 2}],
        "jobs": [{"name": "a", "gpus": 1, "min_tasks": 1, "tasks": [{"name": "w9"}, {"name": "w10"}, {"name": "w1"}]}],
    }
    tasks = run(read_snapshot(pool)).rounds[0].tasks
    assert {line.task: line.after.state for line in tasks} == {"w1": "placed", "w10": "placed", "w9": "pending"}


def test_history_fields_of_a_snapshot_set_the_state() -> None:
    pool = {
        "now": "10h",
        "nodes": [{"name": "n1", "gpus": 4}],
        "projects": [{"name": "a", "created": "2h ago"}],
        "reclaimed_at": {"a": "5m ago"},
        "jobs": [
            {"name": "j", "project": "a", "gpus": "4", "node": "n1", "priority": 120, "submitted": "9h", "last_start": "9h30m"}
        ],
    }
    pool["jobs"][0] |= {"gpus": 4, "last_start": "30m ago", "last_checkpoint": "10m ago", "evicted_at": ["3h ago", "2h ago"]}
    planning = Planning(read_snapshot(pool))
    job = planning.state.jobs["j"]
    minute = 60_000_000
    assert job.submitted_at == 540 * minute
    assert (job.last_start, job.last_checkpoint) == (570 * minute, 590 * minute)
    assert (job.eviction_times, job.evictions, job.last_eviction) == ([420 * minute, 480 * minute], 2, 480 * minute)
    assert (job.priority, job.class_name, job.preemptible) == (120, "priority-120", False)
    assert planning.state.reclaimed_at == {"a": 595 * minute}


def test_gpu_shares_are_assigned_to_devices_as_placement_does() -> None:
    pool = {
        "nodes": [{"name": "n1", "gpus": 3, "gpu_memory": "16GiB"}],
        "jobs": [
            {"name": "whole", "gpus": 1, "node": "n1"},
            {"name": "half", "fraction": 0.5, "node": "n1", "tasks": 2},
            {"name": "mib", "gpu_memory": "4GiB x 2", "node": "n1", "state": "pending", "nodes": "n1"},
        ],
    }
    del pool["jobs"][2]["node"]
    found = run(read_snapshot(pool)).rounds[0]
    where = {line.task: line.after.devices for line in found.tasks}
    assert where["half-0"] == where["half-1"] == ("1",)
    assert (found.tasks[3].after.state, found.tasks[3].after.devices) == ("pending", ())
    assert [(node.gpus_free, node.gpus) for node in found.nodes] == [(1, 3)]


@pytest.mark.slow
def test_the_same_snapshot_gives_the_same_bytes_under_any_hash_seed(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(POOL))
    command = [sys.executable, "-m", "bailiff", "plan", str(file), "--rounds", "3", "-o", "json"]
    found = {
        subprocess.run(
            command, check=True, capture_output=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


# --- schemas


@pytest.mark.slow
def test_the_published_schemas_are_current() -> None:
    for name, schema in schemas().items():
        assert json.loads((ROOT / "docs" / "schemas" / name).read_text()) == schema, f"{name} is out of date: make docs"
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.slow
def test_the_example_and_its_plan_match_the_schemas() -> None:
    known = schemas()
    text = dict(FILE.findall(PAGE.read_text()))["pool.yaml"]
    document = json.loads(json.dumps(yaml.safe_load(text), default=str))
    jsonschema.validate(document, known["snapshot.json"])
    report = json.loads(plan("-", "--rounds", "3", "-o", "json", text=text).output)
    jsonschema.validate(report, known["plan.json"])


def test_the_schema_accepts_short_forms_and_rejects_what_the_reader_rejects() -> None:
    validator = jsonschema.Draft202012Validator(schemas()["snapshot.json"])
    good = {
        "nodes": [{"name": "n1", "devices": [{"id": 0, "memory": "16GiB"}]}],
        "projects": [{"name": "a", "quota": {"gpus": 0.5}, "over_quota_weight": 2}],
        "jobs": [{"name": "j", "tasks": 3, "nodes": "n1", "stale_grace": "never", "gpu_memory": "1GiB x 2"}],
        "policy": {"backfill": "reserve"},
    }
    assert validator.is_valid(good), list(validator.iter_errors(good))
    assert read_snapshot(good).nodes[0].name == "n1"
    for bad in ({}, {"nodes": [{"name": "n1", "gpu": 1}]}, {"nodes": [], "jobs": [{"name": "j", "state": "gone"}]}):
        assert not validator.is_valid(bad)
        assert plan("-", text=json.dumps(bad)).exit_code == ExitCode.USAGE


# --- the running pool


@pytest.fixture
def log_writer() -> LogWriter:
    return LogWriter()


def requests(log_writer: LogWriter) -> list[Any]:
    """Messages of the requests topic."""
    partitions = range(topics.REQUESTS.partition_count(1))
    return [message for each in partitions for message in log_writer.cluster.messages(topics.REQUESTS.name, each)]


def command_for(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Run:
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(folder / "cache"))


def plan_live(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, file: Path, text: str, *options: str) -> Any:
    file.write_text(text)
    before = len(requests(log_writer))
    found = command_for(log_writer, monkeypatch, file.parent)("plan", "--live", str(file), *options)
    assert found.exit_code == ExitCode.DONE, found.output
    assert len(requests(log_writer)) == before
    return found.output


def test_live_plan_names_the_node_of_a_job_that_would_start(
    log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quiet_story(log_writer)
    expected = plan_live(log_writer, monkeypatch, tmp_path / "eval.yaml", "gpus: 2\n")
    assert expected.splitlines()[0] == "eval (2 GPUs) would start immediately on gpu-01; no job is preempted"
    assert expected.splitlines()[-1] == f"computed at pool-a#{log_writer.state.seq}; nothing was submitted"


def test_live_plan_names_victims_and_the_work_lost(
    log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quiet_story(log_writer)
    digest = repr(log_writer.state.jobs)
    expected = plan_live(log_writer, monkeypatch, tmp_path / "serve.yaml", "gpus: 4\ntasks: 3\nclass: interactive\n")
    assert expected.splitlines()[0] == "serve (3 × 4 GPUs) would run on gpu-01 × 2, gpu-02 by preempt; it would preempt:"
    assert expected.splitlines()[1].startswith("  train-7 (train 50): 4 GPUs; loses ")
    assert "returns to the queue" in expected
    assert repr(log_writer.state.jobs) == digest


def test_live_plan_explains_a_pending_job(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    preemption_story(log_writer)
    expected = plan_live(log_writer, monkeypatch, tmp_path / "late.yaml", "gpus: 8\n")
    assert "late (8 GPUs) would be pending" in expected
    data = json.loads(plan_live(log_writer, monkeypatch, tmp_path / "late.yaml", "gpus: 8\n", "-o", "json"))
    assert (data["outcome"], data["decision"]) == ("pending", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpus: 2\nname: train-7\n", "would be rejected: job 'train-7' exists already (running)"),
        ("gpus: 16\n", "would be rejected: even on the empty pool"),
        ("gpus: 1\nclass: royal\n", "would be rejected: there is no priority class 'royal'; the policy has inference"),
    ],
)
@pytest.mark.slow
def test_live_plan_names_the_reason_of_a_rejection(
    text: str, expected: str, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quiet_story(log_writer)
    assert expected in plan_live(log_writer, monkeypatch, tmp_path / "job.yaml", text)


# --- policies


def test_policy_diff_lists_the_changes(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = Project.model_validate({"name": "vision", "quota": {"gpus": 8}})
    log_writer.begin(DEFAULT_POLICY.model_copy(update={"projects": (before,)}))
    file = tmp_path / "policy.yaml"
    bailiff = command_for(log_writer, monkeypatch, tmp_path)
    shown = yaml.safe_load(bailiff("policy", "show", "-o", "yaml").output)
    document = shown.get("policy", shown)
    document["projects"] = [
        {"name": "vision", "quota": {"gpus": 4}},
        {"name": "speech", "quota": {"gpus": 4, "memory": "64GiB"}, "limit": {"gpus": -1}},
    ]
    document["preemption"]["search_steps"] = PreemptionRules().search_steps // 2
    document["budgets"] = [{"name": "month", "project": "vision", "gpu_hours": 100}]
    file.write_text(yaml.safe_dump(document))
    found = json.loads(bailiff("policy", "diff", str(file), "-o", "json").output)
    assert found["changes"] == [
        "preemption.search_steps: 20000 → 10000",
        "projects.vision.quota.gpu_milli: 8 GPUs → 4 GPUs",
        "projects.speech: new, quota 4 GPUs and 64GiB, limit unlimited GPUs, over quota weight 1",
        "budgets.month: new, project vision, gpu hours 100, warn at 80, at limit lowest-class",
    ]
    assert len(requests(log_writer)) == 0


def test_policy_faults_in_the_project_tree_have_their_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "priority_classes:\n- {name: a, value: 1, preemptible: true, global_default: true}\n"
        "projects:\n- {name: x, parent: y}\n- {name: y, parent: x, quota: {gpu: 1}}\n"
    )
    expected = CliRunner().invoke(app, ["policy", "check", str(file)]).stderr
    assert f"{file}:4: projects.0.parent: x -> y -> x is a cycle" in expected
    assert f"{file}:5: projects.1.quota.gpu: no such field; did you mean gpus?" in expected


@pytest.mark.slow
def test_policy_apply_enforce_sets_the_flag_in_the_request(
    log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log_writer.begin()
    file = tmp_path / "policy.yaml"
    bailiff = command_for(log_writer, monkeypatch, tmp_path)
    file.write_text(bailiff("policy", "show", "-o", "yaml").output)
    found = json.loads(bailiff("policy", "apply", str(file), "--enforce", "-o", "json").output)
    assert found["enforce"] is True
    bodies = [json.loads(message.value) for message in requests(log_writer)]
    assert [body["enforce"] for body in bodies] == [True]


def test_policy_faults_have_a_text_each() -> None:
    classes = [{"name": "a", "value": "high", "preemptible": False}]
    _, faults = policy_from({"priority_classes": classes, "projects": [{"name": "p", "quota": {"gpus": "two"}}]})
    expected = {".".join(map(str, place)): found_text for place, found_text in faults}
    assert expected["priority_classes.0.value"] == 'expected a whole number, found "high"'
    assert expected["projects.0.quota.gpus"] == "expected a number such as 4 or 0.5, or -1 for no bound; found 'two'"
    assert all(expected.values())


def test_a_partly_placed_victim_loses_its_placed_tasks() -> None:
    tasks = [{"name": "t", "count": 3, "node": "n"}, {"name": "s", "count": 5}]
    grown = {"name": "grown", "gpus": 1, "min_tasks": 3, "tasks": tasks}
    snapshot = {"nodes": [{"name": "n", "gpus": 3}], "jobs": [grown, {"name": "asks", "class": "inference", "gpus": 3}]}
    found = json.loads(plan("-", "-o", "json", text=json.dumps(snapshot)).output)
    (victim,) = found["rounds"][0]["decisions"][0]["victims"]
    assert (victim["gpus"], victim["tasks"]) == (3, "")
