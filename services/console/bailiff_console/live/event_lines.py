"""Records as event lines of the live stream, as `bailiff events` prints them."""

from collections.abc import Iterator

from typing_extensions import TypedDict

from bailiff.render.events import events_of
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record

from .change import packed


class EventLine(TypedDict):
    """An event of a record. type: of the record; event: as `bailiff events` names it."""

    seq: int
    time: str
    type: str
    event: str
    job: str | None
    project: str | None
    node: str | None
    message: str


def event_lines(record: Record, state: PoolState) -> Iterator[bytes]:
    """Event lines as JSON; most records have none. state: after the record."""
    for row in events_of(record, state):
        line: EventLine = {
            "seq": row["seq"],
            "time": row["time"],
            "type": record.type.split(".")[-2],
            "event": row["type"],
            "job": row["job"] or None,
            "project": row["project"] or None,
            "node": row["node"] or None,
            "message": row["reason"],
        }
        yield packed(line)
