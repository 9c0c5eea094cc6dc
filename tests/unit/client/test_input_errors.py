"""Errors in snapshots, policies and job files name the line, the field, the value found and the values allowed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.client import job_parser
from bailiff.client.errors import ClientError, ExitCode

HERE = Path(__file__).parent


def cases(file: str) -> list[Any]:
    return [pytest.param(each, id=each["case"]) for each in yaml.safe_load((HERE / file).read_text(encoding="utf-8"))]


def errors_of(folder: Path, content: bytes, *command: str) -> list[str]:
    """Error lines of the command, without the file's name."""
    file = folder / "file.yaml"
    file.write_bytes(content)
    found = CliRunner(env={"COLUMNS": "300"}).invoke(app, [*command, str(file)])
    assert found.exit_code in (ExitCode.FOUND_WRONG, ExitCode.USAGE), found.output
    return [line.split("file.yaml:", 1)[1].strip() for line in found.stderr.splitlines() if "file.yaml:" in line]


@pytest.mark.parametrize("case", cases("invalid_snapshots.yaml"))
def test_snapshot_errors(case: dict[str, Any], tmp_path: Path) -> None:
    assert errors_of(tmp_path, case["file"].encode(), "plan") == case["says"]


@pytest.mark.parametrize("case", cases("invalid_policies.yaml"))
def test_policy_errors(case: dict[str, Any], tmp_path: Path) -> None:
    assert errors_of(tmp_path, case["file"].encode(), "policy", "check") == case["says"]


@pytest.mark.parametrize("command", [("plan",), ("policy", "check")])
def test_empty_and_non_utf8_files(command: tuple[str, ...], tmp_path: Path) -> None:
    assert errors_of(tmp_path, b"", *command)[0].endswith(", found nothing")
    assert errors_of(tmp_path, b"nodes: \xff\n", *command) == ["is not UTF-8"]


@pytest.mark.parametrize(("command", "opening"), [(("plan",), "["), (("plan",), '{"nodes": ['), (("policy", "check"), "- ")])
@pytest.mark.slow
def test_a_deeply_nested_file_is_rejected(command: tuple[str, ...], opening: str, tmp_path: Path) -> None:
    """Runs in its own process: libyaml would crash on the file."""
    file = tmp_path / "deep.yaml"
    file.write_text(opening * 100_000)
    found = subprocess.run(
        [sys.executable, "-m", "bailiff", *command, file], capture_output=True, text=True, env={**os.environ, "COLUMNS": "300"}
    )
    assert found.returncode == ExitCode.USAGE, found.stderr
    assert "deep.yaml:1: nested more than 50 deep" in found.stderr


def test_a_budget_may_name_a_project_of_the_snapshot(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    budgets = "policy: {protections: {budgets: [{name: few, project: a, max_disruptions: 1}]}}"
    file.write_text(f"nodes: [{{name: n1}}]\nprojects: [{{name: a}}]\n{budgets}\n")
    assert CliRunner().invoke(app, ["plan", str(file)]).exit_code == ExitCode.DONE


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"gpu_memory": 4}, "gpu-memory: expected an amount of memory per task with its unit, as in 8GiB"),
        ({"gpu_memory": 4}, "found 4, which would be a number of bytes"),
        ({"memory": "64"}, "memory: expected an amount of memory per task with its unit"),
        ({"grace": 30}, "grace: expected a time with its unit, as in 30s"),
        ({"run_time_limit": 3600}, "run-time-limit: expected a time with its unit, as in 3600s"),
        ({"stale_grace": -5}, "stale-grace: "),
        ({"gpus": "many"}, "gpus: expected a number of GPUs per task, as in 4"),
        ({"gpus": float("nan")}, "gpus: expected a number of GPUs per task"),
        ({"labels": ["a"]}, "labels: expected an object"),
        ({"min_tasks": 3, "tasks": 2}, "min"),
    ],
)
def test_job_field_errors(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ClientError) as problem:
        job_parser.job_from({"name": "j", "command": ["true"], **fields})
    assert says in str(problem.value)


def test_integer_bytes_and_microseconds_are_accepted() -> None:
    job = job_parser.job_from({"name": "j", "command": ["true"], "memory": 2**30, "grace": 30_000_000, "stale_grace": "never"})
    assert (job.demand.tasks[0].memory_bytes, job.demand.grace, job.demand.stale_grace) == (2**30, 30_000_000, "never")
