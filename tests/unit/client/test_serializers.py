"""Serialized rows of jobs, nodes, pools and policy: the format that programs rely on."""

import io
import json
from typing import Any

import pytest
import yaml
from rich.console import Console
from tests.kits.builders import group
from tests.kits.log_builder import GIB
from tests.kits.story_script import play
from tests.unit.client.kit import MINUTE, SECOND, LogWriter, finished_story, preemption_story, quiet_story

from bailiff.cli.session import Output, as_text
from bailiff.render.record_text.lines import lines
from bailiff.render.serializers.job_details import job_details
from bailiff.render.serializers.jobs import JobRow, job_order, job_rows
from bailiff.render.serializers.nodes import node_rows
from bailiff.render.serializers.policy import policy_in_force
from bailiff.render.serializers.pools import pool_row
from bailiff.render.serializers.times import moment
from bailiff.render.serializers.victims import affected_by
from bailiff.tables.job_columns import jobs_text
from bailiff.tables.jobs import job_block
from bailiff.tables.nodes import nodes_table
from bailiff_core.model.state import Drain
from bailiff_core.records import facts
from bailiff_core.views import chosen_victim


def rows(log_writer: LogWriter, *, ended: bool = False) -> dict[str, JobRow]:
    names = job_order(log_writer.state, ended=ended)
    return {row["job"]: row for row in job_rows(log_writer.state, log_writer.now + 5 * SECOND, names)}


def test_jobs_are_in_queue_order_and_ended_jobs_last(log_writer: LogWriter) -> None:
    assert list(rows(log_writer)) == ["serve-2", "train-7", "train-8", "train-9"]
    assert list(rows(log_writer, ended=True)) == ["serve-2", "train-7", "train-8", "train-9", "done-1"]


def test_job_rows_have_state_note_and_times(log_writer: LogWriter) -> None:
    found = rows(log_writer, ended=True)
    assert [found[job]["state"] for job in ("serve-2", "train-8", "train-9", "done-1")] == [
        "reserved",
        "evicting",
        "pending",
        "succeeded",
    ]
    assert found["serve-2"]["note"] == "waiting for train-7, train-8"
    assert found["train-8"]["note"] == "preempted by serve-2"
    assert (found["train-9"]["jobs_ahead"], found["train-9"]["pending_s"], found["train-9"]["running_s"]) == (0, 5, None)
    assert (found["train-7"]["running_s"], found["train-7"]["pending_s"]) == (245, None)
    assert found["done-1"]["running_s"] == 60
    assert found["serve-2"]["nodes"] == ["gpu-01", "gpu-02"]
    assert found["train-7"]["submitted_at"] == "2026-11-21T12:01:00Z"


def test_pending_time_counts_from_the_last_eviction() -> None:
    log_writer = preemption_story(LogWriter())
    log_writer.after(MINUTE).evict("train-8")
    evicted_at = log_writer.state.jobs["train-8"].last_eviction
    assert evicted_at is not None
    row = rows(log_writer)["train-8"]
    assert (row["state"], row["evictions"]) == ("pending", 1)
    assert row["pending_s"] == (log_writer.now + 5 * SECOND - evicted_at) // SECOND


def test_pending_time_counts_from_the_last_failure() -> None:
    story = play("node n1: 4 gpus; runs train: 4 gpus, max_failures 1; +1m; ends train 3")
    (row,) = job_rows(story.state, story.state.now + SECOND)
    assert (row["state"], row["failures"], row["pending_s"]) == ("pending", 1, 1)
    assert row["pending_since"] != row["submitted_at"]


def test_cancelling_and_suspended_are_states(log_writer: LogWriter) -> None:
    log_writer.state.jobs["train-9"].suspended_reason = "KeyError: 3"
    log_writer.state.jobs["train-7"].cancelled = True
    found = rows(log_writer)
    assert (found["train-9"]["state"], found["train-7"]["state"]) == ("suspended", "cancelling")
    assert found["train-9"]["note"] == "decision failed: KeyError: 3"


def test_a_pending_job_has_its_reason(log_writer: LogWriter) -> None:
    job = log_writer.state.jobs["train-9"]
    history = [record for record in log_writer.records if "train-9" in str(record.data)]
    found = job_details(log_writer.state, job, log_writer.now, history, [])
    assert found["pending_reason"] is not None
    assert found["pending_reason"].startswith("needs ")
    assert found["pending_reason_seq"] == history[-1].seq
    assert found["pending_reason_at"] == moment(history[-1].time), "the reason carries the time at which it was true"


def test_details_of_a_victim(log_writer: LogWriter) -> None:
    found = job_details(log_writer.state, log_writer.state.jobs["train-8"], log_writer.now, [], ["an event"])
    assert found["summary"]["eviction"] == {
        "decided_seq": 21,
        "cause": "preemption",
        "for_job": "serve-2",
        "stage": "decided",
        "started_at": None,
        "deadline": None,
        "grace_s": 150,
        "stuck": False,
    }
    assert found["task_list"] == [
        {
            "task": 0,
            "node": "gpu-01",
            "devices": [0, 1, 2, 3],
            "state": "running",
            "exit_code": None,
            "started_at": "2026-11-21T12:02:00Z",
            "stage": "",
            "step": None,
            "checkpoint_step": None,
            "checkpoint_at": None,
            "resumed_step": None,
        }
    ]
    assert found["events"] == ["an event"]
    assert job_details(log_writer.state, log_writer.state.jobs["serve-2"], log_writer.now, [], [])["victims"] == [
        "train-7",
        "train-8",
    ]


def test_node_rows_have_allocations_and_reservations(log_writer: LogWriter) -> None:
    one, two = node_rows(log_writer.state)
    assert (one["node"], one["gpus"], one["gpus_free"], one["gpus_releasing"], one["gpus_reserved"]) == ("gpu-01", 8, 0, 4, 4)
    assert {device["job"] for device in one["devices"]} == {"train-8", None}
    assert {device["reserved_for"] for device in one["devices"]} == {"serve-2"}
    assert (two["gpus_free"], two["gpus_releasing"], two["gpu_models"]) == (0, 4, ["A100-40GB"])
    assert (two["cpu_milli"], two["cpu_milli_free"]) == (64_000, 62_000)


def test_a_node_that_is_not_ready_has_no_free_gpus() -> None:
    log_writer = quiet_story(LogWriter())
    log_writer.cycle(facts.NodeUnreachable(node="gpu-02", last_contact=log_writer.now))
    one, two = node_rows(log_writer.state)
    assert (one["gpus_free"], two["gpus_free"], two["state"]) == (8, 0, "unreachable")


def test_node_names_sort_numerically() -> None:
    log_writer = LogWriter()
    log_writer.begin()
    for name in ("gpu-10", "gpu-9", "cpu", "1"):
        log_writer.node(name, gpus=0)
    assert [row["node"] for row in node_rows(log_writer.state)] == ["1", "cpu", "gpu-9", "gpu-10"]


def test_pools(log_writer: LogWriter) -> None:
    row = pool_row(log_writer.state, log_writer.now + 7 * SECOND, orphans=2)
    assert (row["pool"], row["head_age_s"], row["orphans"], row["preempting"]) == ("pool-a", 7, 2, True)
    assert (row["nodes"], row["nodes_ready"], row["gpus"], row["gpus_free"]) == (2, 2, 12, 0)
    assert (row["jobs_running"], row["jobs_pending"], row["jobs_evicting"]) == (0, 2, 2)


def test_rows_survive_json_and_yaml(log_writer: LogWriter) -> None:
    everything = {
        "jobs": job_rows(log_writer.state, log_writer.now, job_order(log_writer.state, ended=True)),
        "nodes": node_rows(log_writer.state),
        "pool": pool_row(log_writer.state, log_writer.now),
        "policy": policy_in_force(log_writer.state),
        "job": job_details(log_writer.state, log_writer.state.jobs["train-8"], log_writer.now, [], []),
    }
    assert json.loads(as_text(everything, Output.JSON)) == everything
    assert yaml.safe_load(as_text(everything, Output.YAML)) == everything


def test_a_finished_preemption_leaves_final_states() -> None:
    log_writer = finished_story(LogWriter())
    found = rows(log_writer, ended=True)
    assert {job: row["state"] for job, row in found.items()} == {
        "train-7": "running",
        "train-8": "running",
        "train-9": "pending",
        "serve-2": "succeeded",
        "done-1": "succeeded",
    }
    assert all(lines(record, log_writer.state) for record in log_writer.records)


def test_a_shared_gpu_has_its_tasks_and_free_share() -> None:
    story = play("node n1: 2 gpus")
    story.runs("a", group(2, gpu_share_milli=250))
    story.runs("b", group(gpu_share_bytes=20 * GIB))
    story.runs("whole", gpus=1)
    (row,) = node_rows(story.state)
    first, second = row["devices"]
    assert (first["state"], first["shared_by"], first["free_milli"]) == ("shared", ["a/0", "a/1", "b/0"], 250)
    assert (second["state"], second["job"], second["free_milli"]) == ("allocated", "whole", 0)
    assert (row["gpus_free"], row["gpus_shared"]) == (0, 1)
    out = io.StringIO()
    Console(width=140, file=out).print(nodes_table([row]))
    assert "shared by a, b, 0.25 of it free [0]; whole [1]" in out.getvalue()


def test_the_list_of_nodes_says_which_save_tasks_where_any_has_a_driver() -> None:
    story = play("node n1: 1 gpu")
    out = io.StringIO()
    Console(width=140, file=out).print(nodes_table(node_rows(story.state)))
    assert "SAVES TASKS" not in out.getvalue()
    for name, more in (("n2", {"bytes_per_s": 10**9}), ("n3", {"why_not": "the agent is not root"})):
        offers = (facts.SnapshotOffer(driver="criu", version="4.2", **more),)
        story.cycle(story.joined(name, gpus=1).model_copy(update={"snapshots": offers}))
    Console(width=140, file=out).print(nodes_table(node_rows(story.state)))
    cells = {line.split()[0]: line for line in out.getvalue().splitlines() if line.startswith("n")}
    assert "SAVES TASKS" in out.getvalue()
    for node, part in (("n1", " no "), ("n2", "criu 953.7MiB/s"), ("n3", "not by criu")):
        assert part in cells[node]


def test_describe_shows_the_constraints_of_a_job() -> None:
    story = play("node n1: 4 gpus, zone=a")
    limits = {"run_time_limit": 7_200_000_000, "labels": {"team": "nlp"}, "project": "vision"}
    story.submit("bound", gpus=8, topology={"topology": "racks", "required": "zone"}, **limits)
    job = story.job("bound")
    details = job_details(story.state, job, story.state.now, [], [])
    out = io.StringIO()
    Console(width=100, file=out).print(job_block(details))
    printed = " ".join(out.getvalue().split())
    for part in ("run time limit 2h", "topology racks: required zone", "project vision", "labels team=nlp"):
        assert part in printed, printed


@pytest.mark.parametrize(
    ("demand", "gpus", "effect"),
    [
        ({}, 8, "evicted"),
        ({"on_eviction": "end"}, 8, "ends"),
        ({"min_tasks": 4}, 2, "shrinks"),
        ({"min_tasks": 4, "elastic": "restart"}, 2, "restarts with fewer tasks"),
        ({"min_tasks": 4, "on_eviction": "end"}, 2, "shrinks"),
    ],
)
def test_a_victim_says_what_becomes_of_its_job(demand: dict[str, Any], gpus: int, effect: str) -> None:
    story = play("node n1: 8 gpus")
    story.runs("wide", gpus=1, tasks=8, **demand)
    story.submit("high", gpus=gpus, cls="inference", after=MINUTE)
    story.propose()
    (decided,) = story.decisions("PreemptionDecided")
    (view,) = (chosen_victim(story.state, choice) for choice in decided.victims)
    assert view["effect"] == effect


@pytest.mark.parametrize(("demand", "effect"), [({}, "evicted"), ({"on_eviction": "end"}, "ends")])
def test_a_drain_says_whether_the_job_comes_back(demand: dict[str, Any], effect: str) -> None:
    story = play("node n1: 8 gpus")
    story.runs("wide", gpus=8, **demand)
    (row,) = affected_by(story.state, story.state.nodes[0], Drain(0, "quick", "", None))
    assert row["effect"] == effect
    story.drain("n1")
    story.yields("wide")
    assert (story.job("wide").ended_at is not None) == (effect == "ends")


def test_describe_names_why_a_job_failed_and_counts_its_last_failure() -> None:
    story = play("node n1: 4 gpus; runs bad: 4 gpus, max_failures 0; ends bad code=3")
    details = job_details(story.state, story.job("bad"), story.state.now, list(story.records), [])
    assert (details["summary"]["failures"], details["summary"]["evictions"]) == (1, 0)
    out = io.StringIO()
    Console(file=out, width=140).print(job_block(details))
    assert "task 0 ended with exit code 3; it failed 1 time, and max_failures is 0" in out.getvalue()
    assert " 1, failed 1 time" in out.getvalue()
    details["summary"] |= {"user_verified": True, "evictions": 2}
    Console(file=out, width=140).print(job_block(details))
    assert "1, evicted 2 times by others, failed 1 time" in out.getvalue()
    assert "bailiff logs bad" in out.getvalue()
    rows = [{**details["summary"], "evictions": count} for count in (0, 2)]
    assert jobs_text(rows, ["evicted"]).split() == ["EVICTED", "-", "2"]


def test_describe_names_the_saved_step_that_a_job_resumed_from_until_it_saves_again() -> None:
    story = play("node n1: 4 gpus; runs low: 4 gpus; report TaskResumed low step=7 from_attempt=1")
    out = io.StringIO()
    Console(file=out, width=140).print(job_block(job_details(story.state, story.job("low"), story.state.now, [], [])))
    assert "7 by an earlier attempt" in out.getvalue()


def test_the_time_of_an_ended_job_is_said_to_be_that_of_its_last_attempt() -> None:
    story = play("node n1: 4 gpus")
    for name, fails in (("again", True), ("once", False)):
        story.runs(name, gpus=2, max_failures=3)
        if fails:
            story.ends(name, code=3, after=MINUTE)
            story.wait(5 * SECOND)
            story.started(name)
        story.ends(name, after=2 * MINUTE)
    rows = job_rows(story.state, story.state.now, ["again", "once"])
    assert jobs_text(rows, ["job", "time"]).splitlines()[1:] == ["again\tlast ran 2m", "once\tran 2m"]
