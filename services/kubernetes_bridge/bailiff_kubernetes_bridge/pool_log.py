"""One pool's log, folded, with what the state does not keep: why jobs are pending or ended, and rejected requests."""

from collections.abc import Callable
from pathlib import Path

from bailiff_bus.port import Bus
from bailiff_core.model.state import ENDED
from bailiff_core.records import decisions, facts
from bailiff_log.projection import Projection, ProjectionMetrics
from bailiff_log.reader import Entry
from bailiff_service.settings import PoolDeclaration

from .log_changes import LogChanges
from .messages import PoolView, Rejection

MAX_REJECTED = 10_000
PRUNE_EVERY = 1_000  # records


class PoolLog:
    """Follows one pool. source: of the bridge's requests. changed: called after new records."""

    def __init__(
        self,
        bus: Bus,
        pool: PoolDeclaration,
        metrics: ProjectionMetrics,
        snapshots: Path,
        source: str,
        changed: Callable[[], None],
    ) -> None:
        self.name, self._source, self._changed = pool.name, source, changed
        self._projection = Projection(bus, pool.name, pool.partition, metrics, snapshots=snapshots, observe=self._observe)
        self._pending: dict[str, tuple[int, str]] = {}
        self._ended: dict[str, tuple[int, str]] = {}
        self._preempted: dict[str, tuple[int, str]] = {}
        self._rejected: dict[str, Rejection] = {}
        self._changes = LogChanges(everything=True)
        self.is_read = False

    def view(self) -> PoolView | None:
        """The folded log; None until it was read to its end, and within a cycle of decisions."""
        if not self.is_read or self._projection.state.cycle_open or self._projection.state.policy is None:
            return None
        return PoolView(self._projection.state, self._pending, self._rejected, self._ended, self._preempted)

    def take_changes(self) -> LogChanges:
        """What may have changed since the last call."""
        changes, self._changes = self._changes, LogChanges()
        return changes

    async def run(self) -> None:
        """Read the log and follow it, for ever."""
        try:
            await self._projection.open()
            await self._projection.catch_up()
            self.is_read = True
            self._changed()
            while True:
                if await self._projection.advance(0.5):
                    self._changed()
        finally:
            await self._projection.close()

    def _observe(self, entry: Entry) -> None:
        seq = entry.record.seq
        self._changes.note(entry.record.data)
        match entry.record.data:
            case decisions.JobPending(job=job, reason=reason):
                self._pending[job] = (seq, reason)
            case decisions.PreemptionDecided(preemptor=preemptor, victims=victims):
                self._preempted |= {victim.job: (seq, preemptor.job) for victim in victims}
            case decisions.JobStarting(job=job):
                self._preempted.pop(job, None)
            case decisions.JobEnded(job=job, reason=reason):
                self._ended[job] = (seq, reason)
            case facts.InputRejected(source=self._source, id=str(id), code=code, reason=reason):
                self._rejected[id] = Rejection(code, reason, seq)
                while len(self._rejected) > MAX_REJECTED:
                    del self._rejected[next(iter(self._rejected))]
        if seq % PRUNE_EVERY == 0:
            self._prune()

    def _prune(self) -> None:
        jobs = self._projection.state.jobs
        self._pending = {name: found for name, found in self._pending.items() if name in jobs and jobs[name].phase not in ENDED}
        self._ended = {name: found for name, found in self._ended.items() if name in jobs}
        self._preempted = {name: found for name, found in self._preempted.items() if name in jobs}
