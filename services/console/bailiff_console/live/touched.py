"""Which jobs and nodes the records since the last tick touched: those that they name, and those that the fold says it changed."""

from dataclasses import dataclass, field

from bailiff_core.explain import jobs_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, decisions, facts

EVERYTHING = (facts.PolicyApplied, facts.ClockStepped)  # priorities, and every time that is kept
TO_ANOTHER = (decisions.PreemptionDecided, decisions.ReservationDropped, facts.PlanGivenUp)  # for whom somebody leaves


@dataclass(slots=True)
class Touched:
    """Names of jobs, numbers of nodes. everything: all of them."""

    everything: bool = False
    jobs: dict[str, None] = field(default_factory=dict)
    nodes: dict[int, None] = field(default_factory=dict)
    _asking: frozenset[str] = frozenset()

    def take(self, record: Record, pool: Pool) -> None:
        """The next record. pool: just after it."""
        self.jobs.update(jobs_of(record))
        data = record.data
        self.everything = self.everything or isinstance(data, EVERYTHING)
        if isinstance(data, TO_ANOTHER):
            self.jobs.update(pool.leaving)
        for name in (getattr(data, "node", None), *getattr(data, "nodes", ())):
            number = pool.node_numbers.get(name) if isinstance(name, str) else None
            if number is not None:
                self.nodes[number] = None
        asking = frozenset(request.job for request in pool.selection.requests) if pool.selection is not None else frozenset()
        if asking != self._asking:  # a selection ends without a word about each of those who asked
            self.jobs.update(dict.fromkeys(sorted(asking | self._asking)))
            self._asking = asking
        self.jobs.update(pool.stale_jobs)  # now: whoever asks for the pool's scene makes it forget them
        self.nodes.update(pool.stale_nodes)

    def settle(self, pool: Pool) -> None:
        """Also those for whom a touched job leaves."""
        for name in list(self.jobs):
            job = pool.jobs.get(name)
            if job is not None and job.eviction is not None and job.eviction.for_job is not None:
                self.jobs[job.eviction.for_job] = None

    def clear(self) -> None:
        """Everything is up to date."""
        self.everything = False
        self.jobs.clear()
        self.nodes.clear()
