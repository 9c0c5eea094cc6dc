"""Tracks which jobs and nodes changed since the last tick: those that records name, and those that the fold marked."""

from dataclasses import dataclass, field

from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.subjects import jobs_of

EVERYTHING = (facts.PolicyApplied, facts.ClockStepped)  # they change priorities or every recorded time
PREEMPTION_RECORDS = (
    decisions.PreemptionDecided,
    decisions.ReservationDropped,
    facts.PreemptionAbandoned,
)  # they change for which preemptor victims are evicted


@dataclass(slots=True)
class ChangeTracker:
    """jobs: names; nodes: numbers; everything: all jobs and nodes changed."""

    everything: bool = False
    jobs: dict[str, None] = field(default_factory=dict)
    nodes: dict[int, None] = field(default_factory=dict)
    _requesting: frozenset[str] = frozenset()

    def take(self, record: Record, state: PoolState) -> None:
        """Track the next record. state: after it."""
        self.jobs.update(jobs_of(record))
        data = record.data
        self.everything = self.everything or isinstance(data, EVERYTHING)
        if isinstance(data, PREEMPTION_RECORDS):
            self.jobs.update(state.evicting)
        for name in (getattr(data, "node", None), *getattr(data, "nodes", ())):
            number = state.node_numbers.get(name) if isinstance(name, str) else None
            if number is not None:
                self.nodes[number] = None
        requesting = (
            frozenset(request.job for request in state.selection.requests) if state.selection is not None else frozenset()
        )
        if requesting != self._requesting:  # a selection ends without one record per requesting job
            self.jobs.update(dict.fromkeys(sorted(requesting | self._requesting)))
            self._requesting = requesting
        self.jobs.update(state.indices.changed_jobs)  # now: building a scheduling snapshot clears them
        self.nodes.update(state.indices.changed_nodes)

    def include_preemptors(self, state: PoolState) -> None:
        """Also mark the preemptors of changed victims."""
        for name in list(self.jobs):
            job = state.jobs.get(name)
            if job is not None and job.eviction is not None and job.eviction.for_job is not None:
                self.jobs[job.eviction.for_job] = None

    def clear(self) -> None:
        """Reset after a tick."""
        self.everything = False
        self.jobs.clear()
        self.nodes.clear()
