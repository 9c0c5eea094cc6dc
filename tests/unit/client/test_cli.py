"""The `bailiff` command on an in-memory bus, with table, JSON and YAML output."""

import io
import json
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from tests.unit.client.kit import SECOND, AnsweringBus, LogWriter, Run, command_on, finished_story, preemption_story
from typer.testing import CliRunner

from bailiff.cli import app, logs
from bailiff.cli.session import Output, Session, guarded
from bailiff.client.answers import advice_on
from bailiff.client.client import Outcome, SentRequest
from bailiff.client.errors import ClientError, ExitCode
from bailiff.client.job_request import made_name
from bailiff.render.plain_text import harmless_output
from bailiff_bus import topics
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.identity import IdentityRules
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records.facts import PolicyApplied, PoolCreated
from bailiff_core.records.job_requests import CancelJob, SetPriorityClass, SubmitJob
from bailiff_core.records.node_requests import UndrainNode
from bailiff_core.records.request import RequestBody


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BAILIFF_DEBUG", "BAILIFF_SETTINGS", "BAILIFF_KAFKA__BOOTSTRAP", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


Bus = Callable[[LogWriter], AnsweringBus]


@pytest.fixture
def bailiff(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return command_for(log_writer, monkeypatch, tmp_path)


def command_for(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bus: Bus = AnsweringBus) -> Run:
    monkeypatch.setattr(time, "time_ns", lambda: (log_writer.now + 5 * SECOND) * 1000)
    return command_on(lambda: bus(log_writer), monkeypatch, str(tmp_path / "cache"))


def cells(output: str) -> list[list[str]]:
    """The words of each line, independent of column widths."""
    return [line.split() for line in output.splitlines() if line.strip()]


# --- jobs


def test_list(bailiff: Run) -> None:
    found = bailiff("list")
    assert found.exit_code == ExitCode.DONE
    lines = cells(found.output)
    assert lines[0] == ["#", "JOB", "CLASS", "STATE", "GPUS", "NODES", "TRY", "EVICTED", "TIME", "NOTE"]
    assert lines[2][:10] == ["train-7", "train", "50", "evicting", "4", "gpu-02", "1", "-", "running", "4m05s"]
    assert ["0", "train-9", "train", "50", "pending", "8", "-", "-", "-", "pending", "5s"] in lines
    assert "done-1" not in found.output
    assert "done-1" in bailiff("list", "--all").output


def test_a_long_list_is_shown_in_pages(bailiff: Run) -> None:
    def names(found: Any) -> list[str]:
        return [row["job"] for row in json.loads(found.stdout)]

    first = bailiff("list", "-o", "json", "--limit", "2")
    assert names(first) == ["serve-2", "train-7"]
    assert first.stderr == "2 more of 4 jobs; the next page: --after 2.train-7\n"
    second = bailiff("list", "-o", "json", "--limit", "2", "--after", "2.train-7")
    assert (names(second), second.stderr) == (["train-8", "train-9"], "")
    assert names(bailiff("list", "-o", "json", "--after", "3.ended-meanwhile")) == ["train-9"]
    assert names(bailiff("list", "-o", "json", "--limit", "1", "--sort", "-submitted")) == ["train-9"]
    assert len(names(bailiff("list", "-o", "json", "--limit", "0"))) == 4
    assert bailiff("list", "--after", "train-7").exit_code == ExitCode.USAGE


def test_the_first_page_has_ones_own_jobs_first(bailiff: Run, log_writer: LogWriter) -> None:
    log_writer.submit("of-bob", gpus=8, user="bob")
    found = bailiff("list", "-o", "json", "--limit", "2", "--actor", "bob")
    assert [row["job"] for row in json.loads(found.stdout)] == ["of-bob", "serve-2"]
    assert json.loads(bailiff("list", "-o", "json", "--actor", "bob").stdout)[-1]["job"] == "of-bob", "all fit into one page"


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_a_narrow_terminal_loses_no_column(bailiff: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    found = bailiff("list", "--all-projects", "-o", "wide").output
    for part in ("PROJECT", "NODES", "RESERVED", "SUBMITTED", "train-7", "evicting", "gpu-02"):
        assert part in found
    assert "…" not in found
    assert "evicting" in bailiff("list").output


def test_all_output_fits_into_100_columns(bailiff: Run) -> None:
    commands = ["list --all", "nodes", "pools", "policy show", "describe train-8", "audit verify", "pool list", "class list"]
    for arguments in [*commands, "cluster-info", "project list", "explain train-8", "explain train-8 --all"]:
        found = bailiff(*arguments.split())
        assert max(len(line) for line in found.output.splitlines()) <= 100, arguments


def test_policy_show_leaves_out_no_part_of_the_policy(bailiff: Run) -> None:
    shown = bailiff("policy", "show").output.splitlines()
    policy = json.loads(bailiff("policy", "show", "-o", "json").output)["policy"]
    sections = {name: value for name, value in policy.items() if isinstance(value, dict) and name != "limits"}
    assert sections.keys() <= {*shown}
    fields = [name for value in sections.values() for name in value] + [
        k for k, value in policy.items() if isinstance(value, str)
    ]
    assert {*fields} <= {line.split()[0] for line in shown if line.strip()}


def test_each_fault_of_a_job_file_has_its_sentence(bailiff: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\ngpu: 4\ncommand: [true]\n")
    said = bailiff("submit", "-f", str(tmp_path / "job.yaml")).stderr.splitlines()
    assert [line.partition("job.yaml:")[2] for line in said] == [
        "2: gpu: no such field; did you mean gpus?",
        "3: command: expected text",
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_output(bailiff: Run, output: str) -> None:
    read = json.loads if output == "json" else yaml.safe_load
    assert [row["job"] for row in read(bailiff("list", "-o", output).output)] == ["serve-2", "train-7", "train-8", "train-9"]
    assert [row["node"] for row in read(bailiff("nodes", "-o", output).output)] == ["gpu-01", "gpu-02"]
    assert read(bailiff("pools", "-o", output).output)[0]["pool"] == "pool-a"
    assert read(bailiff("describe", "train-8", "-o", output).output)["summary"]["state"] == "evicting"
    assert read(bailiff("version", "-o", output).output)["logic"] >= 1
    assert bailiff("--version").output == bailiff("version").output
    assert read(bailiff("audit", "show", "0", "-o", output).output)["data"]["pool"] == "pool-a"


def test_describe_shows_the_events_of_the_job_only(bailiff: Run) -> None:
    found = bailiff("describe", "train-8", "--show-events").output
    assert "preempted by serve-2" in found
    assert "train-8 → evict  for serve-2 (inference 125 > train 50)" in found
    assert "train-7 → evict" not in found  # an event of another job


def test_an_unknown_job_is_reported(bailiff: Run) -> None:
    found = bailiff("describe", "nobody")
    assert found.exit_code == ExitCode.NOT_FOUND
    assert "there is no job 'nobody' in pool-a" in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["describe", "trian-8"], "train-8"),
        (["explain", "trian-8"], "train-8"),
        (["logs", "trian-8"], "train-8"),
        (["node", "describe", "gpu01"], "gpu-01"),
        (["drain", "gpu01"], "gpu-01"),
        (["explain", "gpu01@now"], "gpu-01"),
        (["list", "--node", "gpu01"], "gpu-01"),
        (["list", "--class", "trian"], "train"),
        (["list", "--pool", "pol-a"], "pool-a"),
    ],
)
def test_an_unknown_name_is_reported_with_the_closest_one(bailiff: Run, arguments: list[str], near: str) -> None:
    found = bailiff(*arguments)
    assert found.exit_code == ExitCode.NOT_FOUND
    assert f"did you mean '{near}'? (all: bailiff " in found.stderr
    assert found.stdout == ""


def submission(name: str, **demand: Any) -> SubmitJob:
    request = {"demand": {"job": name, "tasks": [{}], **demand}, "spec": {"command": "true"}}
    return SubmitJob.model_validate_json(json.dumps(request))


@pytest.mark.parametrize(
    ("body", "code", "advice"),
    [
        (CancelJob(job="trian-8"), "no-such-job", "did you mean 'train-8'? (all: bailiff list --all)"),
        (submission("new", after=[{"job": "train-7"}, {"job": "trian-8"}]), "no-such-job", "did you mean 'train-8'?"),
        (submission("new", priority_class="trian"), "unknown-class", "did you mean 'train'? (all: bailiff class list)"),
        (SetPriorityClass(job="train-8", priority_class="zzz"), "unknown-class", "all: bailiff class list"),
        (UndrainNode(node="gpu01"), "no-such-node", "did you mean 'gpu-01'? (all: bailiff nodes)"),
        (CancelJob(job="zzz"), "no-such-job", "all: bailiff list --all"),
        (submission("train-8"), "job-exists", "to run it again: bailiff resubmit train-8; a free name: --name "),
        (submission("new"), "never-fits", ""),
    ],
)
def test_a_rejection_says_what_to_do(log_writer: LogWriter, body: RequestBody, code: str, advice: str) -> None:
    found = advice_on(Outcome(False, 1, code, "as admission says"), SentRequest("pool-a", "test", "1", body), log_writer.state)
    assert found.startswith(advice) if advice else found == ""


def test_submit_is_accepted(bailiff: Run, log_writer: LogWriter) -> None:
    found = bailiff("submit", "--gpus", "1", "--name", "late", "--", "python", "train.py", "--lr", "3")
    assert found.exit_code == ExitCode.DONE
    assert found.output == f"late accepted as pool-a#{log_writer.state.jobs['late'].seq}, pending, 1 ahead\n"


def test_submit_with_json_output(bailiff: Run, log_writer: LogWriter) -> None:
    found = json.loads(bailiff("submit", "--name", "late", "-o", "json", "--", "true").output)
    assert (found["job"], found["pool"], found["seq"]) == ("late", "pool-a", log_writer.state.jobs["late"].seq)


def test_submit_is_rejected(bailiff: Run) -> None:
    found = bailiff("submit", "--name", "train-7", "--", "true")
    assert found.exit_code == ExitCode.REJECTED
    assert "job 'train-7' exists already (evicting): choose another name" in found.stderr


def test_submit_without_a_response_from_admission(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def silent(log_writer: LogWriter) -> Any:
        return log_writer.cluster.client("silent")

    run = command_for(log_writer, monkeypatch, tmp_path, silent)
    found = run("submit", "--timeout", "0", "--", "true")
    assert found.exit_code == ExitCode.NO_ANSWER
    assert "the request was published, but admission of pool-a did not respond" in found.stderr


def test_dry_run_prints_the_request_and_sends_nothing(bailiff: Run, log_writer: LogWriter) -> None:
    options = ["--gpus", "4", "--tasks", "2", "--cpu", "500m", "--memory", "8GiB", "--class", "train", "--name", "x"]
    more = ["--env", "A=b", "--label", "team=nlp", "--node-label", "zone=a", "--gpu-model", "H100", "--grace", "1m"]
    last = ["--no-preemptible", "--max-failures", "2", "--secret", "TOKEN=hf", "--working-dir", "/w", "--dry-run"]
    found = bailiff("submit", *options, *more, *last, "--", "python", "-c", "pass")
    request = yaml.safe_load(found.output)
    assert request["type"] == SubmitJob.TYPE
    job = SubmitJob.model_validate_json(json.dumps(request["data"]))
    (group,) = job.demand.tasks
    assert (group.count, group.gpu_milli, group.cpu_milli, group.node_labels) == (2, 4000, 500, {"zone": "a"})
    assert (job.demand.grace, job.demand.preemptible, job.demand.max_failures) == (60 * SECOND, False, 2)
    assert job.demand.labels == {"team": "nlp"}
    assert job.spec.command == ("python", "-c", "pass")
    assert (job.spec.env, job.spec.secrets, job.spec.working_dir) == ({"A": "b"}, {"TOKEN": "hf"}, "/w")
    assert not any(log_writer.cluster.messages(topics.REQUESTS.name, at) for at in range(topics.REQUESTS.partition_count(1)))


def test_options_override_the_job_file(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ngpus: 1\nenv: {A: x, B: y}\ncommand: [true]\n".replace("true", "'true'"))
    found = bailiff("submit", "-f", str(file), "--gpus", "2", "--env", "A=z", "--name", "b", "--dry-run")
    data = yaml.safe_load(found.output)["data"]
    assert (data["demand"]["job"], data["demand"]["tasks"][0]["gpu_milli"]) == ("b", 2000)
    assert data["spec"] == {"command": ["true"], "env": {"BAILIFF_SUBMIT_DIR": str(Path.cwd()), "A": "z", "B": "y"}}


def test_each_fault_names_its_option_or_line(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\ncpu: x\nenv: [A]\ncommand: [x]\n")
    output = bailiff("submit", "-f", str(file), "--gpus", "y", "--env", "B=c").stderr
    assert "bailiff: --gpus: expected a number of GPUs" in output
    assert f"bailiff: {file}:2: cpu: expected cores such as 2" in output
    assert f"bailiff: {file}:3: env: expected an object" in output


def ending(exit_code: int) -> Bus:
    def then(log_writer: LogWriter, job: str) -> None:
        log_writer.start(job)
        log_writer.finish(job, exit_code)

    return lambda log_writer: AnsweringBus(log_writer, then)


@pytest.mark.parametrize(("exit_code", "code", "outcome"), [(0, ExitCode.DONE, "succeeded"), (3, ExitCode.JOB_FAILED, "failed")])
def test_wait_exits_with_the_outcome_of_the_job(
    exit_code: int, code: ExitCode, outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log_writer = finished_story(LogWriter())
    run = command_for(log_writer, monkeypatch, tmp_path, ending(exit_code))
    found = run("submit", "--name", "short", "--gpus", "1", "--max-failures", "0", "--wait", "--", "true")
    assert found.exit_code == code
    assert f"short {outcome}" in found.output
    assert ("what it printed: bailiff logs short --pool pool-a" in found.stderr) is bool(exit_code)
    assert ("task 0 ended with exit code 3; it failed 1 time, and max_failures is 0" in found.output) is bool(exit_code)


def test_a_shell_s_line_in_quotes_is_refused_with_the_form_that_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = finished_story(LogWriter())
    run = command_for(log_writer, monkeypatch, tmp_path, ending(0))
    found = run("submit", "--name", "short", "--gpus", "1", "--", "echo a; exit 3")
    assert found.exit_code == ExitCode.USAGE
    assert "no shell reads it" in found.stderr
    assert "-- sh -c 'echo a; exit 3'" in found.stderr
    assert (
        run("submit", "--name", "short", "--gpus", "1", "--wait", "--", "sh", "-c", "echo a; exit 3").exit_code == ExitCode.DONE
    )


def test_follow_prints_the_records_of_the_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = finished_story(LogWriter())
    run = command_for(log_writer, monkeypatch, tmp_path, ending(0))
    found = run("submit", "--name", "short", "--gpus", "1", "--follow", "--", "true")
    assert found.exit_code == ExitCode.DONE
    output = [" ".join(line[2:4]) for line in cells(found.output)[1:]]
    assert output == ["job submitted", "job placed", "task started", "task exited", "task released", "job ended"]
    assert "train-7" not in found.output


def test_wait_for_a_cancelled_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = preemption_story(LogWriter())

    def then(log_writer: LogWriter, job: str) -> None:
        from tests.unit.client.kit import request_id

        from bailiff_core.records.facts import JobCancelled

        log_writer.cycle(JobCancelled(request=request_id(f"cancel-{job}"), job=job))

    run = command_for(log_writer, monkeypatch, tmp_path, lambda log_writer: AnsweringBus(log_writer, then))
    assert run("submit", "--name", "never", "--wait", "--gpus", "8", "--", "true").exit_code == ExitCode.JOB_CANCELLED


def test_cancel_several(bailiff: Run) -> None:
    found = bailiff("cancel", "train-9", "nobody", "--reason", "done with it")
    assert found.exit_code == ExitCode.REJECTED
    assert [line[1] for line in cells(found.output)] == ["cancel", "rejected"]
    assert bailiff("cancel", "train-7").exit_code == ExitCode.DONE


@pytest.mark.parametrize(
    ("command", "base"),
    [
        (["python", "train.py"], "train"),
        (["/opt/My_Tool"], "my-tool"),
        ("bash run.sh --x", "run"),
        (None, "job"),
        (["..."], "job"),
    ],
)
def test_generated_job_names_are_valid(command: object, base: str) -> None:
    name = made_name(command)
    assert name.startswith(f"{base}-")
    assert len(name) == len(base) + 5


# --- job logs


def store_output(log_writer: LogWriter, job: str, task: int, text: bytes, attempt: int = 1, offset: int | None = None) -> None:
    headers = {"ce_job": job, "ce_attempt": str(attempt), "ce_task": str(task), "ce_node": "gpu-01"}
    if offset is not None:
        headers["ce_offset"] = str(offset)
    wire = tuple((name, value.encode()) for name, value in headers.items())
    log_writer.cluster.store(topics.JOB_LOGS.name, 0, job.encode(), wire, text)


@pytest.mark.slow
def test_logs_of_one_task(bailiff: Run, log_writer: LogWriter) -> None:
    store_output(log_writer, "train-8", 0, "step 1\nstep 2 ✓\n".encode())
    store_output(log_writer, "train-7", 0, b"not mine\n")
    store_output(log_writer, "train-8", 0, b"again\n", attempt=2)
    assert bailiff("logs", "train-8").output == "step 1\nstep 2 ✓\nagain\n"
    assert bailiff("logs", "train-8", "--attempt", "2").output == "again\n"


@pytest.mark.slow
def test_repeated_log_output_is_printed_once(bailiff: Run, log_writer: LogWriter) -> None:
    for offset, text in ((0, b"one\ntwo\n"), (4, b"two\nthree\n"), (0, b"one\n"), (14, b"four\n")):
        store_output(log_writer, "train-8", 0, text, offset=offset)
    assert bailiff("logs", "train-8").output == "one\ntwo\nthree\nfour\n"


@pytest.mark.slow
def test_logs_of_a_gang_name_task_and_node(bailiff: Run, log_writer: LogWriter) -> None:
    store_output(log_writer, "serve-2", 0, b"a\nb\n")
    store_output(log_writer, "serve-2", 2, b"c\n")
    assert set(bailiff("logs", "serve-2").output.splitlines()) == {"[0 gpu-01] a", "[0 gpu-01] b", "[2 gpu-01] c"}
    assert bailiff("logs", "serve-2", "--task", "2").output == "c\n"


@pytest.mark.slow
def test_following_logs_ends_with_the_job(bailiff: Run, log_writer: LogWriter) -> None:
    store_output(log_writer, "done-1", 0, b"bye\n")
    assert bailiff("logs", "done-1", "-f").output == "bye\n"


def test_following_the_logs_of_a_job_that_has_not_started_says_what_it_waits_for(
    bailiff: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_yet(*_: object) -> bool:
        return True

    monkeypatch.setattr(logs, "print_output", nothing_yet)
    assert bailiff("logs", "serve-2", "-f").stderr == "serve-2 has not started: reserved, waiting for train-7, train-8\n"
    assert bailiff("logs", "train-8", "-f").stderr == bailiff("logs", "serve-2").stderr == ""


def test_logs_of_a_job_that_never_ran_say_so(bailiff: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> bool:
        return False

    monkeypatch.setattr(logs, "print_output", nothing)
    assert bailiff("logs", "serve-2").stderr == "serve-2 has not started: reserved, waiting for train-7, train-8\n"
    assert bailiff("logs", "train-8").stderr == "train-8 has written nothing yet\n"
    assert bailiff("logs", "train-8", "--grep", "x").stderr == "train-8 has written nothing yet that matches\n"
    assert bailiff("cancel", "serve-2").exit_code == ExitCode.DONE
    assert bailiff("logs", "serve-2").stderr.startswith("serve-2 never started: cancelled")


@pytest.mark.slow
def test_logs_of_an_unknown_job_and_of_a_job_without_output(bailiff: Run) -> None:
    assert bailiff("logs", "nobody").exit_code == ExitCode.NOT_FOUND
    silent = bailiff("logs", "train-8")
    assert (silent.exit_code, silent.stdout) == (ExitCode.DONE, "")
    assert silent.stderr == "train-8 has written nothing yet\n"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[31mred\x1b[0m\tä\n", "\x1b[31mred\x1b[0m\tä\n"),
        ("\x1b[31mred for ever\n", "\x1b[31mred for ever\n\x1b[0m"),
        ("\x1b]0;title\x07\x1b[2J\x9b", "�]0;title��[2J�"),
        ("safe\u202egpj.exe\u2066\u061c\u200f\ufeff", "safe�gpj.exe����"),
        ("100 %\r👩\u200d💻 می\u200cخواهم", "100 %\r👩\u200d💻 می\u200cخواهم"),  # joiners belong to text
    ],
)
def test_the_output_of_a_job_is_harmless_for_a_terminal(printed: str, shown: str) -> None:
    assert harmless_output(printed, colours=True) == shown
    assert "\x1b" not in harmless_output(printed, colours=False)


# --- nodes, policy, operators


def test_nodes_show_allocations_and_reservations(bailiff: Run) -> None:
    found = " ".join(bailiff("nodes").output.split())
    assert "train-8 releasing, then serve-2 [0-3]; serve-2 reserved [4-7]" in found
    assert "No node can save a running program (checkpoint: snapshot): no CRIU was found; to install it: docs/how-to/" in found
    wide = bailiff("nodes", "-o", "wide").output
    assert ["0", "GPU-gpu-01-0", "H100-80GB", "80GiB", "releasing", "train-8/0", "serve-2"] in cells(wide)


def test_node_replace_and_return(bailiff: Run, log_writer: LogWriter) -> None:
    assert bailiff("node", "replace", "gpu-02", "m-new").output.startswith("gpu-02 may register as machine m-new  (pool-a#")
    assert log_writer.state.nodes[1].machine_id == "m-new"
    assert bailiff("node", "return").output.startswith("lease expiry resumed")


def test_accept_truncation(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def waiting_for_an_operator(log_writer: LogWriter) -> AnsweringBus:
        bus = AnsweringBus(log_writer)
        bus.missing = (3, 90)
        return bus

    run = command_for(log_writer, monkeypatch, tmp_path, waiting_for_an_operator)
    found = run("log", "accept-truncation", "--epoch", "3", "--seq", "90", "--reason", "power loss")
    assert found.exit_code == ExitCode.DONE
    assert log_writer.state.accepted_truncation == (3, 90)


def test_a_shown_policy_can_be_edited_and_applied(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    shown = bailiff("policy", "show", "-o", "yaml").output
    file = tmp_path / "policy.yaml"
    file.write_text(shown.replace("grace: 150s", "grace: 45s").replace("search_steps: 20000", "search_steps: 500"))
    assert bailiff("policy", "check", str(file)).output.startswith(str(file))
    before = log_writer.state.rules
    applied = bailiff("policy", "apply", str(file))
    assert applied.exit_code == ExitCode.DONE, applied.output
    assert [line.strip() for line in applied.output.splitlines()[1:]] == [
        "preemption.search_steps: 20000 → 500",
        "eviction.grace: 150s → 45s",
    ]
    assert log_writer.state.rules.eviction.grace == 45 * SECOND
    assert log_writer.state.rules.retention == before.retention


@pytest.mark.parametrize("at_once", [False, True])
def test_a_policy_in_force_is_unchanged_also_where_another_has_applied_it_just_now(
    bailiff: Run, log_writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(bailiff("policy", "show", "-o", "yaml").output.replace("grace: 150s", "grace: 45s"))
    assert bailiff("policy", "apply", str(file)).exit_code == ExitCode.DONE
    since, head = log_writer.state.policy_revision, log_writer.state.seq
    if at_once:  # it had read the log before the other's record
        monkeypatch.setattr("bailiff.policy.apply.in_force", lambda *_: None)
    again = bailiff("policy", "apply", str(file))
    assert (again.exit_code, again.output) == (ExitCode.DONE, f"unchanged: policy in force since pool-a#{since}\n")
    assert log_writer.state.policy_revision == since
    assert (log_writer.state.seq > head) is at_once  # the rejection is on record


def test_a_project_that_stays_as_it_is_is_unchanged(bailiff: Run, log_writer: LogWriter) -> None:
    assert bailiff("project", "create", "vision", "--gpus", "4").exit_code == ExitCode.DONE
    head = log_writer.state.seq
    assert bailiff("project", "update", "vision", "--gpus", "4").output.startswith("project vision unchanged")
    assert log_writer.state.seq == head


def test_the_whole_policy_is_shown(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = log_writer.state.rules.model_dump(mode="json")
    data |= {
        "projects": [{"name": "vision", "quota": {"gpus": 4}}, {"name": "speech"}],
        "topologies": [{"name": "racks", "levels": ["zone", "rack"]}],
        "protections": {"eviction_cap": {"evictions": 3, "window": "1h"}, "excluded": [{"keep": "yes"}]},
    }
    log_writer.state.policy = Policy.model_validate(data, strict=False)
    log_writer.cycle(PolicyApplied(policy=log_writer.state.rules.complete()))
    output = " ".join(command_for(log_writer, monkeypatch, tmp_path)("policy", "show").output.split())
    for part in (
        "backfill preemptible",
        "projects vision, speech",
        "topology racks zone > rack",
        "evictions → 3; window → 1h",
        "keep → yes",
    ):
        assert part in output, part


def test_a_policy_based_on_an_older_revision_is_rejected(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(bailiff("policy", "show", "-o", "yaml").output.replace("grace: 150s", "grace: 45s"))
    assert bailiff("project", "create", "vision", "--gpus", "4").exit_code == ExitCode.DONE  # a concurrent change
    late = bailiff("policy", "apply", str(file))
    assert (late.exit_code, "policy-changed" in late.stderr) == (ExitCode.REJECTED, True)
    assert [project.name for project in log_writer.state.rules.projects] == ["vision"]
    assert bailiff("policy", "apply", str(file), "--anyway").exit_code == ExitCode.DONE
    assert log_writer.state.rules.eviction.grace == 45 * SECOND


def test_policy_check_names_line_and_field(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "priority_classes:\n  - {name: a, value: 1, preemptible: true, global_default: true, colour: red}\npreemption:\n"
        "  action: [allocate]\n  scope: planet\n"
    )
    found = bailiff("policy", "check", str(file))
    assert found.exit_code == ExitCode.FOUND_WRONG
    output = found.stderr.replace("\n         ", " ")
    assert f"{file}:2: priority_classes.0.colour: no such field" in output
    assert f"{file}:4: preemption.action: no such field" in output
    assert f"{file}:5: preemption.scope: expected 'pool' or 'project', found \"planet\"" in output


def test_keys(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "key"
    made = json.loads(bailiff("key", "new", str(file), "-o", "json").output)
    assert json.loads(bailiff("key", "show", str(file), "-o", "json").output) == made
    assert file.stat().st_mode & 0o077 == 0
    again = bailiff("key", "new", str(file))
    assert again.exit_code == ExitCode.USAGE
    assert "exists already" in again.stderr


# --- audit log


def test_audit_tail(bailiff: Run, log_writer: LogWriter) -> None:
    assert (
        len(cells(bailiff("audit", "tail", "--from", "0").output)) == len(log_writer.records) + 1 + 2
    )  # a date; three lines for one
    latest = bailiff("audit", "tail", "-o", "json").output.splitlines()
    assert [json.loads(line)["seq"] for line in latest] == list(range(log_writer.state.seq - 19, log_writer.state.seq + 1))
    placed = bailiff("audit", "tail", "--from", "0", "--type", "jobplaced", "--job", "train-8").output
    assert [line[2:5] for line in cells(placed)[1:]] == [["job", "placed", "train-8"]]
    wrong = bailiff("audit", "tail", "--type", "nonsense")
    assert wrong.exit_code == ExitCode.USAGE
    assert "JobPlaced" in wrong.stderr


def test_audit_show(bailiff: Run, tmp_path: Path) -> None:
    found = bailiff("audit", "show", "21").output
    bailiff("audit", "export", str(tmp_path / "log.jsonl"))
    assert bailiff("audit", "show", "21", "--file", str(tmp_path / "log.jsonl")).output == found
    assert "bailiff.audit.PreemptionDecided.v1" in found
    assert '"lost_gpu_ms": 960000' in found
    missing = bailiff("audit", "show", "99999")
    assert missing.exit_code == ExitCode.NOT_FOUND
    assert "its log ends at #" in missing.stderr


@pytest.mark.slow
def test_audit_verify_and_replay_online_and_offline(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    exported = bailiff("audit", "export", str(file))
    assert exported.output == f"{file}: {len(log_writer.records)} messages of pool-a\n"
    for place in ([], ["--file", str(file)]):
        verified = bailiff("audit", "verify", "-o", "json", *place)
        assert (verified.exit_code, json.loads(verified.output)["head_hash"]) == (ExitCode.DONE, log_writer.head.hash)
        replayed = bailiff("audit", "replay", *place)
        assert replayed.exit_code == ExitCode.DONE
        assert "replayed, every byte is identical" in replayed.output
    assert bailiff("audit", "export", "-").output == file.read_text()


def test_audit_verify_names_the_first_break(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    bailiff("audit", "export", str(file))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:10], *lines[11:]]))
    found = bailiff("audit", "verify", "--file", str(file))
    assert found.exit_code == ExitCode.FOUND_WRONG
    output = " ".join(found.output.split())
    assert "the chain is BROKEN" in output
    assert "First break: the record at offset 10 with seq 10" in output
    assert "record 9 is missing" in output
    assert bailiff("audit", "replay", "--file", str(file)).exit_code == ExitCode.FOUND_WRONG


# --- errors


def test_exit_codes_are_documented() -> None:
    found = CliRunner().invoke(app, ["help-exit-codes"])
    for code in ExitCode:
        assert f"{int(code):>3}  " in found.output
        assert str(code.__doc__) in found.output
    assert "bailiff help-exit-codes" in " ".join(CliRunner().invoke(app, ["--help"]).output.split())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientError(ExitCode.NOT_FOUND, "x"), ExitCode.NOT_FOUND),
        (BusUnavailable("Kafka at h:1 did not answer"), ExitCode.UNREACHABLE),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (ZeroDivisionError("oh"), ExitCode.INTERNAL),
    ],
)
def test_errors_set_the_exit_code_without_a_traceback(
    error: BaseException, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> ExitCode:
        raise error

    assert guarded(fails) is code
    assert "Traceback" not in capsys.readouterr().err


def test_an_unreachable_kafka_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BAILIFF_CACHE", str(tmp_path))
    found = CliRunner().invoke(app, ["list", "--kafka", "127.0.0.1:1"])
    assert found.exit_code == ExitCode.UNREACHABLE
    assert found.stdout == ""
    first, second = found.stderr.splitlines()
    assert first == "bailiff: Kafka at 127.0.0.1:1 did not answer: no connection"
    assert "make up; it prints the line that sets its address" in second
    assert "--kafka HOST:PORT or BAILIFF_KAFKA__BOOTSTRAP" in second


def test_an_invalid_setting_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BAILIFF_HTTP_PORT", "many")
    found = CliRunner().invoke(app, ["list"])
    assert found.exit_code == ExitCode.USAGE
    assert "settings: http_port (BAILIFF_HTTP_PORT): expected a whole number" in found.stderr


def test_settings_come_from_the_settings_file_of_the_services(
    log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "bailiff.yaml"
    file.write_text("kafka: {bootstrap: 'h:1'}\npool: pool-z\ndigest_every: 100\n")
    monkeypatch.setenv("BAILIFF_SETTINGS", "")
    run = command_for(log_writer, monkeypatch, tmp_path)
    found = run("list", "--settings", str(file))
    assert "there is no pool 'pool-z'" in found.stderr
    assert run("list", "--settings", str(file), "--pool", "pool-a").exit_code == ExitCode.DONE


def test_with_two_pools_the_pool_must_be_named(bailiff: Run, log_writer: LogWriter) -> None:
    preemption_story(LogWriter("pool-b", 1, log_writer.cluster))
    found = bailiff("list")
    assert found.exit_code == ExitCode.USAGE
    assert "choose one with --pool" in found.stderr
    assert bailiff("list", "--pool", "pool-b").exit_code == ExitCode.DONE
    assert len(json.loads(bailiff("pools", "-o", "json").output)) == 2


# --- watching


class WatchEnded(Exception):
    """Ends the watch when no answers are left."""


async def watch_output(output: Output, answers: list[Any]) -> str:
    out = io.StringIO()
    session = Session({}, output)
    session.out = Console(file=out, width=100)

    async def poll() -> Any:
        if not answers:
            raise WatchEnded
        return answers.pop(0)

    with pytest.raises(WatchEnded), redirect_stdout(out):
        await session.watch(poll, lambda rows: f"{len(rows)} rows", every=0)
    return out.getvalue()


async def test_watch_prints_each_change() -> None:
    assert (await watch_output(Output.TABLE, [[1], [1], [1, 2]])).split() == ["1", "rows", "2", "rows"]


async def test_watch_json_ignores_changes_of_age_fields() -> None:
    answers = [[{"a": 1, "pending_s": 1}], [{"a": 1, "pending_s": 2}], [{"a": 2, "pending_s": 3}]]
    assert [json.loads(line)[0]["a"] for line in (await watch_output(Output.JSON, answers)).splitlines()] == [1, 2]


@pytest.mark.parametrize(
    ("demand", "code", "evicted", "figures"),
    [
        ({"max_failures": 0}, 3, False, (1, 0)),
        ({"on_failure": "end"}, 3, False, (1, 0)),
        ({}, 0, False, (0, 0)),
        ({"on_eviction": "end"}, 85, True, (0, 1)),
    ],
)
def test_list_and_describe_count_the_end_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, demand: dict[str, Any], code: int, evicted: bool, figures: tuple[int, int]
) -> None:
    log_writer = LogWriter()
    log_writer.begin()
    log_writer.node("own")
    log_writer.submit("once", gpus=8, **demand)
    log_writer.start("once")
    if evicted:
        log_writer.submit("high", gpus=8, class_="inference")
        log_writer.propose()
        log_writer.evict("once")
    else:
        log_writer.finish("once", code)
    bailiff = command_for(log_writer, monkeypatch, tmp_path)
    listed = [row for row in json.loads(bailiff("list", "--all", "-o", "json").output) if row["job"] == "once"]
    described = json.loads(bailiff("describe", "once", "-o", "json").output)["summary"]
    assert [(row["failures"], row["evictions"]) for row in (*listed, described)] == [figures, figures]


def with_own_key(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> tuple[str, Path, Path]:
    """ada's key id and file, in a policy that names her as its operator; and a file of the policy before, without identity."""
    private, before, after = tmp_path / "ada.key", tmp_path / "before.yaml", tmp_path / "after.yaml"
    key = json.loads(bailiff("key", "new", str(private), "-o", "json").output)["keyid"]
    before.write_text(yaml.safe_dump(yaml.safe_load(bailiff("policy", "show", "-o", "yaml").output)["policy"]))
    document = yaml.safe_load(before.read_text())
    document["identity"] = {"keys": {key: "ada"}, "operators": ["ada"]}
    after.write_text(yaml.safe_dump(document))
    assert bailiff("policy", "apply", str(after), "--key", str(private)).exit_code == ExitCode.DONE
    return key, private, before


def test_a_policy_without_ones_own_key_is_applied_only_on_purpose(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    key, private, before = with_own_key(bailiff, log_writer, tmp_path)
    refused = bailiff("policy", "apply", str(before), "--key", str(private))
    assert refused.exit_code == ExitCode.USAGE
    assert "You could no longer sign requests, as it names no key of yours." in refused.output
    assert "you would lose permissions: confirmation is required" in " ".join(refused.output.split())
    assert key in log_writer.state.rules.identity.keys
    created = bailiff("project", "create", "vision", "--gpus", "4", "--key", str(private))
    assert "You could no longer" not in created.output
    assert bailiff("policy", "apply", str(before), "--key", str(private), "--yes").exit_code == ExitCode.DONE
    assert not log_writer.state.rules.identity.keys


def test_the_first_policy_of_a_pool_is_asked_about_too(
    bailiff: Run, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "first.yaml"
    first = DEFAULT_POLICY.model_copy(update={"identity": IdentityRules(keys={"a" * 43: "bob"}, operators=("bob",))})
    file.write_text(first.model_dump_json())
    refused = bailiff("policy", "apply", str(file))
    assert refused.exit_code == ExitCode.USAGE
    assert "You could no longer send the requests of operators." in refused.output
    empty = LogWriter("empty")
    empty._append(0, 0, False, PoolCreated(pool="empty", partition=0, nonce="0" * 8))
    before_any = command_for(empty, monkeypatch, tmp_path)("policy", "apply", str(file))
    assert before_any.exit_code == ExitCode.NO_ANSWER
    assert "no policy is in force in empty yet" in before_any.output


def test_ones_own_last_key_is_revoked_only_on_purpose(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    key, private, _ = with_own_key(bailiff, log_writer, tmp_path)
    refused = bailiff("key", "revoke", key, "--key", str(private))
    assert refused.exit_code == ExitCode.USAGE
    assert "You could no longer sign requests" in " ".join(refused.output.replace("│", "").split())
    assert "You could no longer" not in bailiff("key", "revoke", "b" * 43, "--key", str(private)).output
    assert "You could no longer" not in bailiff("key", "revoke", key, "--key", str(private), "--yes").output
