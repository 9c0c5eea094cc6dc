"""`bailiff simulate` and `bailiff policy tune` on the command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.client.errors import ClientError, ExitCode
from bailiff.simulation import options
from bailiff_sim.traces import catalogue

TINY = ("tiresias-60", "--jobs", "20", "--cluster", "2x4", "--mix", "inference=30", "--mix", "train=70")

ONE_JOB = (
    "JobIDRaw|User|Account|Partition|QOS|Submit|Start|End|State|AllocTRES\n"
    "1|u|vision|p|high|2026-03-01T00:00:00|2026-03-01T00:00:01|2026-03-01T01:00:00|COMPLETED|gres/gpu=2,node=1\n"
)


def bailiff(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(name) for name in arguments])


@pytest.mark.slow
def test_a_run_writes_a_table_a_report_a_manifest_and_a_log(tmp_path: Path) -> None:
    report, manifest, log = (tmp_path / name for name in ("out.html", "m.json", "log.jsonl"))
    found = bailiff("simulate", *TINY, "--baseline", "all", "--report", report, "--manifest", manifest, "--log", log)
    assert found.exit_code == ExitCode.DONE, found.output
    assert "20 jobs of tiresias-60 on 2x4 (8 GPUs)" in found.output
    assert "shortest-remaining" in found.output
    assert report.read_text().startswith("<!doctype html>")
    assert bailiff("audit", "verify", "--file", log).exit_code == ExitCode.DONE
    assert "every byte is identical" in bailiff("audit", "replay", "--file", log).output
    again = bailiff("simulate", "--again", manifest)
    assert "reproduced: 5 runs" in again.output, again.output
    changed = json.loads(manifest.read_text())
    changed["runs"][1]["digest"] = "0" * 64
    manifest.write_text(json.dumps(changed))
    assert bailiff("simulate", "--again", manifest).exit_code == ExitCode.FOUND_WRONG


def test_json_output() -> None:
    found = json.loads(bailiff("simulate", *TINY, "-o", "json").output)
    (run,) = found["runs"]
    assert run["label"] == "default"
    assert run["jobs"] == 20
    assert found["manifest"]["experiment"]["choices"]["first"] == 20


def test_list_names_traces_formats_and_baselines() -> None:
    output = bailiff("simulate", "--list").output
    for name in ("philly-2017", "slurm", "alibaba-lingjun-2023", "youngest-first"):
        assert name in output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "expected a trace, found nothing"),
        (("phily",), "there is no trace 'phily'"),
        (("slurm:nowhere.txt",), "nowhere.txt: cannot be read: No such file or directory"),
        (("tiresias-60", "--cluster", "many"), "'many' is not a cluster"),
        (("tiresias-60", "--baseline", "best"), "expected some of fifo"),
        (("tiresias-60", "--save-time", "soon"), "--save-time: 'soon' is not a duration"),
        (("tiresias-60", "--mix", "gold=100"), "--mix has the class 'gold', which the policy lacks"),
        (("tiresias-60", "--mtbf", "0s"), "--mtbf: expected more than 0s, or never, found 0s"),
        (("tiresias-60", "--checkpoint-every", "0s"), "--checkpoint-every: expected more than 0s, or never, found 0s"),
        (("tiresias-60", "--mix", "train=60"), "--mix: expected percentages that add up to 100, found 60"),
        (("muri-philly-priority/trace3", "--mix", "train=100"), "--mix is for jobs without a tier"),
        (("tiresias-60", "--class", "LS=train"), "tiresias-60 has no tier 'LS'; its tiers are: none"),
        (("tiresias-60", "--report", "nowhere/out.html"), "nowhere/out.html: cannot be written: no such folder: nowhere"),
        (("tiresias-60", "--log", "/"), "cannot be written: is a folder"),
        (("tiresias-60", "--mix", "train"), "--mix: expected NAME=VALUE, found 'train'"),
        (("tiresias-60", "--skip", "9d"), "no job of tiresias-60 is in the selected part of it"),
        (("--again", "nowhere.json"), "nowhere.json"),
        (("tiresias-60", "--again", "nowhere.json"), "cannot be combined with the trace"),
    ],
)
def test_invalid_options_are_reported(arguments: tuple[str, ...], expected: str) -> None:
    found = bailiff("simulate", *arguments)
    assert found.exit_code == ExitCode.USAGE, found.output
    assert expected in found.stderr.replace("\n", " "), found.stderr


def test_again_excludes_options_of_the_manifest() -> None:
    arguments = ("--seeds", "3", "--cluster", "2x4", "--daily-quotas", "--baseline", "fifo", "--save-time", "30s", "-o", "json")
    found = bailiff("simulate", "tiresias-60", *arguments, "--again", "m.json", "--manifest", "new.json")
    assert found.exit_code == ExitCode.USAGE
    assert "cannot be combined with the trace, --cluster, --baseline, --seeds, --save-time, --daily-quotas; " in found.stderr
    found = bailiff("policy", "tune", "--again", "m.json", "--knob", "eviction.grace=1s,2s", "--high", "60")
    assert found.exit_code == ExitCode.USAGE
    assert "cannot be combined with --knob, --high; " in found.stderr
    assert "m.json: No such file" in bailiff("simulate", "--again", "m.json", "--manifest", "new.json", "-o", "json").stderr


def test_a_policy_with_a_fault_is_rejected(tmp_path: Path) -> None:
    policy = tmp_path / "odd.yaml"
    policy.write_text("priority_classes:\n- {name: train, value: 50, preemptible: true, global_default: true}\npreempt: {}\n")
    found = bailiff("simulate", "tiresias-60", "--policy", policy)
    assert found.exit_code == ExitCode.USAGE
    assert "odd.yaml:3: preempt: no such field" in found.stderr


def test_priority_names_without_a_class_are_reported(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text(ONE_JOB)
    assert "high: jobs of this tier get the policy's default class" in bailiff("simulate", f"slurm:{jobs}").output
    assert bailiff("simulate", f"slurm:{jobs.rename(tmp_path / 'jobs+more.txt')}").exit_code == ExitCode.DONE
    jobs = tmp_path / "jobs+more.txt"
    assert "of this tier" not in bailiff("simulate", f"slurm:{jobs}", "--class", "high=inference").output


def test_missing_projects_of_the_trace_are_reported_with_their_job_count(tmp_path: Path) -> None:
    jobs, policy = tmp_path / "jobs.txt", tmp_path / "narrow.yaml"
    jobs.write_text(ONE_JOB)
    policy.write_text(
        "priority_classes:\n- {name: train, value: 50, preemptible: true, global_default: true}\nprojects:\n- {name: speech}\n"
    )
    found = bailiff("simulate", f"slurm:{jobs}", "--policy", policy)
    assert found.exit_code == ExitCode.USAGE
    assert "narrow: the policy lacks the projects of 1 job of " in found.stderr.replace("\n", " "), found.stderr
    assert "such as 'vision': add them" in found.stderr.replace("\n", " "), found.stderr


def test_an_oversized_cluster_is_reported() -> None:
    assert "there is hardly any contention" in bailiff("simulate", "tiresias-60", "--jobs", "5").output


@pytest.mark.slow
def test_tune_shows_the_frontier_and_can_be_repeated(tmp_path: Path) -> None:
    report, manifest = tmp_path / "tune.html", tmp_path / "tune.json"
    knobs = ("--knob", "protections.min_runtime.preempt=0s,1h", "--high", 60, "--seeds", 2)
    found = bailiff("policy", "tune", *TINY, *knobs, "--report", report, "--manifest", manifest)
    assert found.exit_code == ExitCode.DONE, found.output
    assert "*" in found.output
    assert "frontier" in report.read_text()
    again = bailiff("policy", "tune", "--again", manifest)
    assert "reproduced: 4 runs" in again.output, again.output
    assert again.output.splitlines()[0] == found.output.splitlines()[0]
    changed = json.loads(manifest.read_text())
    changed["knobs"]["protections.min_runtime.preempt"][1] = "30m"
    manifest.write_text(json.dumps(changed))
    other = bailiff("policy", "tune", "--again", manifest)
    assert (other.exit_code, "found no run" in other.stderr) == (ExitCode.FOUND_WRONG, True), other.stderr
    assert "found one of bailiff policy tune" in bailiff("simulate", "--again", manifest).stderr
    assert "cannot be combined with the trace" in bailiff("policy", "tune", "tiresias-60", "--again", manifest).stderr


@pytest.mark.slow
def test_invalid_knobs_are_reported() -> None:
    wrong = bailiff("policy", "tune", *TINY, "--knob", "eviction.graze=1s")
    assert (wrong.exit_code, "there is no field 'graze'" in wrong.stderr) == (ExitCode.USAGE, True)
    for knob, expected in (
        ("projects.vision.quota.gpus=4", "the policy has no 'projects.vision'; known: none"),
        ("evictions.grace=4", "the policy has no 'evictions'; known: priority_classes"),
        ("eviction.grace=soon", "eviction.grace=soon: eviction.grace: 'soon' is not a duration: write a whole"),
    ):
        assert expected in bailiff("policy", "tune", *TINY, "--knob", knob).stderr.replace("\n", " ")
    assert "name a policy field" in bailiff("policy", "tune", *TINY).stderr


def test_without_matplotlib_the_error_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "bailiff_sim.report", raising=False)
    with pytest.raises(ClientError) as caught:
        options.simulator("report")
    assert "./libs[sim]" in caught.value.advice


@pytest.mark.slow
def test_plotting_is_imported_for_reports_only() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from bailiff.cli import app;"
        f"words = {TINY!r}; CliRunner().invoke(app, ['simulate', *words], catch_exceptions=False);"
        "CliRunner().invoke(app, ['policy', 'tune', *words, '--knob', 'eviction.grace=1s,2s'], catch_exceptions=False);"
        "print('bailiff_sim.tune' in sys.modules, 'matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "True False"


@pytest.mark.slow
def test_a_trace_is_read_once_per_command(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[None] = []
    load = catalogue.SHIPPED["tiresias-60"]
    monkeypatch.setitem(catalogue.SHIPPED, "tiresias-60", lambda: read.append(None) or load())
    assert bailiff("simulate", *TINY, "--baseline", "fifo", "--seeds", 2).exit_code == ExitCode.DONE
    assert bailiff("policy", "tune", *TINY, "--knob", "eviction.grace=1s,2s").exit_code == ExitCode.DONE
    assert len(read) == 2
