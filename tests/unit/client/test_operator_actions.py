"""`bailiff evict`, `pause`, `resume`, `migrate`, `drain`, `undrain`, in table and in JSON output."""

import json
import time
from pathlib import Path

import pytest
from tests.unit.client.kit import MINUTE, SECOND, AnsweringBus, LogWriter, Run, command_on

from bailiff.client.errors import ExitCode
from bailiff.doctor.checks import drain_checks
from bailiff.render.serializers.nodes import node_rows
from bailiff_core.records import facts
from bailiff_service import pool_metrics
from bailiff_service.metrics import NODES, PAUSED_JOBS


@pytest.fixture
def log_writer() -> LogWriter:
    made = LogWriter()
    made.begin()
    made.node("gpu-01", gpus=4)
    made.submit("train-7", gpus=4)
    made.start("train-7")
    made.node("gpu-02", gpus=4)
    return made


@pytest.fixture
def bailiff(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setattr(time, "time_ns", lambda: (log_writer.now + 5 * SECOND) * 1000)
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "cache"))


def test_an_evicted_job_is_shown_as_evicting(bailiff: Run, log_writer: LogWriter) -> None:
    result = bailiff("evict", "train-7", "--reason", "noon")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("train-7: eviction requested  (pool-a#")
    assert "evicted by ada: noon" in bailiff("list").output
    assert bailiff("evict", "nobody").exit_code == ExitCode.REJECTED


@pytest.mark.slow
def test_the_owner_sees_who_took_the_gpus(bailiff: Run, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """bob's job is evicted by ada, then preempted by cleo's: both names are shown, everywhere."""
    monkeypatch.setenv("BAILIFF_ACTOR", "bob")
    assert bailiff("submit", "--name", "train-8", "--gpus", "4", "--", "x").exit_code == 0
    log_writer.start("train-8")
    monkeypatch.setenv("BAILIFF_ACTOR", "ada")
    assert bailiff("evict", "train-8", "--reason", "urgent demo").exit_code == 0
    (row,) = json.loads(bailiff("list", "train-8", "-o", "json").output)
    assert (row["user"], row["note"]) == ("bob", "evicted by ada: urgent demo")
    assert ["train-8", "bob (not verified)"] in [line.split("\t")[1:3] for line in bailiff("list").output.splitlines()]
    assert "ada evicted it: urgent demo" in " ".join(bailiff("explain", "train-8").output.split())
    assert "user bob (not verified)" in " ".join(bailiff("describe", "train-8").output.split())
    assert "ada evicted it: urgent demo" in bailiff("audit", "tail", "--job", "train-8").output
    events = [json.loads(line) for line in bailiff("events", "--job", "train-8", "-o", "json").output.splitlines()]
    assert [(row["type"], row["user"], row["user_verified"], row["actor"], row["auth"]) for row in events if row["actor"]] == [
        ("Submitted", "bob", False, "bob", "acl"),
        ("EvictionRequested", "bob", False, "ada", "acl"),
    ]
    log_writer.evict("train-8")
    log_writer.start("train-8")
    monkeypatch.setenv("BAILIFF_ACTOR", "cleo")
    assert bailiff("submit", "--name", "serve-1", "--gpus", "4", "--class", "inference", "--", "x").exit_code == 0
    log_writer.propose()
    victim = log_writer.state.jobs["train-7"] if log_writer.state.jobs["train-7"].eviction else log_writer.state.jobs["train-8"]
    (row,) = json.loads(bailiff("list", victim.id, "-o", "json").output)
    assert row["note"] == "preempted by serve-1 of cleo (not verified)"
    assert "serve-1 was submitted by cleo (not verified)" in " ".join(bailiff("explain", victim.id).output.split())
    assert bailiff("cancel", "serve-1", "--reason", "done").exit_code == 0
    monkeypatch.setenv("BAILIFF_ACTOR", "dan")
    assert bailiff("pause", "train-8").exit_code == 0
    bailiff("drain", "gpu-02", "--yes", "--reason", "driver")
    assert "by dan" in bailiff("nodes").output


@pytest.mark.slow
def test_a_requester_who_was_not_verified_is_marked_wherever_the_name_is_shown(bailiff: Run, log_writer: LogWriter) -> None:
    def shown(*command: str) -> str:
        return " ".join(bailiff(*command).output.split())

    log_writer.auth = "none"
    assert bailiff("evict", "train-7", "--reason", "noon").exit_code == 0
    (row,) = json.loads(bailiff("list", "train-7", "-o", "json").output)
    assert row["note"] == "evicted by ada (not verified): noon"
    assert "by ada (not verified)" in shown("explain", "train-7")
    assert "ada (not verified) evicted it: noon" in shown("explain", "train-7")
    assert "ada (not verified) evicted it: noon" in shown("audit", "tail", "--job", "train-7")
    events = [json.loads(line) for line in bailiff("events", "--job", "train-7", "-o", "json").output.splitlines()]
    assert ["ada (not verified) evicted it: noon" in row["reason"] for row in events if row["type"] == "Evicting"] == [True]
    log_writer.evict("train-7")
    assert bailiff("pause", "train-7").exit_code == 0
    assert "by ada (not verified)" in json.loads(bailiff("list", "train-7", "-o", "json").output)[0]["note"]
    assert "by ada (not verified)" in shown("describe", "train-7")
    bailiff("drain", "gpu-02", "--yes", "--reason", "driver")
    assert "gpu-02 is drained: graceful by ada (not verified), jobs may finish" in shown("nodes")
    (drain,) = [row["drain"] for row in json.loads(bailiff("nodes", "-o", "json").output) if row["drain"]]
    assert (drain["requester"], drain["requester_verified"]) == ("ada", False)
    assert bailiff("cancel", "train-7").exit_code == 0
    assert "by ada (not verified)" in shown("explain", "train-7")
    assert "by ada (not verified)" in json.loads(bailiff("list", "--all", "-o", "json").output)[0]["note"]
    log_writer.auth = "acl"
    assert bailiff("drain", "gpu-01", "--yes").exit_code == 0
    assert "gpu-01 is drained: graceful by ada, jobs may finish" in shown("nodes")


def test_a_paused_job_is_shown_as_paused_until_resumed(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.submit("train-8", gpus=8)
    assert bailiff("pause", "train-7", "train-8", "--reason", "bad data").exit_code == 0
    rows = {row["job"]: row for row in json.loads(bailiff("list", "-o", "json").output)}
    assert (rows["train-7"]["state"], rows["train-8"]["state"]) == ("pausing", "paused")
    assert rows["train-8"]["note"].endswith(": bad data")
    log_writer.evict("train-7")
    rows = {row["job"]: row for row in json.loads(bailiff("list", "-o", "json").output)}
    assert (rows["train-7"]["state"], rows["train-7"]["jobs_ahead"], rows["train-7"]["nodes"]) == ("paused", None, [])
    output = " ".join(bailiff("explain", "train-7").output.split())
    assert "has been paused since" in output
    assert "To resume it: bailiff resume train-7." in output
    assert bailiff("resume", "train-7").output.startswith("train-7: resumed")
    assert json.loads(bailiff("describe", "train-7", "-o", "json").output)["summary"]["state"] == "starting"


def test_a_migrated_job_shows_its_nodes_and_the_pause(bailiff: Run, log_writer: LogWriter) -> None:
    result = bailiff("migrate", "train-7", "--to", "gpu-02", "--reason", "noise")
    assert result.output.startswith("train-7 migrates; reserved on gpu-02")
    assert "migrating to gpu-02" in bailiff("list").output
    assert "not finished" in " ".join(bailiff("describe", "train-7").output.split())
    log_writer.evict("train-7")
    log_writer.after(2 * SECOND).start("train-7")
    output = " ".join(bailiff("describe", "train-7").output.split())
    assert "from gpu-01 to gpu-02" in output
    assert "5.0s from notice to running, 2.0s down" in output
    (move,) = json.loads(bailiff("describe", "train-7", "-o", "json").output)["moves"]
    assert (move["from_nodes"], move["to_nodes"], move["pause_s"], move["down_s"]) == (["gpu-01"], ["gpu-02"], 5.0, 2.0)
    assert "ada migrated it: noise" in " ".join(bailiff("explain", "train-7").output.split())


def test_drain_lists_affected_jobs_and_asks_for_confirmation(bailiff: Run, log_writer: LogWriter) -> None:
    shown = bailiff("drain", "gpu-01", "--quick", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert ["train-7", "train", "50", "evicted", "the", "queue", "all", "4", "2m30s"] in [
        line.split()[:9] for line in shown.output.splitlines()
    ]
    assert "nothing was requested" in shown.output
    assert log_writer.state.nodes[0].drain is None
    unasked = bailiff("drain", "gpu-01")  # nobody could answer
    assert (unasked.exit_code, "use --yes" in unasked.output, "[y/N]" in unasked.output) == (2, True, False)
    assert log_writer.state.nodes[0].drain is None
    done = bailiff("drain", "gpu-01", "--fast", "--reason", "driver", "--yes")
    assert done.exit_code == 0, done.output
    drain = log_writer.state.nodes[0].drain
    assert drain is not None
    assert (drain.mode, drain.reason) == ("fast", "driver")


def test_graceful_drain_moves_jobs_to_the_previewed_nodes(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.cycle(facts.TaskProgressed.model_validate({**log_writer._at("train-7", 0), "step": 7}))  # it reports progress
    shown = bailiff("drain", "gpu-01", "--dry-run")
    assert ["train-7", "train", "50", "migrates", "gpu-02", "all", "4"] in [
        line.split()[:7] for line in shown.output.splitlines()
    ]
    assert log_writer.state.jobs["train-7"].phase == "running"
    assert bailiff("drain", "gpu-01", "--yes").exit_code == 0
    assert [log_writer.state.nodes[task.node].name for task in log_writer.state.jobs["train-7"].reservation] == ["gpu-02"]


def test_a_graceful_drain_says_that_jobs_may_finish_and_what_follows_at_its_deadline(bailiff: Run) -> None:
    rows = [" ".join(bailiff("drain", "gpu-01", "--dry-run", *more).output.split()) for more in ((), ("--deadline", "1h"))]
    assert "train-7 train 50 may finish all 4 nothing" in rows[0]
    assert "train-7 train 50 may finish, else evicted all" in rows[1]


def test_json_output_requires_yes(bailiff: Run, log_writer: LogWriter) -> None:
    assert bailiff("drain", "gpu-01", "-o", "json").exit_code == ExitCode.USAGE
    found = json.loads(bailiff("drain", "gpu-01", "--deadline", "10m", "--yes", "-o", "json").output)
    assert (found["mode"], [row["job"] for row in found["affected"]]) == ("graceful", ["train-7"])
    drain = log_writer.state.nodes[0].drain
    assert drain is not None
    assert drain.deadline == log_writer.state.now + 10 * MINUTE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gpu-01", "--quick", "--fast"], "--quick and --fast are mutually exclusive"),
        (["gpu-01", "--deadline", "soon"], "--deadline: "),
        (["gpu-01", "--deadline", "30"], "expected a time with its unit, as in 30s"),
        (["gpu-09"], "there is no node 'gpu-09'"),
    ],
)
def test_invalid_drain_requests_are_rejected(bailiff: Run, arguments: list[str], expected: str) -> None:
    assert expected in " ".join(bailiff("drain", *arguments, "--yes").output.split())


def test_a_drained_node_is_shown_by_every_command(bailiff: Run, log_writer: LogWriter) -> None:
    bailiff("drain", "gpu-01", "--reason", "driver", "--yes")
    assert "gpu-01 is drained: graceful by ada, jobs may finish" in " ".join(bailiff("nodes").output.split())
    assert "draining" in bailiff("nodes").output
    assert "1 drained" in bailiff("cluster-info").output
    (check,) = drain_checks(log_writer.state)
    assert (check["status"], "1 task remaining: driver" in check["found"]) == ("warn", True)
    samples = [(labels, value) for metric, labels, value in pool_metrics.pool_samples(log_writer.state) if metric is NODES]
    assert (("drained",), 1) in samples
    log_writer.finish("train-7")
    assert [row["state"] for row in node_rows(log_writer.state)] == ["drained", "ready"]
    assert bailiff("undrain", "gpu-01").output.startswith("gpu-01 is schedulable again")
    assert drain_checks(log_writer.state) == []


def test_paused_jobs_are_counted(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.submit("train-8", gpus=8)
    bailiff("pause", "train-8")
    assert "1 paused" in bailiff("cluster-info").output
    samples = [value for metric, _, value in pool_metrics.pool_samples(log_writer.state) if metric is PAUSED_JOBS]
    assert samples == [1]


def test_cancelling_a_preemptor_says_for_which_victim_it_is_too_late(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.submit("other", gpus=4)
    log_writer.start("other")
    log_writer.after(MINUTE).submit("high", gpus=4, class_="inference")
    log_writer.propose()
    victim = next(job for job in log_writer.state.jobs.values() if job.eviction is not None)
    log_writer.cycle(facts.EvictionStarted(job=victim.id, attempt=1, decided_by=victim.eviction.decided_seq))
    at = log_writer._at(victim.id, 0)
    log_writer.cycle(facts.EvictionStageReached(**at, stage="noticed"))
    log_writer.cycle(facts.EvictionStageReached(**at, stage="term_sent", elapsed=SECOND))
    found = " ".join(bailiff("cancel", "high").output.split())
    assert f"high: cancel accepted; too late for {victim.id}: it was already told to stop; it resumes later (pool-a#" in found


def test_cancelling_a_job_without_victims_says_nothing_of_others(bailiff: Run, log_writer: LogWriter) -> None:
    assert bailiff("cancel", "train-7").output.startswith("train-7: cancel accepted  (pool-a#")
