"""Changes of one tick, serialized once and sent to every subscriber.

`show` names the parts that a subscriber wants; subscribers of the same parts get the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

PARTS = {"unlisted": "jobs"}
"""Of which part removed rows are, where the name is another."""
SHOWN = frozenset({"nodes", "jobs", "projects", "queue", "events", "telemetry"})
Show = frozenset[str]
Rows = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Position:
    """A position after a record of a pool's log. hash: of that record; it distinguishes logs of the same name."""

    pool: str
    seq: int
    hash: str

    def __str__(self) -> str:
        """As `Last-Event-ID`."""
        return f"{self.pool}:{self.seq}:{self.hash[:8]}"


@dataclass(slots=True)
class Change:
    """Changes from the state after `before` to the state after `position`."""

    before: Position
    position: Position
    head: bytes  # the members seq, time and pool
    rows: Mapping[str, Rows]  # by part: nodes, jobs, projects
    removed: Mapping[str, Sequence[str]]  # by part, and `unlisted` jobs
    queue: bytes | None = None
    classes: bytes | None = None
    events: Sequence[bytes] = ()
    _made: dict[Show, bytes] | None = field(default_factory=dict)

    def message(self, show: Show) -> bytes:
        """The server-sent event with these parts."""
        made = self._made.get(show) if self._made is not None else None
        if made is None:
            made = event("change", b"{%b}" % b",".join(self._members(show)), str(self.position))
            if self._made is not None:
                self._made[show] = made
        return made

    def forget_messages(self) -> None:
        """Drop the serialized events: from now on only reconnecting or slow subscribers need this change."""
        self._made = None

    def size(self) -> int:
        """Approximate size in bytes."""
        return (
            sum(len(row) for rows in self.rows.values() for row in rows.values())
            + len(self.queue or b"")
            + sum(map(len, self.events))
            + 500
        )

    def _members(self, show: Show) -> list[bytes]:
        updated = [b'"%b":%b' % (part.encode(), members(rows)) for part, rows in self.rows.items() if part in show and rows]
        removed = {part: names for part, names in self.removed.items() if PARTS.get(part, part) in show and names}
        found = [self.head, b'"updated":{%b}' % b",".join(updated), b'"removed":' + orjson.dumps(removed)]
        if self.queue is not None and show & {"queue", "jobs"}:
            found.append(b'"queue":' + self.queue)
        if self.classes is not None:
            found.append(b'"classes":' + self.classes)
        if self.events and "events" in show:
            found.append(b'"events":[%b]' % b",".join(self.events))
        return found


def merged(changes: Sequence[Change]) -> Change:
    """One change equivalent to these changes in order."""
    if len(changes) == 1:
        return changes[0]
    rows: dict[str, dict[str, bytes]] = {}
    removed: dict[str, dict[str, None]] = {}
    for change in changes:
        for part, names in change.removed.items():
            for name in names:
                removed.setdefault(part, {})[name] = None
                rows.get(PARTS.get(part, part), {}).pop(name, None)
        for part, fresh in change.rows.items():
            rows.setdefault(part, {}).update(fresh)
            for gone in (gone for other, gone in removed.items() if PARTS.get(other, other) == part):
                for name in fresh:
                    gone.pop(name, None)
    queues = [change.queue for change in changes if change.queue is not None]
    classes = [change.classes for change in changes if change.classes is not None]
    return Change(
        changes[0].before,
        changes[-1].position,
        changes[-1].head,
        rows,
        {part: list(names) for part, names in removed.items()},
        queues[-1] if queues else None,
        classes[-1] if classes else None,
        [line for change in changes for line in change.events],
    )


def packed(data: Any) -> bytes:
    """JSON to be kept: copied, because bytes of orjson keep their whole write buffer (at least 4 KiB) alive."""
    return bytes(memoryview(orjson.dumps(data)))


def members(rows: Rows) -> bytes:
    """A JSON object of these rows."""
    return b"{%b}" % b",".join(b"%b:%b" % (orjson.dumps(name), row) for name, row in rows.items())


def event(name: str, data: bytes, position: str = "") -> bytes:
    """One server-sent event."""
    where = f"id: {position}\n" if position else ""
    return b"%bevent: %b\ndata: %b\n\n" % (where.encode(), name.encode(), data)
