"""`bailiff import` on the command line, and what `simulate` and `what-if` make of the result."""

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from bailiff.cli import app
from bailiff.client.errors import ExitCode
from bailiff.tables.whatif import changed_jobs

ROOT = Path(__file__).parents[3]
SLURM = ROOT / "tests/slurm/recorded"
FILES = ROOT / "tests/unit/sim/history_files"
GUIDE = ROOT / "docs/how-to/import-history.md"
GIVEN = {
    "sacct.txt": SLURM / "sacct.txt",
    "slurm.conf": SLURM / "slurm.conf",
    "qos.txt": SLURM / "qos.txt",
    "assoc.txt": SLURM / "assoc-parents.txt",
    "kueue.json": FILES / "kueue.json",
    "pods.json": FILES / "pods.json",
    "audit.log": FILES / "audit.log",
    "watch.json": FILES / "kubernetes-1.37-watch.json",
    "jobs.csv": FILES / "jobs.csv",
}


def bailiff(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(name) for name in arguments])


@pytest.mark.slow
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
        (("csv", FILES / "jobs.csv", "--mapping", FILES / "jobs.csv"), "expected an object"),
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


def test_what_if_shows_no_waiting_time_of_a_job_that_does_not_start() -> None:
    """What it has waited at the end of the time that is simulated is no answer to when it starts."""
    row = {"project": None, "class": "train", "gpus": 2, "time_lost_hours": 1, "waited_hours": [0, 2], "evictions": [0, 0]}
    screen = Console(width=120)
    with screen.capture() as shown:
        screen.print(changed_jobs([{"job": "late", **row}, {"job": "slow", **row}], ["late"]))
    _, late, slow = shown.get().splitlines()
    assert "0 s → not started" in late
    assert "0 s → 2.0 h" in slow


def imported_with_limit(tmp_path: Path, limit: int, *more: object) -> Any:
    """Four jobs of two GPUs that Slurm ran side by side, in an account with this limit."""
    (tmp_path / "assoc.txt").write_text(f"Account|User|GrpTRES|Share|ParentName\nvision||gres/gpu={limit}||root\n")
    head = "JobIDRaw|User|Account|QOS|Submit|Start|End|State|AllocTRES|NodeList"
    hour = "2026-03-01T0{}:00:00".format
    rows = [f"{n}|ada|vision|low|{hour(1)}|{hour(1)}|{hour(2)}|COMPLETED|gres/gpu=2|gpu{n}" for n in range(1, 5)]
    (tmp_path / "sacct.txt").write_text("\n".join([head, *rows]) + "\n")
    options = ("--assoc", tmp_path / "assoc.txt", "--out", tmp_path / "h", *more)
    return bailiff("import", "slurm", tmp_path / "sacct.txt", *options)


def test_the_report_says_which_setting_makes_jobs_wait_longer(tmp_path: Path) -> None:
    found = imported_with_limit(tmp_path, 2)
    assert found.exit_code == ExitCode.DONE, found.output
    text = " ".join(found.output.split())
    assert "Why jobs wait longer with Bailiff:" in text
    assert "projects[].limit (without limits) moves the mean waiting time: 0 s instead of 1.5 h." in text
    assert "no setting tried explains" not in text
    waiting = json.loads(imported_with_limit(tmp_path, 2, "-o", "json").output)["waiting"]
    assert (waiting["before"], waiting["after"], waiting["changed_from"]) == (0.0, 1.5, "after")
    assert {each["setting"]: each["waited_mean"] for each in waiting["settings"]}["projects[].limit"] == 0.0


def test_what_if_on_a_history_says_which_setting_makes_jobs_wait_longer(tmp_path: Path) -> None:
    imported_with_limit(tmp_path, 2, "--no-simulate")
    own = yaml.safe_load((tmp_path / "h" / "policy.yaml").read_text())
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump({**own, "backfill": "reserve", "projects": []}))
    found = bailiff("what-if", "--file", tmp_path / "h", "--policy", other)
    assert found.exit_code == ExitCode.DONE, found.output
    text = " ".join(found.output.split())
    assert "Why jobs wait longer with Bailiff:" in text
    assert "projects[].limit (without limits) moves the mean waiting time: 0 s instead of 45.0 min." in text
    assert "Why jobs wait less long with the other policy:" in text
    assert "projects (as in the other policy) moves the mean waiting time: 0 s instead of 45.0 min." in text
    assert "backfill (as in" not in text
    data = json.loads(bailiff("what-if", "--file", tmp_path / "h", "--policy", other, "-o", "json").stdout)["waiting"]
    assert [(each["label"], each["before"], each["after"]) for each in data] == [
        ("Bailiff", 0.0, 0.75),
        ("the other policy", 0.75, 0.0),
    ]
    same = bailiff("what-if", "--file", tmp_path / "h", "--policy", tmp_path / "h" / "policy.yaml", "-o", "json")
    assert [each["label"] for each in json.loads(same.stdout)["waiting"]] == ["Bailiff"]


def test_the_report_explains_no_difference_where_there_is_none(tmp_path: Path) -> None:
    assert "Why jobs wait" not in imported_with_limit(tmp_path, 8).output


def test_a_difference_that_no_setting_explains_is_said_to_be_none_of_them(tmp_path: Path) -> None:
    found = bailiff("import", "slurm", SLURM / "sacct.txt", "--out", tmp_path / "h")
    assert "Why jobs wait less long with Bailiff:" in found.output
    assert "most of it no setting tried explains" in " ".join(found.output.split())


BOMBED = {
    "sacct": ("slurm", "BOMB"),
    "slurm.conf": ("slurm", SLURM / "sacct.txt", "--conf", "BOMB"),
    "kueue": ("kueue", "BOMB"),
    "a table": ("csv", "BOMB", "--mapping", "MAPPING"),
}


@pytest.mark.parametrize("name", BOMBED)
def test_a_gzip_bomb_is_refused_before_it_is_expanded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff_sim.text_files.FREE_BYTES", 1_000_000)
    bomb, mapping = tmp_path / "bomb.gz", tmp_path / "mapping.yaml"
    bomb.write_bytes(gzip.compress(b" " * 20_000_000))
    mapping.write_text("columns: {job: x, submitted: x, started: x, ended: x, gpus: x}")
    given = [{"BOMB": bomb, "MAPPING": mapping}.get(str(each), each) for each in BOMBED[name]]
    found = bailiff("import", *given, "--out", tmp_path / "h")
    assert found.exit_code == ExitCode.USAGE, found.output
    assert "a gzip bomb?" in " ".join(found.output.split()) or name == "a table"  # whose fields have a limit of their own


@pytest.mark.parametrize(
    "text", [pytest.param("[" * 10_000, id="nested", marks=pytest.mark.slow), pytest.param("[" * 30_000, id="long")]
)
def test_a_mapping_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(text)
    found = bailiff("import", "csv", FILES / "jobs.csv", "--mapping", tmp_path / "mapping.yaml", "--out", tmp_path / "h")
    assert found.exit_code == ExitCode.USAGE, found.output


def test_a_damaged_gzipped_file_is_reported(tmp_path: Path) -> None:
    whole = gzip.compress((SLURM / "sacct.txt").read_bytes())
    for number, damaged in enumerate((whole[:-20], whole[:200] + b"\0" * 50 + whole[250:])):
        (tmp_path / f"{number}.gz").write_bytes(damaged)
        found = bailiff("import", "slurm", tmp_path / f"{number}.gz", "--out", tmp_path / "h")
        assert found.exit_code == ExitCode.USAGE, found.output
        assert "damaged or truncated" in " ".join(found.output.split())
