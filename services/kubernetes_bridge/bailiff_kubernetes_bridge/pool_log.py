"""One pool's log, folded, with what the state does not keep: why jobs are pending or ended, and rejected requests."""

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar

from bailiff.client.client import Place, SentRequest
from bailiff_bus.port import Bus
from bailiff_bus.topics import REQUESTS
from bailiff_core.explain import pending_reason_in
from bailiff_core.model.placement_ranges import runs_of
from bailiff_core.model.state import ENDED
from bailiff_core.records import decisions, facts
from bailiff_log.projection import Projection, ProjectionMetrics
from bailiff_log.reader import Entry
from bailiff_service.settings import PoolDeclaration

from .log_changes import LogChanges
from .messages import PoolView, Preemption, Rejection

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
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
        self._preempted: dict[str, Preemption] = {}
        self.rejected: dict[str, Rejection] = {}
        self._sent: dict[Place, str] = {}
        self._unclaimed: dict[Place, Rejection] = {}
        self._changes = LogChanges(everything=True)
        self.is_read = False

    def view(self) -> PoolView | None:
        """The folded log; None until it was read to its end, and within a cycle of decisions."""
        if not self.is_read or self._projection.state.cycle_open or self._projection.state.policy is None:
            return None
        return PoolView(self._projection.state, self._pending, self.rejected, self._ended, self._preempted)

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
        pending = pending_reason_in(entry.record.data)
        if pending is not None:
            self._pending[pending[0]] = (seq, pending[1])
        match entry.record.data:
            case decisions.PreemptionDecided() as decided:
                self._preempted |= {victim.job: Preemption.of(seq, decided, victim) for victim in decided.victims}
            case decisions.JobStarting(job=job):
                self._preempted.pop(job, None)
            case decisions.JobEnded(job=job, reason=reason):
                self._ended[job] = (seq, reason)
            case facts.InputsAdvanced(topic_ids=ids) if REQUESTS.name in ids:
                self._unclaimed.clear()  # places in a topic that is gone
            case facts.InputRejected(topic=REQUESTS.name, source=self._source) as rejected:
                self._note_rejected(rejected, seq)
        if seq % PRUNE_EVERY == 0:
            self._prune()

    def note_sent(self, request_id: str, sent: SentRequest) -> None:
        """The bridge has sent this request: what the log rejects at its place is its rejection, and nothing else is."""
        place = sent.place
        if place is None:
            return
        _keep(self._sent, place, request_id)
        rejection = self._unclaimed.pop(place, None)
        if rejection is not None:
            self._reject(request_id, rejection)

    def _note_rejected(self, rejected: facts.InputRejected, seq: int) -> None:
        """By the messages' places in the topic: anybody can send what is rejected under the bridge's source and an id of its."""
        rejection = Rejection(rejected.code, rejected.reason, seq, rejected.retry_at)
        runs = runs_of(rejected.offsets) if rejected.offsets else [range(rejected.offset, rejected.offset + 1)]
        places = [place for place in self._sent if place[0] == rejected.partition and any(place[1] in run for run in runs)]
        for place in places:
            self._reject(self._sent.pop(place), rejection)
        if not places:
            _keep(self._unclaimed, (rejected.partition, rejected.offset), rejection)

    def _reject(self, request_id: str, rejection: Rejection) -> None:
        _keep(self.rejected, request_id, rejection)
        self._changes.everything = True
        self._changed()

    def _prune(self) -> None:
        jobs = self._projection.state.jobs
        self._pending = {name: found for name, found in self._pending.items() if name in jobs and jobs[name].phase not in ENDED}
        self._ended = {name: found for name, found in self._ended.items() if name in jobs}
        self._preempted = {name: found for name, found in self._preempted.items() if name in jobs}


def _keep(known: dict[K, V], key: K, value: V) -> None:
    """The newest ones, as many as there may be rejections."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_REJECTED:
        del known[next(iter(known))]
