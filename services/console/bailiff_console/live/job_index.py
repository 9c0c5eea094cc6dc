"""Index of log offsets by job, so that the history of a job is read without reading the whole log.

A preemption decision also indexes its request and proposal. Progress records are not indexed.
"""

from array import array
from collections.abc import Iterable
from itertools import islice
from typing import Any

from bailiff_core.explain import jobs_of
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records import decisions, facts
from bailiff_log.reader import Entry

KEEP_FIRST = 50  # records of a job with more than MAX_RECORDS, besides the newest
MAX_RECORDS = 2000
MAX_REQUESTS = 1000
MAX_ENDED_JOBS = 20_000  # older ended jobs are in the archive only


class JobIndex:
    """Offsets by job, for active and pending jobs and for recently ended ones."""

    def __init__(self) -> None:
        self._offsets: dict[str, array[int]] = {}
        self._ended: dict[str, None] = {}  # in order of their end
        self._requests: dict[int, int] = {}
        self._proposal: int | None = None

    def of(self, job: str) -> list[int] | None:
        """Ascending offsets; None if the job is no longer indexed."""
        offsets = self._offsets.get(job)
        return sorted(dict.fromkeys(offsets)) if offsets is not None else None

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self._offsets)

    def take(self, entry: Entry, state: PoolState) -> None:
        """Index the next record."""
        data, about = entry.record.data, [entry.offset]
        if isinstance(data, facts.TaskProgressed):
            return
        if isinstance(data, facts.ProposalReceived):
            self._proposal = entry.offset
        elif isinstance(data, decisions.PreemptionRequested):
            self._requests[entry.record.seq] = entry.offset
            while len(self._requests) > MAX_REQUESTS:
                del self._requests[next(iter(self._requests))]
        elif isinstance(data, decisions.PreemptionDecided | decisions.PreemptionRefused):
            answered = (self._requests.get(data.request), self._proposal)
            about += [offset for offset in answered if offset is not None]
        for name in jobs_of(entry.record):
            job = state.jobs.get(name)
            if name in self._offsets or (job is not None and job.phase not in ENDED):
                self._note(name, about)
        if isinstance(data, facts.JobSubmitted):
            self._ended.pop(data.demand.job, None)
        elif isinstance(data, decisions.JobEnded):
            self._ended[data.job] = None
            self._forget(state)

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {"offsets": {job: list(offsets) for job, offsets in self._offsets.items()}, "ended": list(self._ended)}

    def restore(self, data: Any) -> None:
        """Load what `to_data` wrote. Raises `AttributeError`, `TypeError` or `ValueError` for anything else."""
        self._offsets = {str(job): array("Q", offsets) for job, offsets in data["offsets"].items()}
        self._ended = {str(job): None for job in data["ended"]}

    def clear(self) -> None:
        """Remove everything."""
        self._offsets.clear()
        self._ended.clear()
        self._requests.clear()
        self._proposal = None

    def _forget(self, state: PoolState) -> None:
        """Drop jobs that ended too long ago or are no longer in the state."""
        for job in list(islice(self._ended, 2)):
            if len(self._ended) > MAX_ENDED_JOBS or job not in state.jobs:
                del self._ended[job]
                self._offsets.pop(job, None)

    def _note(self, job: str, about: Iterable[int]) -> None:
        offsets = self._offsets.get(job)
        if offsets is None:
            offsets = self._offsets[job] = array("Q")
        offsets.extend(about)
        if len(offsets) > MAX_RECORDS:
            del offsets[KEEP_FIRST : len(offsets) - MAX_RECORDS // 2]
