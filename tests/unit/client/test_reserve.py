"""`bailiff reserve`, `reservations` and `unreserve`, and times as people write them."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rich.console import Console
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on

from bailiff.client.client import Client
from bailiff.client.errors import ClientError
from bailiff.client.moments import moment_of, weekdays_of, zone
from bailiff.tables.reservations import calendar_text, maintenance_table, reservations_table
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Maintenance
from bailiff_core.views import maintenance_view, reservation_views

HOUR = 3_600_000_000
BERLIN = ZoneInfo("Europe/Berlin")


class ClientThen(Client):
    """Its clock is that of the log."""

    then: Callable[[], int]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.now = type(self).then


@pytest.fixture
def made() -> LogWriter:
    made = LogWriter()
    data = DEFAULT_POLICY.model_dump(mode="json") | {"projects": [{"name": "demo"}]}
    made.begin(Policy.model_validate(data, strict=False))
    made.node("gpu-01", gpus=8)
    return made


@pytest.fixture
def bailiff(made: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    bus = AnsweringBus(made)
    monkeypatch.setattr("bailiff.client.client.Client", ClientThen)
    monkeypatch.setattr(ClientThen, "then", lambda: made.now, raising=False)
    return command_on(lambda: bus, monkeypatch, str(tmp_path / "cache"))


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


def test_gpus_are_reserved_listed_printed_for_calendars_and_given_back(bailiff: Run) -> None:
    args = ("--gpus", "4", "--from", "tomorrow 08:00", "--for", "10h", "--project", "demo", "--tz", "UTC")
    made = bailiff("reserve", *args, "--name", "course", "--reason", "practicals; room 4, first floor")
    assert made.exit_code == 0, made.output
    assert made.output.startswith("course: 4 GPUs for project demo, ")
    (row,) = json.loads(bailiff("reservations", "-o", "json").output)
    assert (row["reservation"], row["gpus"], row["duration_s"], row["now"], row["times_left"]) == ("course", 4, 36_000, False, 1)
    lines = bailiff("reservations").output.splitlines()
    assert lines[1].split()[:3] == ["course", "demo", "4"]
    printed = bailiff("reservations", "--ical").output
    assert "DURATION:PT10H" in printed
    assert "SUMMARY:4 GPUs for demo" in printed
    assert "DESCRIPTION:practicals\\; room 4\\, first floor" in printed
    gone = bailiff("unreserve", "course")
    assert gone.output.startswith("the reservation course is cancelled")
    assert "No reservations" in bailiff("reservations").output


def test_maintenance_of_a_node_is_planned_listed_and_cancelled(bailiff: Run, made: LogWriter) -> None:
    at = ("drain", "gpu-01", "--from", "2026-12-08T08:00", "--for", "4h", "--tz", "Europe/Berlin", "--reason", "new fans")
    tried = bailiff(*at, "--dry-run")
    assert "nothing was requested" in tried.output
    assert not made.state.maintenance
    done = bailiff(*at, "--yes")
    assert done.exit_code == 0, done.output
    assert "gpu-01 has maintenance, 2026-12-08 07:00 to 11:00 UTC" in done.output
    assert "to cancel it: bailiff undrain gpu-01" in done.output
    assert "2026-12-08" in bailiff("reservations").output
    assert "new fans" in bailiff("reservations", "--ical").output
    again = json.loads(bailiff(*at, "--yes", "-o", "json").output)
    assert (again["begin"][:16], again["end"][:16]) == ("2026-12-08T07:00", "2026-12-08T11:00")
    assert bailiff("undrain", "gpu-01").exit_code == 0
    assert not made.state.maintenance


@pytest.mark.parametrize("more", [("--from", "sat 08:00"), ("--for", "4h"), ("--from", "sat 08:00", "--for", "4h", "--quick")])
def test_maintenance_needs_both_times_and_no_mode(bailiff: Run, more: tuple[str, ...]) -> None:
    assert "--from needs --for, and neither goes with a mode or --deadline" in bailiff("drain", "gpu-01", *more, "--yes").output


def test_a_name_is_made_of_project_and_time_and_until_counts_the_times(bailiff: Run) -> None:
    day = ("--gpus", "1", "--from", "2026-12-08T08:00", "--for", "1h", "--project", "demo")
    found = bailiff("reserve", *day, "--repeat", "weekly", "--on", "tue,fri", "--until", "2026-12-12", "--tz", "Asia/Tokyo")
    assert found.exit_code == 0, found.output
    (row,) = json.loads(bailiff("reservations", "-o", "json").output)
    assert row["reservation"] == "demo-20261207-2300"
    assert (row["weekdays"], row["times"], row["first_begin"][:16]) == ([0, 3], 2, "2026-12-07T23:00")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--for", "10"), "--for"),
        (("--from", "Frday 08:00"), "--from: expected a time"),
        (("--tz", "Mars/Base"), "there is no time zone"),
        (("--repeat", "daily"), "--repeat needs one of"),
        (("--times", "3"), "--repeat needs one of"),
        (("--on", "mon"), "--on is for"),
        (("--gpus", "0"), "gpus"),
        (("--gpus", "9"), "not-enough-gpus"),
        (("--project", "nobody"), "no-such-project"),
        (("--name", "No Name"), "reservation"),
        (("--repeat", "daily", "--times", "101"), "times"),
    ],
)
def test_what_is_wrong_is_named(bailiff: Run, more: tuple[str, ...], said: str) -> None:
    args = ("--gpus", "4", "--from", "tomorrow 08:00", "--for", "10h", "--project", "demo", "--tz", "UTC")
    found = bailiff("reserve", *args, *more)
    assert found.exit_code != 0
    assert said in " ".join(found.output.split()), found.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-12-02T12:34:56+00:00"),  # a Wednesday
        ("Mon 08:00", "2026-12-07T07:00:00+00:00"),
        ("wednesday 13:34", "2026-12-02T12:34:00+00:00"),
        ("Wed 13:33", "2026-12-09T12:33:00+00:00"),
        ("today 08:00", "2026-12-02T07:00:00+00:00"),
        ("tomorrow 8:00", "2026-12-03T07:00:00+00:00"),
        ("18:30", "2026-12-02T17:30:00+00:00"),
        ("08:00", "2026-12-03T07:00:00+00:00"),
        ("2027-07-01 08:00", "2027-07-01T06:00:00+00:00"),
        ("2026-12-07T08:00:00Z", "2026-12-07T08:00:00+00:00"),
    ],
)
def test_times_as_people_write_them(text: str, expected: str) -> None:
    now = micros("2026-12-02T12:34:56+00:00")
    assert moment_of("--from", text, now, BERLIN) == micros(expected)


@pytest.mark.parametrize("text", ["", "Mon", "Mond 08:00 x", "Monty 08:00", "25:00", "08:0", "8", "next week", "9" * 250])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(ClientError, match="expected a time"):
        moment_of("--from", text, 0, UTC)


def test_days_and_zones() -> None:
    assert weekdays_of("--on", "Wed, mon,monday") == (0, 2)
    with pytest.raises(ClientError, match="expected weekdays"):
        weekdays_of("--on", "mon,xyz")
    assert zone("utc") is UTC
    assert zone("Europe/Berlin") == BERLIN


def test_a_calendar_is_in_lines_of_75_octets_that_unfold_to_the_text(made: LogWriter) -> None:
    reason = "für alle: " + "äöü " * 60
    row = {**_row(), "reason": reason, "repeat": "weekly", "weekdays": [0, 2], "times_left": 8}
    printed = calendar_text("pool-a", [row], [], micros("2026-12-01T00:00:00+00:00"))  # type: ignore[list-item]
    lines = printed.split("\r\n")
    assert lines.pop() == ""
    assert max(len(line.encode()) for line in lines) <= 75
    unfolded = printed.replace("\r\n ", "").split("\r\n")
    assert f"DESCRIPTION:{reason}" in unfolded
    assert "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=8" in unfolded
    assert "DTSTART:20261207T080000Z" in unfolded
    assert "DTSTAMP:20261201T000000Z" in unfolded
    assert "UID:7-course@pool-a.bailiff" in unfolded


def _row() -> dict[str, object]:
    return {
        "reservation": "course",
        "project": "demo",
        "gpus": 4,
        "begin": "2026-12-07T08:00:00.000000Z",
        "end": "2026-12-07T18:00:00.000000Z",
        "now": False,
        "duration_s": 36_000,
        "first_begin": "2026-12-07T08:00:00.000000Z",
        "times": 8,
        "made_at_seq": 7,
        "made_by": "ann",
    }


def test_an_empty_calendar_is_one(made: LogWriter) -> None:
    assert reservation_views(made.state) == []
    assert calendar_text("a", [], [], 0).startswith("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:")
    assert "bailiff reserve" in str(reservations_table([]))


def test_the_maintenance_of_a_node_is_in_the_calendar_and_the_table() -> None:
    noon = micros("2026-12-07T12:00:00+00:00")
    row = maintenance_view("n1", Maintenance(7, noon, noon + 4 * 3600 * 1_000_000, "new fans"))
    lines = calendar_text("pool-a", [], [row], 0).split("\r\n")
    for line in ("UID:7-n1@pool-a.bailiff", "DTSTART:20261207T120000Z", "DURATION:PT4H", "SUMMARY:Maintenance of n1"):
        assert line in lines
    assert {"DESCRIPTION:new fans", "CATEGORIES:MAINTENANCE"} <= set(lines)
    console = Console(width=100)
    with console.capture() as printed:
        console.print(maintenance_table([row]))
    assert re.search(r"n1 +2026-12-07 12:00:00 UTC +4h +new fans", printed.get()), printed.get()
