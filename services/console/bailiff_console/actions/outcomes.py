"""Outcomes of requests published by the console, observed in the followed logs."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from bailiff.client.client import Outcome, Place, SentRequest, request_of
from bailiff_bus.topics import REQUESTS
from bailiff_core.model.placement_ranges import runs_of
from bailiff_core.records.facts import AttachEnded, AttachGranted, AttachReady, InputRejected, InputsAdvanced
from bailiff_log.reader import Entry


class PendingOutcomes:
    """Callers waiting for an outcome. source: the console's request source.

    A rejection is found by its message's place in the topic, as anybody can send what is rejected under the console's source and
    any id; an accepted request by its id, which is bound to its signer.
    """

    MOST = 1000

    def __init__(self, source: str) -> None:
        self.source = source
        self._accepted: dict[tuple[str, str], list[asyncio.Future[Outcome]]] = {}
        self._rejected: dict[Place, asyncio.Future[Outcome]] = {}
        self._unclaimed: dict[Place, Outcome] = {}

    def take(self, entry: Entry) -> None:
        """The next record of any followed log."""
        if not self._accepted:
            return
        data, request = entry.record.data, request_of(entry)
        if isinstance(data, InputsAdvanced) and REQUESTS.name in data.topic_ids:
            self._unclaimed.clear()  # places in a topic that is gone
        elif isinstance(data, InputRejected) and data.topic == REQUESTS.name:
            self._reject(data, Outcome(False, entry.record.seq, data.code, data.reason))
        elif request is not None and request.source == self.source:
            for future in self._accepted.get((request.id, request.owner), ()):
                _resolve(future, Outcome(True, entry.record.seq))

    async def outcome_of(self, id: str, owner: str, publish: Awaitable[SentRequest], timeout_s: float) -> Outcome | None:  # noqa: A002
        """The outcome of the request that `publish` sends; None if there is none in time. owner: whose its id is."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        others = self._accepted.setdefault((id, owner), [])
        others.append(future)
        place: Place | None = None
        try:
            sent = await publish
            place = sent.place
            if place is not None:
                self._rejected[place] = future
                if place in self._unclaimed:
                    _resolve(future, self._unclaimed.pop(place))
            return future.result() if (await asyncio.wait({future}, timeout=timeout_s))[0] else None
        finally:
            others.remove(future)
            if not others:
                del self._accepted[id, owner]
            if place is not None:
                del self._rejected[place]
            if not self._accepted:
                self._unclaimed.clear()

    def _reject(self, rejected: InputRejected, outcome: Outcome) -> None:
        runs = runs_of(rejected.offsets) if rejected.offsets else [range(rejected.offset, rejected.offset + 1)]
        for (partition, offset), future in self._rejected.items():
            if partition == rejected.partition and any(offset in run for run in runs):
                _resolve(future, outcome)
        if rejected.source == self.source:
            self._unclaimed[rejected.partition, rejected.offset] = outcome
            if len(self._unclaimed) > self.MOST:
                del self._unclaimed[next(iter(self._unclaimed))]


def _resolve(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


class GrantAnswers:
    """What agents answer to grants that the console has requested: where they wait, and later how it ended. source: as above."""

    MOST = 1000

    def __init__(self, source: str) -> None:
        self.source = source
        self._answers: dict[tuple[str, int], asyncio.Queue[AttachReady | AttachEnded]] = {}

    def take(self, entry: Entry) -> None:
        """The next record of any followed log."""
        data = entry.record.data
        if isinstance(data, AttachGranted) and data.request.source == self.source:
            self._answers[entry.record.pool, entry.record.seq] = asyncio.Queue(2)
            if len(self._answers) > self.MOST:
                del self._answers[next(iter(self._answers))]
        elif isinstance(data, AttachReady | AttachEnded):
            answers = self._answers.get((entry.record.pool, data.grant))
            if answers is not None and not answers.full():
                answers.put_nowait(data)

    async def next(self, pool: str, grant: int, timeout_s: float) -> AttachReady | AttachEnded | None:
        """The agent's next answer; None if there is none in time, and then no later one is kept."""
        answers, found = self._answers.get((pool, grant)), None
        if answers is not None:
            with suppress(TimeoutError):
                found = await asyncio.wait_for(answers.get(), timeout_s)
        if not isinstance(found, AttachReady):
            self._answers.pop((pool, grant), None)
        return found
