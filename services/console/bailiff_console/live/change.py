"""What changed in one tick, as bytes that are made once and sent to everybody.

`show` says which parts a page wants; a message for the same parts is the same bytes for all pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

SHOWN = frozenset({"nodes", "jobs", "projects", "queue", "events", "telemetry"})
Show = frozenset[str]
Rows = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Place:
    """Just after a record of a pool's log; hash: of that record, so that another log of the same name is told apart."""

    pool: str
    seq: int
    hash: str

    def __str__(self) -> str:
        """As `Last-Event-ID`."""
        return f"{self.pool}:{self.seq}:{self.hash[:8]}"


@dataclass(slots=True)
class Change:
    """From just after `before` to just after `place`."""

    before: Place
    place: Place
    head: bytes  # the members seq, time and pool
    rows: Mapping[str, Rows]  # by part: nodes, jobs, projects
    gone: Mapping[str, Sequence[str]]
    queue: bytes | None = None
    classes: bytes | None = None
    events: Sequence[bytes] = ()
    _made: dict[Show, bytes] | None = field(default_factory=dict)

    def message(self, show: Show) -> bytes:
        """The event for a page that wants these parts; the same bytes for all of them."""
        made = self._made.get(show) if self._made is not None else None
        if made is None:
            made = event("change", b"{%b}" % b",".join(self._members(show)), str(self.place))
            if self._made is not None:
                self._made[show] = made
        return made

    def forget_messages(self) -> None:
        """Keep the parts only: from now on it is sent to nobody but who comes back, or reads slowly."""
        self._made = None

    def size(self) -> int:
        """Bytes that it keeps, about."""
        return (
            sum(len(row) for rows in self.rows.values() for row in rows.values())
            + len(self.queue or b"") + sum(map(len, self.events)) + 500
        )  # fmt: skip

    def _members(self, show: Show) -> list[bytes]:
        sets = [b'"%b":%b' % (part.encode(), members(rows)) for part, rows in self.rows.items() if part in show and rows]
        gone = {part: names for part, names in self.gone.items() if part in show and names}
        found = [self.head, b'"set":{%b}' % b",".join(sets), b'"gone":' + orjson.dumps(gone)]
        if self.queue is not None and show & {"queue", "jobs"}:
            found.append(b'"queue":' + self.queue)
        if self.classes is not None:
            found.append(b'"classes":' + self.classes)
        if self.events and "events" in show:
            found.append(b'"events":[%b]' % b",".join(self.events))
        return found


def merged(changes: Sequence[Change]) -> Change:
    """One change that says what these, in their order, say one after the other."""
    if len(changes) == 1:
        return changes[0]
    rows: dict[str, dict[str, bytes]] = {}
    gone: dict[str, dict[str, None]] = {}
    for change in changes:
        for part, names in change.gone.items():
            for name in names:
                gone.setdefault(part, {})[name] = None
                rows.get(part, {}).pop(name, None)
        for part, fresh in change.rows.items():
            rows.setdefault(part, {}).update(fresh)
            for name in fresh:
                gone.get(part, {}).pop(name, None)
    queues = [change.queue for change in changes if change.queue is not None]
    classes = [change.classes for change in changes if change.classes is not None]
    return Change(
        changes[0].before, changes[-1].place, changes[-1].head, rows, {part: list(names) for part, names in gone.items()},
        queues[-1] if queues else None, classes[-1] if classes else None, [line for change in changes for line in change.events],
    )  # fmt: skip


def packed(data: Any) -> bytes:
    """JSON that is to be kept: orjson's own bytes hold on to the room that they were written in, 4 KiB for a row and more."""
    return bytes(memoryview(orjson.dumps(data)))


def members(rows: Rows) -> bytes:
    """A JSON object of these rows."""
    return b"{%b}" % b",".join(b"%b:%b" % (orjson.dumps(name), row) for name, row in rows.items())


def event(name: str, data: bytes, place: str = "") -> bytes:
    """One server-sent event."""
    where = f"id: {place}\n" if place else ""
    return b"%bevent: %b\ndata: %b\n\n" % (where.encode(), name.encode(), data)
