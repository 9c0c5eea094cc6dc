"""Where in the log the records about each job are, so that what happened to one is read without reading all.

Of a decision about victims also the request and the proposal that it answers. How far a task is, is in its row and not here.
"""

from array import array
from collections.abc import Iterable
from itertools import islice
from typing import Any

from bailiff_bus.log import Entry
from bailiff_core.explain import jobs_of
from bailiff_core.model.pool import ENDED, Pool
from bailiff_core.records import decisions, facts

FIRST = 50  # of a job with more records than MOST these stay, and the newest
MOST = 2000
REQUESTS_KEPT = 1000
MOST_ENDED = 20_000  # jobs; of those that ended before them the archive has the records


class Histories:
    """Offsets by job, for the jobs that have not ended, and for those that the pool still knows and that ended lately."""

    def __init__(self) -> None:
        self._offsets: dict[str, array[int]] = {}
        self._ended: dict[str, None] = {}  # who ended first is the first
        self._requests: dict[int, int] = {}
        self._proposal: int | None = None

    def of(self, job: str) -> list[int] | None:
        """Offsets in order; None where they are not kept any more."""
        offsets = self._offsets.get(job)
        return sorted(dict.fromkeys(offsets)) if offsets is not None else None

    def __len__(self) -> int:
        """Jobs."""
        return len(self._offsets)

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
        for name in jobs_of(entry.record):
            job = pool.jobs.get(name)
            if name in self._offsets or (job is not None and job.phase not in ENDED):
                self._note(name, about)
        if isinstance(data, facts.JobSubmitted):
            self._ended.pop(data.demand.job, None)
        elif isinstance(data, decisions.JobEnded):
            self._ended[data.job] = None
            self._forget(pool)

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {"offsets": {job: list(offsets) for job, offsets in self._offsets.items()}, "ended": list(self._ended)}

    def become(self, data: Any) -> None:
        """What `to_data` wrote. Raises `AttributeError`, `TypeError` or `ValueError` for anything else."""
        self._offsets = {str(job): array("Q", offsets) for job, offsets in data["offsets"].items()}
        self._ended = {str(job): None for job in data["ended"]}

    def clear(self) -> None:
        """Nothing is known."""
        self._offsets.clear()
        self._ended.clear()
        self._requests.clear()
        self._proposal = None

    def _forget(self, pool: Pool) -> None:
        """Who ended too long ago, or is not known to the pool any more."""
        for job in list(islice(self._ended, 2)):
            if len(self._ended) > MOST_ENDED or job not in pool.jobs:
                del self._ended[job]
                self._offsets.pop(job, None)

    def _note(self, job: str, about: Iterable[int]) -> None:
        offsets = self._offsets.get(job)
        if offsets is None:
            offsets = self._offsets[job] = array("Q")
        offsets.extend(about)
        if len(offsets) > MOST:
            del offsets[FIRST : len(offsets) - MOST // 2]
