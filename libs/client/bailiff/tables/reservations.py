"""Reservations of GPUs and maintenance of nodes as tables, and as a calendar (iCalendar, RFC 5545): `bailiff reservations`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from rich.console import RenderableType
from rich.text import Text

from bailiff_core.humanize import duration_text
from bailiff_core.views import MaintenanceView, ReservationView

from .style import table, text, time_cell

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MAX_OCTETS = 75
"""Of a line of a calendar."""


def reservations_table(rows: Sequence[ReservationView]) -> RenderableType:
    """Whose, how many, and when next. UTC."""
    if not rows:
        return Text("No reservations. Make one: bailiff reserve --gpus 8 --from 'Mon 08:00' --for 10h --project NAME", "dim")
    made = table("RESERVATION", "PROJECT", "GPUS", "BEGINS", "FOR", "REPEATED", "LEFT", "REASON", right=("GPUS", "LEFT"))
    for row in rows:
        days = ",".join(DAYS[day] for day in row["weekdays"])
        often = "-" if row["repeat"] == "never" else f"{row['repeat']}{f' {days}' if days else ''}"
        made.add_row(
            text(row["reservation"], "bold"),
            text(row["project"]),
            str(row["gpus"]),
            Text("now", "green") if row["now"] else time_cell(row["begin"]),
            duration_text(row["duration_s"] * 1_000_000),
            often,
            str(row["times_left"]),
            text(row["reason"] or "-"),
        )
    return made


def maintenance_table(rows: Sequence[MaintenanceView]) -> RenderableType:
    """Which nodes, and when. UTC."""
    made = table("MAINTENANCE", "BEGINS", "FOR", "REASON")
    for row in rows:
        begins = Text("now", "yellow") if row["now"] else time_cell(row["begin"])
        made.add_row(text(row["node"], "bold"), begins, duration_text(row["duration_s"] * 1_000_000), text(row["reason"] or "-"))
    return made


def calendar_text(pool: str, rows: Sequence[ReservationView], nodes: Sequence[MaintenanceView], now: int) -> str:
    """All times of the reservations that are not over, and the maintenance of nodes.

    Args:
        now: µs UTC.
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Bailiff//Reservations//EN"]
    stamp = f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now):%Y%m%dT%H%M%SZ}"
    for row in rows:
        lines += _event(row, f"{row['reservation']}@{pool}", f"{row['gpus']} GPUs for {row['project']}", stamp)
        if row["repeat"] != "never":
            days = ";BYDAY=" + ",".join(DAYS[day][:2].upper() for day in row["weekdays"]) if row["weekdays"] else ""
            lines.append(f"RRULE:FREQ={row['repeat'].upper()}{days};COUNT={row['times_left']}")
        lines += ["CATEGORIES:RESERVATION", "TRANSP:OPAQUE", "END:VEVENT"]
    for node in nodes:
        lines += _event(node, f"{node['node']}@{pool}", f"Maintenance of {node['node']}", stamp)
        lines += ["CATEGORIES:MAINTENANCE", "TRANSP:OPAQUE", "END:VEVENT"]
    return "".join(f"{part}\r\n" for line in [*lines, "END:VCALENDAR"] for part in _folded(line))


def _event(row: ReservationView | MaintenanceView, name: str, summary: str, stamp: str) -> list[str]:
    """How its event begins."""
    lines = [
        "BEGIN:VEVENT",
        f"UID:{row['made_at_seq']}-{name}.bailiff",
        f"DTSTAMP:{stamp}",
        f"DTSTART:{_basic(row['begin'])}",
        f"DURATION:{_duration(row['duration_s'])}",
        f"SUMMARY:{_escaped(summary)}",
    ]
    return [*lines, f"DESCRIPTION:{_escaped(row['reason'])}"] if row["reason"] else lines


def _basic(time: str) -> str:
    """`20261207T080000Z` from `2026-12-07T08:00:00.000000Z`."""
    return f"{datetime.fromisoformat(time):%Y%m%dT%H%M%SZ}"


def _duration(seconds: int) -> str:
    """`PT10H`; RFC 5545 has no fractions."""
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (left, "S")) if amount]
    if hours and left and not minutes:  # minutes stand between hours and seconds
        parts.insert(1, "0M")
    return "PT" + "".join(parts)


def _escaped(value: str) -> str:
    value = "".join(each if each >= " " or each == "\n" else " " for each in value.replace("\r\n", "\n"))
    for char, written in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n")):
        value = value.replace(char, written)
    return value


def _folded(line: str) -> Iterator[str]:
    """In parts of at most 75 octets; those that go on begin with a space, and no character is cut."""
    part, octets = "", 0
    for char in line:
        size = len(char.encode())
        if octets + size > MAX_OCTETS:
            yield part
            part, octets = " ", 1
        part, octets = part + char, octets + size
    yield part
