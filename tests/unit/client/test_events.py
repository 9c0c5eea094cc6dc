"""Event types of each job, filters, and the export of events as JSONL and CSV."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.kits.log_builder import MINUTE, Story
from tests.kits.story_script import play
from tests.unit.client.kit import LogWriter, Run, finished_story

from bailiff.client.errors import ExitCode
from bailiff.render import events
from bailiff.tables.records import event_line
from bailiff_core.explain import explain_job
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.subjects import jobs_of


@pytest.fixture
def log_writer() -> LogWriter:
    return finished_story(LogWriter())


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


@pytest.mark.parametrize("elastic", ["live", "restart"])
def test_a_shrink_is_one_event_whatever_order_its_tasks_leave_in(elastic: str) -> None:
    story = play("node n1: 8 gpus")
    story.runs("wide", gpus=1, tasks=8, min_tasks=4, elastic=elastic)
    play("+1m; submit high: inference, 4 gpus; propose; begin wide", story=story)
    for task in (6, 4, 7, 5) if elastic == "live" else (6, 0, 4, 7, 3, 5, 1, 2):
        story.exits("wide", code=85, task=task)
        story.releases("wide", task=task)
    if elastic == "restart":
        story.started("wide")
    found = [(row["type"], row["tasks"], row["reason"]) for row in of_story(story) if row["job"] == "wide"]
    told = [each for each in found if each[0] in ("Started", "Shrunk", "Resumed")]
    if elastic == "live":
        assert told == [("Started", "", "attempt 1"), ("Shrunk", "4-7", "continues with 4 of 8 tasks: preemption")]
    else:
        shrunk = ("Shrunk", "4-7", "restarts with 4 of 8 tasks: preemption")
        assert told == [("Started", "", "attempt 1"), shrunk, ("Resumed", "", "attempt 2, 4 of 8 tasks")]


@pytest.mark.parametrize("late", [False, True])
def test_tasks_that_stay_do_not_hide_a_shrink(late: bool) -> None:
    story = play(
        "node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4; +1m; submit high: inference, 2 gpus; propose; begin wide; cancel high",
        "exits wide code=85 task=6; releases wide task=6",
    )
    assert [row["tasks"] for row in of_story(story) if row["type"] == "Shrunk"] == []  # whether 7 stays is not known yet
    if late:
        play("cancel_eviction_refused wide task=7; exits wide code=85 task=7; releases wide task=7", story=story)
    else:
        story.eviction_cancelled("wide", task=7)
    assert [row["tasks"] for row in of_story(story) if row["type"] == "Shrunk"] == ["6-7" if late else "6"]


@pytest.mark.parametrize("end", ["cancelled", "evicted whole", "the others finish", "its last task finishes"])
def test_a_job_that_ends_while_it_shrinks_has_one_event_for_what_became_of_it(end: str) -> None:
    story = play("node n1: 8 gpus; runs wide: 8 x 1 gpu, min 4; +1m; submit high: inference, 4 gpus; propose")
    for task in (4, 5):
        story.ends("wide", code=85, task=task)
    if end == "cancelled":
        story.cancel("wide")
        story.ends("wide", code=85)
    elif end == "evicted whole":
        story.evict("wide")
        story.yields("wide")
    else:
        for task in (0, 1, 2, 3):
            story.ends("wide", task=task)
        for task in (6, 7):
            story.ends("wide", code=85 if end == "the others finish" else 0, task=task)
    told = [(row["type"], row["tasks"]) for row in of_story(story) if row["job"] == "wide"]
    ends = {
        "cancelled": [("Stopping", ""), ("Cancelled", "")],
        "evicted whole": [("Evicting", ""), ("Requeued", "")],
        "the others finish": [("Shrunk", "4-7"), ("Succeeded", "")],
        "its last task finishes": [("Shrunk", "4-5"), ("Succeeded", "")],
    }
    assert [each for each in told if each[0] in ("Shrunk", "Evicting", "Stopping", "Requeued", "Cancelled", "Succeeded")] == ends[
        end
    ]


@pytest.mark.parametrize(
    ("demand", "leaves"),
    [
        ({"min_tasks": 1, "elastic": "live"}, (2, 3)),
        ({"min_tasks": 1, "elastic": "live"}, (2,)),
        ({"min_tasks": 1, "elastic": "restart"}, (0, 1, 2, 3)),
        ({}, (0, 1)),
        ({}, (0, 1, 2, 3)),
        ({"on_eviction": "end"}, (0, 1)),
        ({"on_eviction": "end"}, (0, 1, 2, 3)),
    ],
)
def test_explain_says_later_what_the_event_said_is_lost(demand: dict[str, Any], leaves: tuple[int, ...]) -> None:
    """While its tasks leave one by one, and after they have left."""
    story = play("node n1: 4 gpus")
    story.runs("low", gpus=1, tasks=4, **demand)
    play("+11m; submit high: inference, 2 gpus; propose; begin low", story=story)
    for task in leaves:
        story.ends("low", code=85, task=task, after=MINUTE)
    (reason,) = [row["reason"] for row in of_story(story) if row["type"] == "Preempted"]
    said = re.search(r"loses (.* to restart \(assumed\))", reason)
    assert said is not None
    history = [record for record in story.records if "low" in jobs_of(record)]
    told = [each.text for section in explain_job(story.state, story.job("low"), history) for each in section.sentences]
    (later,) = [text for text in told if text.startswith("Its loss when it was selected")]
    assert later == (f"Its loss when it was selected: {said[1]}, without another checkpoint.")


def test_a_victim_has_the_kubernetes_condition(log_writer: LogWriter) -> None:
    row = next(row for row in event_rows(log_writer) if row["type"] == "Preempted" and row["job"] == "train-8")
    assert (row["condition_type"], row["condition_status"], row["condition_reason"]) == (
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
    )
    assert "to accommodate serve-2, by preempt" in row["condition_message"]
    assert (row["by"], row["node"]) == ("serve-2", "gpu-01")
    assert row["reason"].startswith("for serve-2 (inference 125 > train 50), loses 12.0 GPU-min of work")


def test_every_event_has_a_unique_id_and_a_known_type(log_writer: LogWriter) -> None:
    found = event_rows(log_writer)
    assert len({row["id"] for row in found}) == len(found)
    assert all(row["type"] in events.WORDS and tuple(row) == events.COLUMNS for row in found)
    assert found[0]["id"] == "pool-a:1:PolicyApplied"


def test_a_job_that_failed_is_restarted_and_not_resumed() -> None:
    log_writer = finished_story(LogWriter())
    log_writer.finish("train-8", exit_code=3)  # it was preempted before; its failures exceed the maximum
    assert types_of(log_writer, "train-8")[-1] == "Failed"
    story = play("node n1: 1 gpu; runs brittle: 1 gpu, max_failures 1; ends brittle code=3; wait 1m; started brittle")
    types = [row["type"] for row in of_story(story) if row["job"] == "brittle"]
    assert [event_type for event_type in types if event_type != "Pending"] == [
        "Submitted",
        "Scheduled",
        "Started",
        "Requeued",
        "Scheduled",
        "Restarted",
    ]


def test_a_job_whose_reservation_was_dropped_starts_and_does_not_restart() -> None:
    story = play(
        "node n1: 1 gpu; runs old: 1 gpu; +1m; submit next: 1 gpu; exits old; next is reserved; evict next; releases old",
        "+1m; started next; next.attempt = 2",
    )
    types = [row["type"] for row in of_story(story) if row["job"] == "next"]
    assert [event_type for event_type in types if event_type in ("Started", "Restarted", "Resumed")] == ["Started"]


def test_a_start_is_one_event_and_a_growth_is_one_event_however_many_tasks_join() -> None:
    """Each task above the minimum is placed by a decision of its own."""
    story = play(
        "node n1: 4 gpus; runs elastic: 9 x 1 gpu, min 2, elastic live; node n2: 3 gpus; +1m; started elastic task=6",
        "started elastic task=4; started elastic task=5; node n3: 2 gpus; started elastic task=7; started elastic task=8",
    )
    assert len(list(story.decisions("JobGrown"))) == 7
    told = [(row["type"], row["reason"]) for row in of_story(story) if row["job"] == "elastic"][1:]
    started, *grown = [(word, reason) for word, reason in told if word != "Scheduled"]
    assert started == ("Started", "attempt 1, 4 of 9 tasks")
    assert grown == [("Grown", "7 of 9 tasks"), ("Grown", "all its tasks")]


def test_tasks_that_wait_for_resources_are_one_reservation_and_one_growth() -> None:
    story = play("node n1: 8 gpus; runs short: 3 x 1 gpu; runs wide: 8 x 1 gpu, min 2, elastic live")
    for task in range(3):
        story.exits("short", task=task, after=MINUTE)
    for task in range(3):
        story.releases("short", task=task)
    assert len(list(story.decisions("JobStarting"))) == 3
    for task in (5, 6, 7):
        story.started("wide", task=task)
    told = [(row["type"], row["reason"]) for row in of_story(story) if row["job"] == "wide"]
    assert told[2:] == [
        ("Started", "attempt 1, 5 of 8 tasks"),
        ("Reserved", "more of its tasks: resources are being released"),
        ("Grown", "all its tasks"),
    ]


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


def cancelled_in_the_grace() -> Story:
    """high is cancelled after low got its notice."""
    return play("node n1: 8 gpus; runs low: 2 x 4 gpus; +1m; submit high: inference, 8 gpus; propose; begin low")


def told(story: Story) -> list[tuple[str, str]]:
    return [(row["type"], row["reason"]) for row in of_story(story) if row["job"] == "low" and row["type"] != "Pending"][3:]


def test_an_eviction_that_its_nodes_could_not_cancel_continues() -> None:
    story = cancelled_in_the_grace()
    play("staged low term_sent; cancel high; cancel_eviction_refused low task=1; yields low; started low", story=story)
    types = ["Preempted", "EvictionContinues", "Requeued", "Scheduled", "Resumed"]
    assert [word for word, _ in told(story)] == types
    assert told(story)[1][1] == "on n1, too late: it was already told to stop; it resumes later"


@pytest.mark.parametrize("answers", ["4- 5- 6- 7-", "4+ 5- 6- 7+", "4- 5+ 6+ 7-", "4x 5+ 6+ 7+", "4+ 5+ 6+ 7+", "4x 5- 6+ 7-"])
def test_one_eviction_is_one_event_of_each_kind_however_many_nodes_answer(answers: str) -> None:
    """Tasks of which the node says that they stay (+), or that it is too late (-), or that exit before it answers (x)."""
    story = Story()
    for node in ("n1", "n2", "n3", "n4"):
        story.node(node, gpus=2)
    play(
        "runs wide: 8 x 1 gpu, min 4, elastic live; +1m; submit high: inference, 4 x 1 gpu; propose; begin wide; cancel high",
        story=story,
    )
    for task, answer in ((int(each[0]), each[1]) for each in answers.split()):
        if answer == "x":
            story.exits("wide", code=85, task=task)
        elif answer == "+":
            story.eviction_cancelled("wide", task=task)
        else:
            story.cancel_eviction_refused("wide", task=task)
    for task in story.job("wide").tasks:
        if task.eviction is not None:
            if task.state == "running":
                story.exits("wide", code=85, task=task.index)
            story.releases("wide", task=task.index)
    words = [row["type"] for row in of_story(story) if row["job"] == "wide"]
    ended_cancelled = answers.endswith("+")
    assert words.count("Preempted") == 1
    assert words.count("EvictionContinues") == ("-" in answers)
    assert words.count("EvictionCancelled") == ended_cancelled
    assert words.count("Shrunk") == ("-" in answers or "x" in answers)


def test_an_eviction_is_cancelled_once_all_its_nodes_have_confirmed() -> None:
    story = cancelled_in_the_grace()
    story.cancel("high")
    assert [word for word, _ in told(story)] == ["Preempted"]
    story.eviction_cancelled("low", task=0)
    assert [word for word, _ in told(story)] == ["Preempted"]
    story.eviction_cancelled("low", task=1)
    assert [word for word, _ in told(story)] == ["Preempted", "EvictionCancelled"]
    assert story.job("low").phase == "running"


def test_lines_of_what_is_about_no_job_have_their_text_in_its_column() -> None:
    lines = [event_line(row).plain for row in of_story(play("node n1: 8 gpus; submit low: train, 8 gpus"))]
    found = [re.sub(r"^.*#\d+ +", "", line).split()[:2] for line in lines]
    assert found == [["PolicyApplied", "-"], ["NodeReady", "n1"], ["Submitted", "low"], ["Scheduled", "low"]]
