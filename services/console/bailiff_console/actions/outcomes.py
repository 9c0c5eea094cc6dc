"""Outcomes of requests published by the console, observed in the followed logs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bailiff.client.client import Outcome, request_of
from bailiff_core.records.facts import AttachEnded, AttachGranted, AttachReady, InputRejected
from bailiff_log.reader import Entry


class PendingOutcomes:
    """Callers waiting for an outcome. source: the console's request source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._waiting: dict[str, list[asyncio.Future[Outcome]]] = {}

    def take(self, entry: Entry) -> None:
        """The next record of any followed log."""
        if not self._waiting:
            return
        data, request = entry.record.data, request_of(entry)
        if isinstance(data, InputRejected) and data.source == self.source:
            self._resolve(data.id, Outcome(False, entry.record.seq, data.code, data.reason))
        elif request is not None and request.source == self.source:
            self._resolve(request.id, Outcome(True, entry.record.seq))

    @contextmanager
    def awaited(self, id: str) -> Iterator["asyncio.Future[Outcome]"]:  # noqa: A002 - of the request
        """A future of the outcome. Enter before the request is published."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        others = self._waiting.setdefault(id, [])
        others.append(future)
        try:
            yield future
        finally:
            others.remove(future)
            if not others:
                del self._waiting[id]

    def _resolve(self, id: str | None, outcome: Outcome) -> None:  # noqa: A002
        for future in self._waiting.get(id or "", ()):
            if not future.done():
                future.set_result(outcome)


class GrantAnswers:
    """What agents answer to grants that the console has requested. source: as above."""

    MOST = 1000

    def __init__(self, source: str) -> None:
        self._source = source
        self._answers: dict[tuple[str, int], asyncio.Future[AttachReady | AttachEnded]] = {}

    def take(self, entry: Entry) -> None:
        """The next record of any followed log."""
        data = entry.record.data
        if isinstance(data, AttachGranted) and data.request.source == self._source:
            self._answers[entry.record.pool, entry.record.seq] = asyncio.get_running_loop().create_future()
            while len(self._answers) > self.MOST:
                self._answers.pop(next(iter(self._answers))).cancel()
        elif isinstance(data, AttachReady | AttachEnded):
            answer = self._answers.get((entry.record.pool, data.grant))
            if answer is not None and not answer.done():
                answer.set_result(data)

    async def answer(self, pool: str, grant: int, timeout_s: float) -> AttachReady | AttachEnded | None:
        """Where the agent waits for the client, or why it does not; None without an answer in time."""
        answer = self._answers.get((pool, grant))
        if answer is None:
            return None
        await asyncio.wait({answer}, timeout=timeout_s)
        self._answers.pop((pool, grant), None)
        return answer.result() if answer.done() and not answer.cancelled() else None
