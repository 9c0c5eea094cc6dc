"""Records as lines of the live stream: what `bailiff events` tells."""

from collections.abc import Iterator

from bailiff.events import events_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record

from .change import packed


def event_lines(record: Record, pool: Pool) -> Iterator[bytes]:
    """Each as JSON; none for most records. pool: just after the record."""
    for row in events_of(record, pool):
        yield packed(
            {
                "seq": row["seq"], "time": row["time"], "type": record.type.split(".")[-2], "word": row["type"],
                "job": row["job"] or None, "project": row["project"] or None, "node": row["node"] or None, "text": row["reason"],
            }
        )  # fmt: skip
