"""Where in the log the records about each job are, so that what happened to one is read without reading all.

Of a decision about victims also the request and the proposal that it answers. How far a task is, is in its row and not here.
"""

from array import array
from collections.abc import Iterable
from typing import Any

from bailiff_bus.log import Entry
from bailiff_core.explain import jobs_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import decisions, facts

FIRST = 50  # of a job with more records than MOST these stay, and the newest
MOST = 2000
REQUESTS_KEPT = 1000


class Histories:
    """Offsets by job, for the jobs that the pool knows."""

    def __init__(self) -> None:
        self._offsets: dict[str, array[int]] = {}
        self._requests: dict[int, int] = {}
        self._proposal: int | None = None

    def of(self, job: str) -> list[int]:
        """Offsets in order."""
        return sorted(dict.fromkeys(self._offsets.get(job, ())))

    def take(self, entry: Entry, pool: Pool) -> None:
        """The next record."""
        data, about = entry.record.data, [entry.offset]
        if isinstance(data, facts.TaskProgressed):
            return
        if isinstance(data, facts.ProposalReceived):
            self._proposal = entry.offset
        elif isinstance(data, decisions.PreemptionRequested):
            self._requests[entry.record.seq] = entry.offset
            while len(self._requests) > REQUESTS_KEPT:
                del self._requests[next(iter(self._requests))]
        elif isinstance(data, decisions.PreemptionDecided | decisions.PreemptionRefused):
            answered = (self._requests.get(data.request), self._proposal)
            about += [offset for offset in answered if offset is not None]
        for job in jobs_of(entry.record):
            self._note(job, about)
        if len(self._offsets) > 2 * len(pool.jobs) + 100:
            self._offsets = {job: offsets for job, offsets in self._offsets.items() if job in pool.jobs}

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {job: list(offsets) for job, offsets in self._offsets.items()}

    def become(self, data: Any) -> None:
        """What `to_data` wrote. Raises `AttributeError`, `TypeError` or `ValueError` for anything else."""
        self._offsets = {str(job): array("Q", offsets) for job, offsets in data.items()}

    def clear(self) -> None:
        """Nothing is known."""
        self._offsets.clear()
        self._requests.clear()
        self._proposal = None

    def _note(self, job: str, about: Iterable[int]) -> None:
        offsets = self._offsets.get(job)
        if offsets is None:
            offsets = self._offsets[job] = array("Q")
        offsets.extend(about)
        if len(offsets) > MOST:
            del offsets[FIRST : len(offsets) - MOST // 2]
