"""`bailiff reserve` and `bailiff reservations`: GPUs for a project at certain times. `requests.py` has `bailiff unreserve`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from pydantic import ValidationError

from bailiff.client.answers import require_accepted
from bailiff.client.errors import UsageError
from bailiff_core.humanize import count_text, minute_text, window_text

from . import requests  # noqa: F401 - `unreserve`
from .jobs import micros_of
from .parameters import Reason
from .session import Session, command


class Repeat(StrEnum):
    """How often."""

    DAILY = "daily"
    WEEKLY = "weekly"


@command("reserve")
async def reserve(
    session: Session,
    gpus: Annotated[int, typer.Option("--gpus", help="How many GPUs, of any model.")],
    begin: Annotated[str, typer.Option("--from", metavar="TIME", help="When: 'Mon 08:00', 'tomorrow 08:00', now, or ISO 8601.")],
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="How long, as in 10h.")],
    project: Annotated[str, typer.Option("--project", help="Whose jobs, and those of the projects below it, may use them.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the reservation. Default: project, day and time.")] = None,
    repeat: Annotated[Repeat | None, typer.Option("--repeat", help="Repeat it. Default: once.")] = None,
    on: Annotated[str | None, typer.Option("--on", metavar="DAYS", help="Weekdays of --repeat weekly, as in mon,wed.")] = None,
    times: Annotated[int | None, typer.Option("--times", help="How many times in all, with --repeat.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Instead of --times: none begins later.")] = None,
    tz: Annotated[str | None, typer.Option("--tz", help="Time zone of the times given. Default: that of this machine.")] = None,
    reason: Reason = "",
) -> None:
    """Reserve GPUs for the jobs of a project. Repeated times are the same in UTC, whatever daylight saving time does."""
    from bailiff.client.moments import local_weekday, moment_of, weekdays_of, zone
    from bailiff_bus.validation_errors import describe_errors
    from bailiff_core.calendar.windows import begins_of, weekday_of
    from bailiff_core.records.calendar_requests import MAX_TIMES, ReserveGpus

    if (repeat is None) != (times is None and until is None) or (times is not None and until is not None):
        raise UsageError("reserve: --repeat needs one of --times and --until, and these need --repeat")
    if on is not None and repeat is not Repeat.WEEKLY:
        raise UsageError("reserve: --on is for --repeat weekly")
    where, lasts = zone(tz), micros_of("--for", duration)
    async with session.client() as client:
        projection = await client.projection(session.pool)
        now = client.now()
        at = moment_of("--from", begin, now, where)
        days: tuple[int, ...] = ()
        if on is not None:  # of the local days, those of UTC
            shift = (weekday_of(at) - local_weekday(at, where)) % 7
            days = tuple(sorted((day + shift) % 7 for day in weekdays_of("--on", on)))
        fields = {
            "reservation": name or _name(project, at),
            "project": project,
            "gpus": gpus,
            "begin": at,
            "duration": lasts,
            "repeat": "never" if repeat is None else repeat.value,
            "weekdays": days,
            "times": 1 if times is None else times,
            "reason": reason,
        }
        try:
            body = ReserveGpus.model_validate(fields)
            if until is not None:
                last = moment_of("--until", until, now, where)
                many = body.model_copy(update={"times": MAX_TIMES + 1})
                body = ReserveGpus.model_validate({**fields, "times": sum(begins <= last for begins in begins_of(many))})
        except ValidationError as error:
            raise UsageError(describe_errors(error.errors(include_url=False))) from None
        seq = (await require_accepted(client, await client.request(projection.pool, body))).seq
        first = next(begins_of(body))
        often = f", {body.repeat}, {count_text(body.times, 'time')}" if body.repeat != "never" else ""
        text = f"{body.reservation}: {count_text(gpus, 'GPU')} for project {project}, {window_text(first, first + lasts)}{often}"
        session.show({"pool": projection.pool, "seq": seq, **body.to_data()}, lambda: f"{text}  ({projection.pool}#{seq})")


@command("reservations")
async def reservations(
    session: Session,
    ical: Annotated[bool, typer.Option("--ical", help="Print a calendar for other programs (iCalendar, RFC 5545).")] = False,
) -> None:
    """List reservations of GPUs: whose, how many, and when next; and the maintenance of nodes."""
    from rich.console import Group

    from bailiff.client.preview import at
    from bailiff.tables.reservations import calendar_text, maintenance_table, reservations_table
    from bailiff_core.views import maintenance_views, reservation_views

    async with session.client() as client:
        projection = await client.projection(session.pool)
        state = at(projection.state, client.now())
        rows, nodes = reservation_views(state), maintenance_views(state)
        if ical:
            session.out.file.write(calendar_text(projection.pool, rows, nodes, client.now()))
            return
        session.show(rows, lambda: Group(reservations_table(rows), *([maintenance_table(nodes)] if nodes else [])))


def _name(project: str, begin: int) -> str:
    day, clock = minute_text(begin).split()
    return f"{project[:46]}-{day.replace('-', '')}-{clock.replace(':', '')}"
