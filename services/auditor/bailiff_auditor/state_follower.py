"""Folds the log once more, for what needs the pool's state: usage samples, GPU allocations, checks of
proposals and requests.

While a selection is open the fold stays behind the log: the answer names the record on whose state it was computed, and only
there can it be searched again. Nothing is copied. The wait is bounded in records and in time.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from bailiff_core.records.decisions import SelectionTimedOut
from bailiff_core.records.facts import ProposalReceived
from bailiff_log.projection import Projection
from bailiff_log.reader import Entry

from .proposal_checks import ProposalChecks
from .request_checks import RequestChecks

MAX_WAITING = 10_000  # records
MAX_WAIT_S = 30.0
MAX_CATCH_UP = 100_000  # offsets before the end of the log, at a start, in which proposals are searched again
FOLDED_BEYOND = (
    f"its answer came more than {MAX_WAITING:,} records or {MAX_WAIT_S:.0f} s after the state on which it was computed"
)
TOO_OLD = f"it was more than {MAX_CATCH_UP:,} messages before the end of the log when the auditor read it"


class StateFollower:
    """Feeds a projection, which folds, and the checks of proposals and requests."""

    def __init__(self, projection: Projection, checks: ProposalChecks, requests: RequestChecks) -> None:
        self._projection, self._checks, self._requests = projection, checks, requests
        self._waiting: deque[tuple[Entry, float]] = deque()
        self._answers: deque[Entry] = deque()  # of those waiting: proposals and timeouts
        self._folded = False

    async def catch_up(self) -> None:
        """Fold to the end of the log as of this call, apart from what waits for a proposal."""
        await self._projection.catch_up(self._take)

    @property
    def is_waiting(self) -> bool:
        """Whether records that were read are not folded yet."""
        return bool(self._waiting)

    async def advance(self, wait: float) -> None:
        """Read new records, and fold those that need not wait."""
        await self._take(await self._projection.reader.read(wait))

    async def _take(self, entries: Sequence[Entry]) -> None:
        if self._waiting and entries and entries[0].record.seq != self._waiting[-1][0].record.seq + 1:
            self._waiting.clear()  # the log is read from its start again
            self._answers.clear()
        now = asyncio.get_running_loop().time()
        for entry in entries:
            self._waiting.append((entry, now))
            if isinstance(entry.record.data, ProposalReceived | SelectionTimedOut):
                self._answers.append(entry)
        while self._waiting and not self._must_wait(now):
            await self._fold(self._waiting.popleft()[0])

    def _must_wait(self, now: float) -> bool:
        """Whether the next record may be one on whose state the open selection's proposals are computed."""
        state = self._projection.state
        if not self._folded or state.cycle_open or state.selection is None or state.proposals is not None or self._answers:
            return False
        return len(self._waiting) <= MAX_WAITING and now - self._waiting[0][1] < MAX_WAIT_S

    async def _fold(self, entry: Entry) -> None:
        projection, received = self._projection, entry.record.data
        recent = entry.offset + MAX_CATCH_UP >= projection.reader.known_end
        if recent and self._is_searched(projection.state.seq):  # now, because the answer may have come after this state
            await self._checks.search(projection.state)
        if self._answers and self._answers[0] is entry:
            self._answers.popleft()
        if isinstance(received, ProposalReceived):
            await self._checks.compare(projection.state, entry, received, FOLDED_BEYOND if recent else TOO_OLD)
        await self._requests.take(projection.state, entry.record)
        await projection.take((entry,))
        self._folded = True

    def _is_searched(self, seq: int) -> bool:
        """Whether the next proposal was computed on the state after this record."""
        answer = self._answers[0] if self._answers else None
        if answer is None or answer.record.seq <= self._checks.after:
            return False
        return isinstance(answer.record.data, ProposalReceived) and answer.record.data.computed_at == seq
