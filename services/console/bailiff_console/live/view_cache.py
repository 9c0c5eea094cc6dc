"""Derived values that the page shows and the pool's state does not hold: pending reasons, eviction totals by project.

A function of the records alone; saved next to the projection's snapshot.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from bailiff.render.plain_text import plain
from bailiff_core.explain import pending_reason_in
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions
from bailiff_log.accounting_rows import lost_work_of


@dataclass(slots=True)
class PendingReason:
    """Why a job is pending: the record that says so, and its time, µs. rule: the protection that excludes most candidates."""

    text: str
    seq: int
    at: int
    rule: str | None = None


@dataclass(slots=True)
class Tally:
    """Of a project's jobs, since the log's first record: preemptions of them and the work lost by these, as accounting counts
    both, and victims chosen for them.
    """

    preempted: int = 0
    work_lost_gpu_ms: int = 0
    caused: int = 0


@dataclass(slots=True)
class ViewCache:
    """Values by job and by project. first_record_at: the time of the log's first record, µs."""

    first_record_at: int = 0
    pending: dict[str, PendingReason] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def take(self, record: Record, state: PoolState) -> None:
        """Apply the next record. state: after it."""
        data = record.data
        if record.seq == 0:
            self.first_record_at = record.time
        self._note_pending(record)
        if isinstance(data, decisions.JobEnded):
            self.pending.pop(data.job, None)
        if isinstance(data, decisions.PreemptionDecided):
            evicted = [choice for choice in data.new_victims if not choice.reserved and not choice.relocated]
            self._tally(data.preemptor.project).caused += len(evicted)
        found = lost_work_of(state, record)
        if found is not None and found[1].cause == "preemption":
            tally = self._tally(state.jobs[found[0][0]].project)
            tally.preempted += 1
            tally.work_lost_gpu_ms += found[1].work_gpu_ms

    def clear(self) -> None:
        """Remove everything."""
        self.restore(ViewCache())

    def restore(self, other: "ViewCache") -> None:
        """Take over the values of `other`."""
        self.first_record_at, self.pending, self.tallies = other.first_record_at, other.pending, other.tallies

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> "ViewCache":
        """Parse what `to_data` wrote. Raises `KeyError` or `TypeError` for anything else."""
        return cls(
            int(data["first_record_at"]),
            {job: PendingReason(**each) for job, each in data["pending"].items()},
            {project: Tally(**each) for project, each in data["tallies"].items()},
        )

    def _tally(self, project: str) -> Tally:
        return self.tallies.setdefault(project, Tally())

    def _note_pending(self, record: Record) -> None:
        found = pending_reason_in(record.data)
        if found is None:
            return
        job, reason = found
        excluded = record.data.explanation.excluded if isinstance(record.data, decisions.PreemptionRefused) else ()
        rule = max(excluded, key=lambda each: each.jobs).rule if excluded else None
        self.pending[job] = PendingReason(plain(reason), record.seq, record.time, rule)
