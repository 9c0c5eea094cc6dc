"""Admission's answers to what was asked for here, as they go by in the logs that the console follows anyway."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bailiff.client import Outcome, request_of
from bailiff_bus.log import Entry
from bailiff_core.records.facts import InputRejected


class Answers:
    """Whoever waits for one. source: under which the console asks."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._waiting: dict[str, list[asyncio.Future[Outcome]]] = {}

    def take(self, entry: Entry) -> None:
        """The next record of any pool's log."""
        if not self._waiting:
            return
        data, asked = entry.record.data, request_of(entry)
        if isinstance(data, InputRejected) and data.source == self.source:
            self._tell(data.id, Outcome(False, entry.record.seq, data.code, data.reason))
        elif asked is not None and asked.source == self.source:
            self._tell(asked.id, Outcome(True, entry.record.seq))

    @contextmanager
    def awaited(self, id: str) -> Iterator["asyncio.Future[Outcome]"]:  # noqa: A002 - of the request
        """To be begun before the request goes out."""
        found: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(id, [])
        others.append(found)
        try:
            yield found
        finally:
            others.remove(found)
            if not others:
                del self._waiting[id]

    def _tell(self, id: str | None, outcome: Outcome) -> None:  # noqa: A002
        for found in self._waiting.get(id or "", ()):
            if not found.done():
                found.set_result(outcome)
