"""Event types of each job, filters, and the export of events as JSONL and CSV."""

import csv
import json
from pathlib import Path

import pytest
from tests.log_builder import MINUTE, Story
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, finished_story

from bailiff.client.errors import ExitCode
from bailiff.render import events
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record


@pytest.fixture
def log_writer() -> LogWriter:
    made = LogWriter()
    finished_story(made)
    return made


@pytest.fixture
def bailiff(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "cache"))


def event_rows(log_writer: LogWriter) -> list[events.EventRow]:
    return of_records(log_writer.records)


def of_story(story: Story) -> list[events.EventRow]:
    return of_records(story.records)


def of_records(records: list[Record]) -> list[events.EventRow]:
    state, found = PoolState(), list[events.EventRow]()
    for record in records:
        apply(state, record)
        found += events.events_of(record, state)
    return found


def types_of(log_writer: LogWriter, job: str) -> list[str]:
    return [row["type"] for row in event_rows(log_writer) if row["job"] == job]


def test_events_of_a_victim(log_writer: LogWriter) -> None:
    types = [event_type for event_type in types_of(log_writer, "train-8") if event_type != "Pending"]
    assert types == ["Submitted", "Scheduled", "Started", "Preempted", "Requeued", "Reserved", "Scheduled", "Resumed"]


def test_events_of_a_preemptor(log_writer: LogWriter) -> None:
    types = [event_type for event_type in types_of(log_writer, "serve-2") if event_type != "Pending"]
    assert types == ["Submitted", "Reserved", "Scheduled", "Started", "Succeeded"]  # a gang of three starts once


def test_a_victim_has_the_kubernetes_condition(log_writer: LogWriter) -> None:
    row = next(row for row in event_rows(log_writer) if row["type"] == "Preempted" and row["job"] == "train-8")
    assert (row["condition_type"], row["condition_status"], row["condition_reason"]) == (
        "DisruptionTarget", "True", "PreemptionByScheduler",
    )  # fmt: skip
    assert "to accommodate serve-2, by preempt" in row["condition_message"]
    assert (row["by"], row["node"]) == ("serve-2", "gpu-01")
    assert row["reason"].startswith("for serve-2 (inference 125 > train 50), loses 16.0 GPU-min")


def test_every_event_has_a_unique_id_and_a_known_type(log_writer: LogWriter) -> None:
    found = event_rows(log_writer)
    assert len({row["id"] for row in found}) == len(found)
    assert all(row["type"] in events.WORDS and tuple(row) == events.COLUMNS for row in found)
    assert found[0]["id"] == "pool-a:1:PolicyApplied"


def test_a_job_that_failed_is_restarted_and_not_resumed() -> None:
    log_writer = LogWriter()
    finished_story(log_writer)
    log_writer.finish("train-8", exit_code=3)  # it was preempted before; its failures exceed the maximum
    assert types_of(log_writer, "train-8")[-1] == "Failed"
    story = Story()
    story.node("n1", gpus=1)
    story.runs("brittle", gpus=1, max_failures=1)
    story.ends("brittle", code=3)
    story.wait(MINUTE)
    story.started("brittle")
    types = [row["type"] for row in of_story(story) if row["job"] == "brittle"]
    assert [event_type for event_type in types if event_type != "Pending"] == [
        "Submitted",
        "Scheduled",
        "Started",
        "Requeued",
        "Scheduled",
        "Restarted",
    ]


def test_a_growing_job_has_one_started_event() -> None:
    story = Story()
    story.node("n1", gpus=2)
    story.runs("elastic", gpus=1, tasks=4, min_tasks=2)
    story.node("n2", gpus=1)
    story.started("elastic", after=MINUTE)
    assert len(story.job("elastic").tasks) == 3
    types = [row["type"] for row in of_story(story) if row["job"] == "elastic"]
    assert [event_type for event_type in types if event_type != "Pending"] == ["Submitted", "Scheduled", "Started", "Grown"]


def test_the_latest_events_are_shown_and_filtered(bailiff: Run) -> None:
    assert len(bailiff("events").output.splitlines()) == 20
    lines = bailiff("events", "--from", "0", "--job", "train-7", "-t", "preempted", "-t", "Resumed").output.splitlines()
    assert [line.split()[3:5] for line in lines] == [["Preempted", "train-7"], ["Resumed", "train-7"]]
    wrong = bailiff("events", "-t", "Vanished")
    assert (wrong.exit_code, "Preempted" in wrong.stderr) == (ExitCode.USAGE, True)


def test_events_are_exported(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    rows = event_rows(log_writer)
    assert bailiff("events", "--export", str(tmp_path / "all.jsonl")).output == f"{tmp_path}/all.jsonl: {len(rows)} events\n"
    assert [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()] == rows
    bailiff("events", "--export", str(tmp_path / "all.csv"), "--job", "train-8")
    with (tmp_path / "all.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["type"] for row in found] == types_of(log_writer, "train-8")
    assert found[0].keys() == rows[0].keys()
    for arguments in (["--export", "x.txt"], ["--export", "x.csv", "--follow"]):
        assert bailiff("events", *arguments).exit_code == ExitCode.USAGE


def test_csv_formulas_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    row = events.EventRow(**dict.fromkeys(events.COLUMNS, ""))  # type: ignore[typeddict-item]
    with file.open("w", newline="") as out:
        events.write_csv(out, [{**row, "reason": '=HYPERLINK("http://x")'}])
    assert "'=HYPERLINK" in file.read_text()
