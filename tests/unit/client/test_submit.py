"""Submission of arrays, GPU shares and interactive jobs; changes of existing jobs; lists by project."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, finished_story, request_id
from typer.testing import Result

from bailiff import connect
from bailiff.client import client as low_level
from bailiff.client import job_spec
from bailiff.client.errors import ExitCode, InvalidRequest
from bailiff_bus import topics
from bailiff_core.model.demand import Dependency, JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records import facts


@pytest.fixture
def bailiff(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return run_on(log_writer, monkeypatch, tmp_path)


def run_on(
    log_writer: LogWriter,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    then: Callable[[LogWriter, str], None] = lambda log_writer, job: None,
) -> Run:
    monkeypatch.delenv("BAILIFF_PROJECT", raising=False)
    return command_on(lambda: AnsweringBus(log_writer, then), monkeypatch, str(tmp_path / "cache"))


def test_a_gang_across_nodes_gets_a_checkpoint_directory_warning(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.node("n8")
    log_writer.node("n9")
    found = bailiff("submit", "--tasks", "2", "--gpus", "8", "--name", "wide", "--", "x")
    assert found.exit_code == ExitCode.DONE
    assert "warning: this gang does not fit on one node" in found.stderr
    assert "warning" not in bailiff("submit", "--gpus", "8", "--name", "narrow", "--", "x").stderr


def test_claims_that_are_not_granted_are_named_at_submission_and_by_describe(bailiff: Run, log_writer: LogWriter) -> None:
    found = bailiff("submit", "--gpus", "1", "--name", "greedy", "--grace", "9d", "--no-preemptible", "--", "x")
    assert found.exit_code == ExitCode.DONE
    assert "warning: grace 9d: the policy grants this job 10m" in found.stderr
    assert "warning: preemptible false: the policy grants this job true" in found.stderr
    assert "grace 9d; granted: 10m" in " ".join(bailiff("describe", "greedy").output.split())
    assert bailiff("submit", "--gpus", "1", "--name", "modest", "--grace", "9s", "--", "x").stderr == ""


def test_a_cancel_names_the_grace_that_is_left(bailiff: Run, log_writer: LogWriter) -> None:
    bailiff("submit", "--gpus", "1", "--name", "slow", "--", "x")
    assert bailiff("cancel", "slow", "--grace", "soon").exit_code == ExitCode.USAGE
    assert bailiff("cancel", "slow", "--grace", "5s").exit_code == ExitCode.DONE
    assert log_writer.state.jobs["slow"].grace_limit == 5_000_000


# --- what a job runs and where


@pytest.mark.parametrize(
    ("options", "field", "fault"),
    [
        (["--", ""], "command", "expected a program, found an empty text"),
        (["--", " ", "x"], "command", "expected a program, found an empty text"),
        (["--env", "RANK=3", "--", "x"], "env", "RANK is set by Bailiff for each task"),
        (["--secret", "BAILIFF_TASK=token", "--", "x"], "secrets", "BAILIFF_TASK is set by Bailiff for each task"),
    ],
)
def test_what_would_be_lost_or_run_nothing_is_refused(bailiff: Run, options: list[str], field: str, fault: str) -> None:
    found = bailiff("submit", "--gpus", "1", "--dry-run", *options)
    assert found.exit_code == ExitCode.USAGE
    assert fault in found.stderr
    assert field.removesuffix("s") in found.stderr


def test_a_process_runs_where_it_was_submitted(bailiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def variables(*options: str) -> dict[str, str]:
        output = bailiff("submit", "--dry-run", *options, "--", "true").output
        return dict(yaml.safe_load(output)["data"]["spec"].get("env", {}))

    monkeypatch.chdir(tmp_path)
    assert variables() == {"BAILIFF_SUBMIT_DIR": str(tmp_path)}
    assert variables("--env", "BAILIFF_SUBMIT_DIR=/elsewhere") == {"BAILIFF_SUBMIT_DIR": "/elsewhere"}
    assert variables("--working-dir", "/data") == {}
    assert variables("--image", "pytorch:2") == {}
    tmp_path.rmdir()
    assert variables() == {}, "the folder is gone"


# --- arrays


def test_an_array_submits_numbered_jobs(bailiff: Run, log_writer: LogWriter) -> None:
    found = bailiff("submit", "--array", "3", "--name", "sweep", "--gpus", "1", "--env", "LR=1", "--", "python", "try.py")
    assert found.exit_code == ExitCode.DONE
    assert [line.split()[0] for line in found.output.splitlines()] == ["sweep-0", "sweep-1", "sweep-2"]
    assert all(name in log_writer.state.jobs for name in ("sweep-0", "sweep-1", "sweep-2"))
    dry = list(yaml.safe_load_all(bailiff("submit", "--array", "2", "--name", "s", "--dry-run", "--", "x").output))
    assert [each["data"]["spec"]["env"] for each in dry] == [
        {"BAILIFF_SUBMIT_DIR": str(Path.cwd()), "BAILIFF_ARRAY_INDEX": "0", "BAILIFF_ARRAY_SIZE": "2"},
        {"BAILIFF_SUBMIT_DIR": str(Path.cwd()), "BAILIFF_ARRAY_INDEX": "1", "BAILIFF_ARRAY_SIZE": "2"},
    ]


def test_an_array_with_json_output_is_a_list(bailiff: Run) -> None:
    found = json.loads(bailiff("submit", "--array", "1", "--name", "s", "-o", "json", "--", "x").output)
    assert [row["job"] for row in found] == ["s-0"]


@pytest.mark.slow
def test_a_rejected_job_of_an_array_does_not_stop_the_others(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.submit("sweep-1", gpus=1)
    found = bailiff("submit", "--array", "3", "--name", "sweep", "--", "x")
    assert found.exit_code == ExitCode.REJECTED
    assert "sweep-1: rejected at pool-a#" in found.stderr
    assert "2 of 3 jobs were accepted" in found.stderr
    assert "sweep-2" in log_writer.state.jobs


def test_wait_for_an_array_exits_with_the_worst_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = finished_story(LogWriter())

    def then(log_writer: LogWriter, job: str) -> None:
        log_writer.start(job)
        log_writer.finish(job, 3 if job == "s-1" else 0)

    run = run_on(log_writer, monkeypatch, tmp_path, then)
    found = run("submit", "--array", "3", "--name", "s", "--gpus", "1", "--max-failures", "0", "--wait", "--", "x")
    assert found.exit_code == ExitCode.JOB_FAILED
    assert [word in found.output for word in ("s-0 succeeded", "s-1 failed", "s-2 succeeded")] == [True, True, True]
    assert "bailiff logs s-1" in found.stderr, "the one that failed"


@pytest.mark.parametrize("size", ["0", "10001"])
def test_the_array_size_is_bounded(bailiff: Run, size: str) -> None:
    assert "--array: expected 1 to 10000 jobs" in bailiff("submit", "--array", size, "--", "x").stderr


@pytest.mark.parametrize(
    ("text", "indices"),
    [("3", [0, 1, 2]), ("7-7", [7]), ("1,3,7-9", [1, 3, 7, 8, 9]), ("4-5,2,5", [4, 5, 2]), ("0-9:4", [0, 4, 8])],
)
def test_an_array_is_a_number_of_jobs_or_a_list_of_indices(bailiff: Run, text: str, indices: list[int]) -> None:
    dry = yaml.safe_load_all(bailiff("submit", "--array", text, "--name", "s", "--dry-run", "--", "x").output)
    requests = [each["data"] for each in dry]
    assert [each["demand"]["job"] for each in requests] == [f"s-{index}" for index in indices]
    assert [each["spec"]["env"]["BAILIFF_ARRAY_INDEX"] for each in requests] == [str(index) for index in indices]
    assert {each["spec"]["env"]["BAILIFF_ARRAY_SIZE"] for each in requests} == {str(len(indices))}


@pytest.mark.parametrize("text", ["", "x", "-1", "1-", "3-1", "1,,2", "1%0", "1%", "%2", "0-3:0", "1.5", "٣"])
def test_what_is_no_array_is_refused(bailiff: Run, text: str) -> None:
    found = bailiff("submit", f"--array={text}", "--dry-run", "--", "x")
    assert found.exit_code == ExitCode.USAGE
    assert "--array: expected a number of jobs or their indices, as in 8, 1,3,7-9" in found.stderr


@pytest.mark.parametrize("text", ["0-999999999", "0-9999,20000-29999", "999999999999999999", "0-999999999:2,1-999999999:2"])
def test_a_long_list_is_refused_before_it_is_written_out(bailiff: Run, text: str) -> None:
    assert "expected 1 to 10000 jobs" in bailiff("submit", "--array", text, "--dry-run", "--", "x").stderr


def test_an_array_with_a_limit_runs_at_most_so_many_at_a_time(bailiff: Run, log_writer: LogWriter) -> None:
    for number in range(4):
        log_writer.node(f"free-{number}")
    array = ("--array", "0-4%2", "--name", "sweep", "--gpus", "1", "--max-failures", "0", "--after", "train-9:ended")
    assert bailiff("submit", *array, "--", "x").exit_code == ExitCode.DONE
    jobs = log_writer.state.jobs
    log_writer.finish("train-9")

    def at_work() -> set[str]:
        sweep = {name for name in jobs if name.startswith("sweep-")}
        return {name for name in sweep if name not in log_writer.state.ended and jobs[name].phase != "waiting"}

    seen = [at_work()]
    for name, code in (("sweep-1", 0), ("sweep-0", 3), ("sweep-2", 0)):
        log_writer.start(name)
        log_writer.finish(name, code)
        seen.append(at_work())
    assert seen == [{"sweep-0", "sweep-1"}, {"sweep-0", "sweep-3"}, {"sweep-2", "sweep-3"}, {"sweep-3", "sweep-4"}]


# --- again


SPEC = JobSpec(command=("python", "train.py"), env={"LR": "0.1"}, working_dir="/data", secrets={"TOKEN": "hub"})
SALT = b"salt"


def remember_spec(log_writer: LogWriter, job: str, *, erased: bool = False, user: str = "ada", after: Any = ()) -> None:
    """Accepts a job whose private part admission has, unless it was erased."""
    digest = hashlib.sha256(SALT + SPEC.to_json()).hexdigest()
    if not erased:
        log_writer.specs[job] = SPEC, SALT
    groups = (TaskGroup(count=2, gpu_milli=1000, cpu_milli=1500, memory_bytes=2**30, node_labels={"zone": "a"}),)
    demand = JobDemand(
        job=job, tasks=groups, priority_class="train", min_tasks=1, grace=30_000_000, labels={"team": "x"}, user=user, after=after
    )
    log_writer.cycle(facts.JobSubmitted(request=request_id(job), demand=demand, spec_digest=digest, user=user))


def request_in(found: Result) -> dict[str, Any]:
    request: dict[str, Any] = yaml.safe_load(found.stdout)["data"]
    return request


def test_a_job_is_submitted_again_with_changes(bailiff: Run, log_writer: LogWriter) -> None:
    remember_spec(log_writer, "sweep-1")
    same = request_in(bailiff("resubmit", "sweep-1", "--dry-run"))
    assert same["spec"] == {**SPEC.to_data(), "command": ["python", "train.py"]}
    original = log_writer.state.jobs["sweep-1"].demand.to_data()
    assert same["demand"] == {**{name: value for name, value in original.items() if name != "user"}, "job": "sweep-1-r2"}
    other = request_in(bailiff("resubmit", "sweep-1", "--fraction", "0.5", "--env", "LR=1", "--grace", "1m", "--dry-run"))
    assert (other["spec"]["env"], other["demand"]["grace"]) == ({"LR": "1"}, 60_000_000)
    (group,) = other["demand"]["tasks"]
    assert ("gpu_milli" in group, group["gpu_share_milli"], group["count"]) == (False, 500, 2)
    assert bailiff("resubmit", "sweep-1").exit_code == ExitCode.DONE
    assert log_writer.state.jobs["sweep-1-r2"].user == "ada"
    assert "sweep-1-r3 accepted" in bailiff("resubmit", "sweep-1-r2", "--", "x").stdout


@pytest.mark.parametrize(
    ("fields", "why"), [({"erased": True}, "it was erased"), ({"user": "bob"}, "may not read the command of sweep-1")]
)
def test_without_its_command_the_job_needs_another(bailiff: Run, log_writer: LogWriter, fields: Any, why: str) -> None:
    remember_spec(log_writer, "sweep-1", **fields)
    refused = bailiff("resubmit", "sweep-1")
    assert refused.exit_code == ExitCode.USAGE
    assert why in refused.stderr
    shown = bailiff("describe", "sweep-1", "--spec")
    assert shown.exit_code == ExitCode.REJECTED
    assert why in shown.stderr
    given = bailiff("resubmit", "sweep-1", "--dry-run", "--", "python", "other.py", "--lr", "1")
    assert request_in(given)["spec"] == {"command": ["python", "other.py", "--lr", "1"]}
    assert "warning: environment, secrets" in given.stderr
    assert bailiff("resubmit", "nobody").exit_code == ExitCode.NOT_FOUND


def test_an_owner_sees_the_command_and_that_is_on_record(bailiff: Run, log_writer: LogWriter) -> None:
    remember_spec(log_writer, "sweep-1")
    shown = bailiff("describe", "sweep-1", "--spec")
    assert ["command", "python", "train.py"] in [line.split() for line in shown.stdout.splitlines()]
    assert ["environment", "LR=0.1"] in [line.split() for line in shown.stdout.splitlines()]
    assert json.loads(bailiff("describe", "sweep-1", "--spec", "-o", "json").stdout)["spec"] == SPEC.to_data()
    assert "train.py" not in bailiff("describe", "sweep-1").stdout
    granted = [record for record in log_writer.records if isinstance(record.data, facts.JobSpecGranted)]
    assert [record.actor for record in granted] == ["ada", "ada"]


def test_a_false_copy_is_not_taken_for_the_jobs_command(bailiff: Run, log_writer: LogWriter) -> None:
    """Whoever may write to the topic can encrypt another command for her key; the digest in the log tells them apart."""
    remember_spec(log_writer, "sweep-1")
    log_writer.specs["sweep-1"] = JobSpec(command="rm -rf /"), SALT
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job_spec, "ANSWER_WITHIN", 0.2)
        shown = bailiff("describe", "sweep-1", "--spec")
    assert shown.exit_code == ExitCode.NO_ANSWER
    assert "rm -rf" not in shown.stdout + shown.stderr


def test_a_job_that_is_submitted_again_waits_for_what_is_not_met_yet(bailiff: Run, log_writer: LogWriter) -> None:
    after = tuple(Dependency(job=job, until=until) for job, until in (("train-9", "succeeded"), ("done-1", "succeeded")))
    remember_spec(log_writer, "sweep-1", after=after)
    assert log_writer.state.jobs["done-1"].phase == "succeeded"
    same = request_in(bailiff("resubmit", "sweep-1", "--dry-run"))
    assert same["demand"]["after"] == [{"job": "train-9"}]
    other = request_in(bailiff("resubmit", "sweep-1", "--after", "train-8:ended", "--dry-run"))
    assert other["demand"]["after"] == [{"job": "train-8", "until": "ended"}]


def test_the_python_client_submits_again(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    remember_spec(log_writer, "sweep-1")
    monkeypatch.setenv("BAILIFF_ACTOR", "ada")
    monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path))
    monkeypatch.setattr(low_level, "bus_of", lambda settings: AnsweringBus(log_writer))
    with connect() as b:
        again = b.job("sweep-1").resubmit(gpus=0.5, priority_class="inference")
    assert again.name == "sweep-1-r2"
    demand = log_writer.state.jobs["sweep-1-r2"].demand
    assert (demand.priority_class, demand.tasks[0].gpu_share_milli, demand.tasks[0].gpu_milli) == ("inference", 500, 0)


# --- list


@pytest.mark.slow
def test_the_list_is_filtered_sorted_and_cut_to_columns(bailiff: Run, log_writer: LogWriter) -> None:
    remember_spec(log_writer, "sweep-1", user="bob")
    assert (
        bailiff("list", "--user", "bob", "--columns", "job,state,labels").stdout
        == "JOB\tSTATE\tLABELS\nsweep-1\tpending\tteam=x\n"
    )
    assert [line.split("\t")[0] for line in bailiff("list", "--sort", "-job", "--columns", "job").stdout.splitlines()] == [
        *("JOB", "train-9", "train-8", "train-7", "sweep-1", "serve-2")
    ]
    names = {
        "--state pending": {"train-9", "sweep-1"},
        "--state Evicting,reserved": {"train-7", "train-8", "serve-2"},
        "--class inference": {"serve-2"},
        "--label team=x": {"sweep-1"},
        "train-*": {"train-7", "train-8", "train-9"},
        "--state succeeded": {"done-1"},
        "--node gpu-02 --state evicting": {"train-7"},
        "--since 1s": set(),
        "--until 2026-11-21T12:01:30Z": {"train-7"},
    }
    for options, expected in names.items():
        found = {row["job"] for row in json.loads(bailiff("list", *options.split(), "-o", "json").stdout)}
        assert found == expected, options
    assert bailiff("list", "--all").stdout.splitlines()[0].split("	")[10:12] == ["STARTED", "ENDED"]
    refusals = {
        "--state runing": "no state 'runing'",
        "--sort size": "no field 'size'",
        "--columns size": "no column 'size'",
        "--since yesterday": "--since: expected a time",
    }
    for wrong, text in refusals.items():
        refused = bailiff("list", *wrong.split())
        assert refused.exit_code == ExitCode.USAGE
        assert text in refused.stderr


def test_in_a_pipe_no_line_ends_with_spaces(bailiff: Run) -> None:
    for command in (("explain", "train-7"), ("describe", "train-7"), ("cluster-info",)):
        lines = bailiff(*command).stdout.splitlines()
        assert len(lines) > 1
        assert [line for line in lines if line.endswith(" ")] == [], command


# --- options of a job


def test_every_option_reaches_the_request(bailiff: Run) -> None:
    options = ["--project", "vision", "--fraction", "0.5", "--gpu-devices", "2", "--tasks", "4", "--min-tasks", "2"]
    more = [
        "--topology",
        "racks:zone",
        "--near",
        "racks:rack",
        "--pack",
        "spread",
        "--run-time-limit",
        "2h",
        "--on-eviction",
        "end",
    ]
    demand = yaml.safe_load(bailiff("submit", *options, *more, "--dry-run", "--", "x").output)["data"]["demand"]
    assert demand["tasks"] == [{"count": 4, "gpu_share_milli": 500, "gpu_devices": 2}]
    assert (demand["project"], demand["min_tasks"], demand["pack"], demand["on_eviction"]) == ("vision", 2, "spread", "end")
    assert demand["topology"] == {"topology": "racks", "required": "zone", "preferred": "rack"}
    assert demand["run_time_limit"] == 7_200_000_000
    memory = yaml.safe_load(bailiff("submit", "--gpu-memory", "4GiB", "--dry-run", "--", "x").output)["data"]["demand"]
    assert memory["tasks"] == [{"gpu_share_bytes": 4 * 2**30}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topology", "racks"], '--topology: expected NAME:LEVEL, as in racks:rack, found "racks"'),
        (["--topology", "racks:zone", "--near", "rows:row"], "--near: expected a level of racks"),
        (["--fraction", "0.5", "--gpus", "1"], "--fraction: cannot be combined with gpus"),
        (["--interactive", "--array", "2"], "--interactive and --array are mutually exclusive"),
        (["--gpu-model", "A100"], "--gpu-model: is the model of a task's GPUs: also set gpus, fraction, gpu-memory or mig"),
        (
            ["--max-failures", "2", "--on-failure", "end"],
            "--max-failures: the job ends at its first failure, as on-failure is end",
        ),
    ],
)
def test_conflicting_options_are_reported(bailiff: Run, options: list[str], message: str) -> None:
    found = bailiff("submit", *options, "--", "x")
    assert (found.exit_code, message in found.stderr) == (ExitCode.USAGE, True), found.stderr


def test_the_project_may_be_a_setting(bailiff: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAILIFF_PROJECT", "vision")
    demand = yaml.safe_load(bailiff("submit", "--dry-run", "--", "x").output)["data"]["demand"]
    assert demand["project"] == "vision"


# --- interactive jobs


@pytest.mark.slow
def test_an_interactive_job_prints_its_node_and_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = finished_story(LogWriter())

    def then(log_writer: LogWriter, job: str) -> None:
        log_writer.start(job)
        headers = {"ce_job": job, "ce_attempt": "1", "ce_task": "0", "ce_node": "gpu-02", "ce_offset": "0"}
        wire = tuple((name, value.encode()) for name, value in headers.items())
        log_writer.cluster.store(topics.JOB_LOGS.name, 0, job.encode(), wire, b"serving\n")
        log_writer.finish(job)

    run = run_on(log_writer, monkeypatch, tmp_path, then)
    found = run("submit", "--interactive", "--port", "8888", "--name", "notebook", "--gpus", "1", "--", "jupyter", "lab")
    assert found.exit_code == ExitCode.DONE, found.stderr
    assert found.stdout == "serving\n"
    assert "to reach its port: bailiff port-forward notebook 8888" in found.stderr
    job = log_writer.state.jobs["notebook"]
    assert job.class_name == "interactive"


def test_the_port_is_passed_in_the_environment(bailiff: Run) -> None:
    data = yaml.safe_load(bailiff("submit", "--interactive", "--port", "8888", "--dry-run", "--", "x").output)["data"]
    assert data["spec"]["env"]["BAILIFF_PORT"] == "8888"
    assert data["demand"]["priority_class"] == "interactive"
    chosen = yaml.safe_load(bailiff("submit", "--interactive", "--class", "build", "--dry-run", "--", "x").output)["data"]
    assert chosen["demand"]["priority_class"] == "build"


# --- existing jobs


def elastic() -> LogWriter:
    log_writer = LogWriter()
    log_writer.begin()
    log_writer.node("gpu-01", gpus=4)
    log_writer.submit("elastic", gpus=1, tasks=4, min_tasks=2)
    log_writer.start("elastic")
    return log_writer


def test_scale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = elastic()
    run = run_on(log_writer, monkeypatch, tmp_path)
    found = run("scale", "elastic", "6", "--min", "1")
    assert found.exit_code == ExitCode.DONE, found.output
    assert found.output.startswith("elastic: scaled to 6  (pool-a#")
    assert (log_writer.state.jobs["elastic"].size, log_writer.state.jobs["elastic"].minimum) == (6, 1)
    assert run("scale", "nobody", "2").exit_code == ExitCode.NOT_FOUND


def test_set_priority_of_a_pending_job(bailiff: Run, log_writer: LogWriter) -> None:
    found = bailiff("set-priority-class", "train-9", "interactive")
    assert found.exit_code == ExitCode.DONE, found.output
    assert log_writer.state.jobs["train-9"].priority == 75


def test_delete_is_cancel(bailiff: Run, log_writer: LogWriter) -> None:
    found = bailiff("delete", "train-9", "--reason", "old habits")
    assert found.exit_code == ExitCode.DONE
    assert "train-9: cancel accepted" in found.output
    assert log_writer.state.jobs["train-9"].phase == "cancelled"
    cancelled = [record.data for record in log_writer.records if isinstance(record.data, facts.JobCancelled)]
    assert [(fact.job, fact.reason) for fact in cancelled] == [("train-9", "old habits")]
    again = bailiff("cancel", "train-9", "-o", "json")
    assert again.exit_code == ExitCode.REJECTED
    (row,) = json.loads(again.output)
    assert (row["job"], row["accepted"], row["result"].startswith("no effect: ")) == ("train-9", False, True)


# --- lists


def test_the_wide_list_shows_project_tasks_and_reserved_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = elastic()
    monkeypatch.setenv("COLUMNS", "200")
    run = run_on(log_writer, monkeypatch, tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    lines = [line.split() for line in run("list", "-o", "wide").output.splitlines()]
    assert lines[0][:4] == ["#", "JOB", "PROJECT", "CLASS"]
    assert lines[1][:2] == ["elastic", "-"]
    assert "4/4, at least 2" in run("list", "-o", "wide").output


def test_reserved_nodes_are_data(bailiff: Run) -> None:
    rows = {row["job"]: row for row in json.loads(bailiff("list", "-A", "-o", "json").output)}
    assert rows["serve-2"]["reserved_nodes"] == ["gpu-01", "gpu-02"]
    assert (rows["serve-2"]["placed_tasks"], rows["serve-2"]["tasks"], rows["serve-2"]["min_tasks"]) == (0, 3, 3)
    assert rows["train-9"]["reserved_nodes"] == []


def test_the_list_of_a_project_includes_its_subprojects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = LogWriter()
    projects = [{"name": "research"}, {"name": "vision", "parent": "research"}, {"name": "students"}]
    log_writer.begin(Policy.model_validate({**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects}, strict=False))
    log_writer.node("gpu-01")
    for job, project in (("a", "vision"), ("b", "research"), ("c", "students")):
        log_writer.submit(job, gpus=1, project=project)
    run = run_on(log_writer, monkeypatch, tmp_path)

    def listed(*options: str) -> list[str]:
        return [row["job"] for row in json.loads(run("list", "-o", "json", *options).output)]

    assert listed("--project", "research") == ["a", "b"]
    monkeypatch.setenv("BAILIFF_PROJECT", "students")
    assert listed() == ["c"]
    assert listed("--all-projects") == ["a", "b", "c"]
    assert run("list", "--project", "nobody").exit_code == ExitCode.NOT_FOUND


def test_gpu_shares_are_printed_as_fractions() -> None:
    from tests.kits.builders import Sketch, group

    from bailiff.render.serializers.jobs import gpus_of_tasks

    sketch = Sketch()
    assert gpus_of_tasks(sketch.job("a", group(2, gpus=4)).groups()) == "8"
    assert gpus_of_tasks(sketch.job("b", group(3, gpu_share_milli=500), group(gpus=1)).groups()) == "2.5"
    assert gpus_of_tasks(sketch.job("c", group(2, gpu_share_bytes=4 * 2**30)).groups()) == "2 × 4GiB"
    assert gpus_of_tasks(sketch.job("d", group(cpu=1)).groups()) == "0"


# --- dependencies


def test_a_job_waits_for_others_and_says_for_whom(bailiff: Run, log_writer: LogWriter) -> None:
    after = ("--after", "train-9", "--after", "train-8:ended", "--after", "done-1")
    requested = request_in(bailiff("submit", "--name", "next", *after, "--dry-run", "--", "x"))["demand"]["after"]
    assert requested == [{"job": "train-9"}, {"job": "train-8", "until": "ended"}, {"job": "done-1"}]
    assert bailiff("submit", "--name", "next", *after, "--", "x").exit_code == ExitCode.DONE
    job = log_writer.state.jobs["next"]
    assert (job.phase, job.waits_for) == ("waiting", {"train-9": "succeeded", "train-8": "ended"})
    assert "next" in bailiff("list", "--state", "waiting", "--columns", "job").stdout
    explained = bailiff("explain", "next").stdout
    assert "train-9" in explained
    assert "train-8" in explained
    wrong = bailiff("submit", "--after", "train-9:started", "--", "x")
    assert wrong.exit_code == ExitCode.USAGE
    assert "--after: expected JOB, JOB:succeeded or JOB:ended" in wrong.stderr


def test_a_job_waits_for_an_array_or_for_what_matches_a_pattern(bailiff: Run, log_writer: LogWriter) -> None:
    bailiff("submit", "--array", "8-10", "--name", "prep", "--", "x")
    remember_spec(log_writer, "prep-11", user="eve")
    remember_spec(log_writer, "prep-next", user="ada")

    def waits(*after: str, name: str = "next") -> dict[str, str]:
        options = [word for each in after for word in ("--after", each)]
        requested = request_in(bailiff("submit", "--name", name, *options, "--dry-run", "--", "x"))["demand"]["after"]
        return {each["job"]: each.get("until", "succeeded") for each in requested}

    assert list(waits("prep")) == ["prep-8", "prep-9", "prep-10"], "an array, without the job that eve calls like one"
    assert waits("prep:ended", "train-9") == {"prep-8": "ended", "prep-9": "ended", "prep-10": "ended", "train-9": "succeeded"}
    assert list(waits("prep-*")) == ["prep-10", "prep-8", "prep-9", "prep-next"]
    assert list(waits("prep-*", name="prep-next")) == ["prep-10", "prep-8", "prep-9"], "no job waits for itself"
    assert list(waits("prep-[89]", "prep-11")) == ["prep-8", "prep-9", "prep-11"], "the full name also of another's job"
    none = bailiff("submit", "--after", "nothing-*", "--", "x")
    assert none.exit_code == ExitCode.USAGE
    assert "after: no job of ada matches 'nothing-*'" in none.stderr
    assert "no-such-job" in bailiff("submit", "--after", "nothing", "--", "x").stderr


def test_a_job_waits_for_no_more_than_a_hundred_others(bailiff: Run, log_writer: LogWriter) -> None:
    for number in range(101):
        remember_spec(log_writer, f"prep-{number}")
    found = bailiff("submit", "--after", "prep", "--", "x")
    assert found.exit_code == ExitCode.USAGE
    assert "after: 101 jobs, at most 100" in found.stderr


def test_the_python_client_takes_one_dependency_or_several(
    log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path))
    monkeypatch.setattr(low_level, "bus_of", lambda settings: AnsweringBus(log_writer))
    with connect() as b:
        b.submit("x", name="one", after="train-9")
        b.submit("x", name="two", after=["train-9", "train-8:ended"])
        with pytest.raises(InvalidRequest, match="after: expected JOB, JOB:succeeded or JOB:ended"):
            b.submit("x", name="three", after="train-9:later")
        b.submit("x", name="prep-1")
        b.submit("x", name="three", after="prep-?:ended")
        b.submit("x", name="four", after="prep")
    assert [log_writer.state.jobs[name].waits_for for name in ("three", "four")] == [{"prep-1": "ended"}, {"prep-1": "succeeded"}]
    waits = [log_writer.state.jobs[name].waits_for for name in ("one", "two")]
    assert waits == [{"train-9": "succeeded"}, {"train-9": "succeeded", "train-8": "ended"}]
