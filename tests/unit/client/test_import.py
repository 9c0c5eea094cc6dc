"""`bailiff import` on the command line, and what `simulate` and `what-if` make of the result."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.client.errors import ExitCode

ROOT = Path(__file__).parents[3]
SLURM = ROOT / "tests/slurm/recorded"
FILES = ROOT / "tests/unit/sim/history_files"
GUIDE = ROOT / "docs/how-to/import-history.md"
GIVEN = {
    "sacct.txt": SLURM / "sacct.txt", "slurm.conf": SLURM / "slurm.conf", "qos.txt": SLURM / "qos.txt",
    "assoc.txt": SLURM / "assoc-parents.txt",
    "kueue.json": FILES / "kueue.json", "pods.json": FILES / "pods.json", "audit.log": FILES / "audit.log",
    "watch.json": FILES / "kubernetes-1.37-watch.json",
    "jobs.csv": FILES / "jobs.csv",
}  # fmt: skip


def bailiff(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(name) for name in arguments])


def test_every_command_of_the_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GUIDE.read_text()
    monkeypatch.chdir(tmp_path)
    for name, path in GIVEN.items():
        (tmp_path / name).write_bytes(path.read_bytes())
    mapping = re.search(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert mapping
    (tmp_path / "mapping.yaml").write_text(mapping[1])
    commands = [
        shlex.split(line, comments=True) for line in re.findall(r"^ {4}(bailiff .*)$", text.replace("\\\n", ""), re.MULTILINE)
    ]
    assert {command[2] for command in commands if command[1] == "import"} == {"slurm", "kueue", "kubernetes", "csv"}
    for command in commands:
        found = bailiff(*command[1:])
        assert found.exit_code == ExitCode.DONE, f"{' '.join(command)}\n{found.output}"


def test_the_report_says_who_was_preempted_what_it_cost_and_how_sure_that_is(tmp_path: Path) -> None:
    found = bailiff("import", "kueue", FILES / "kueue.json", "--out", tmp_path / "h", "--checkpoint-every", "never")
    assert found.exit_code == ExitCode.DONE, found.output
    text = " ".join(found.output.split())
    assert "2 preemptions of 2 jobs: 16.0 GPU-hours lost" in text
    assert "vision-cq/high vision-cq/low 1 the record" in text
    assert "recorded: Kueue" in text
    assert re.search(r"Bailiff: \d+ evictions? instead of 1, ", text)
    assert "assumed: jobs make no checkpoints" in text


def test_data_for_programs(tmp_path: Path) -> None:
    found = json.loads(
        bailiff("import", "csv", FILES / "jobs.csv", "--mapping", FILES / "mapping.yaml", "--out", tmp_path, "-o", "json").stdout
    )
    assert [run["label"] for run in found["runs"]] == ["recorded: the farm", "Bailiff"]
    assert (found["recorded"]["preemptions"], found["bad_lines"], found["runs"][0]["evictions"]) == (1, 1, 1)
    assert found["runs"][0]["gpu_hours"]["lost"] == pytest.approx(found["recorded"]["gpu_hours_lost"])


def test_lines_that_cannot_be_read_are_limited_on_the_screen_and_whole_in_a_file(tmp_path: Path) -> None:
    file, errors = tmp_path / "sacct.txt", tmp_path / "errors.txt"
    lines = (SLURM / "sacct.txt").read_text().replace("COMPLETED", "DONE")
    file.write_text(lines)
    found = bailiff("import", "slurm", file, "--out", tmp_path / "h", "--max-errors", "2", "--errors", errors, "--no-simulate")
    assert found.exit_code == ExitCode.DONE, found.output
    written = errors.read_text().splitlines()
    assert len(written) > 2
    assert all("state: expected a state of Slurm" in line for line in written)
    assert found.stderr.count("expected a state of Slurm") == 2
    assert f"and {len(written) - 2} more lines that cannot be read: all are in" in found.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("slurm", "nowhere.txt"), "nowhere.txt: cannot be read: No such file"),
        (("slurm", SLURM / "sacct.txt", "--timezone", "Mars/Base"), "--timezone: there is no time zone 'Mars/Base'"),
        (("slurm", SLURM / "sacct.txt", "--tier", "user"), "--tier: expected qos or partition"),
        (("slurm", SLURM / "sacct.txt", "--qos", SLURM / "slurm.conf"), "expected a header with name, priority"),
        (("kueue", FILES / "pods.json"), "the files have no Workload of Kueue"),
        (("csv", FILES / "jobs.csv", "--mapping", FILES / "jobs.csv"), "expected fields such as columns"),
        (("slurm", SLURM / "sacct.txt", "--errors", "nowhere/e.txt"), "no such folder"),
        (("slurm", SLURM / "sacct.txt", "--checkpoint-every", "soon"), "--checkpoint-every: 'soon' is not a duration"),
    ],
)
def test_what_cannot_be_imported_is_reported_in_one_line(arguments: tuple[object, ...], expected: str, tmp_path: Path) -> None:
    found = bailiff("import", *arguments, "--out", tmp_path / "h")
    assert found.exit_code == ExitCode.USAGE, found.output
    assert expected in found.stderr.replace("\n", " ")


def test_what_if_says_first_what_the_other_policy_rejects(tmp_path: Path) -> None:
    """Also `worsened most` never says none over jobs that could not run."""
    small = tmp_path / "small.yaml"
    document = "priority_classes:\n- {name: high, value: 20, preemptible: true}\n"
    document += "- {name: low, value: 10, preemptible: true, global_default: true}\n"
    small.write_text(document + "projects:\n- {name: speech, quota: {gpus: 8}}\n")
    bailiff("import", "csv", FILES / "jobs.csv", "--mapping", FILES / "mapping.yaml", "--out", tmp_path / "h", "--no-simulate")
    found = bailiff("what-if", "--file", tmp_path / "h", "--policy", small)
    assert found.exit_code == ExitCode.DONE, found.output
    before, after = " ".join(found.output.split()).split("worsened most")
    assert "1 of 3 jobs rejected under the other policy" in before
    assert "job-j1" in after
    data = json.loads(bailiff("what-if", "--file", tmp_path / "h", "--policy", small, "-o", "json").stdout)
    assert [each["job"] for each in data["rejected"]] == ["job-j1"]
    assert (
        "--from and --to are for a log" in bailiff("what-if", "--file", tmp_path / "h", "--policy", small, "--from", "3").stderr
    )
