"""Builds one decision cycle: folds facts one by one, then adds the core's decisions, as records to append."""

from dataclasses import replace

from bailiff_core.decision_cycle import decide, decision_record, fact_record
from bailiff_core.fold import close_cycle, fold
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.payload import Fact


class CycleBuilder:
    """The records of one decision cycle. It advances the state, which must be discarded if the cycle is not appended."""

    def __init__(self, state: PoolState, time: int) -> None:
        self._state, self._started_seq = state, state.seq
        self._cycle = state.cycle if state.cycle_open else state.cycle + 1
        self._time = max(time, state.now)
        self.records: list[Record] = []

    def existed_before(self, job: str) -> bool:
        """Whether the job existed, and was not suspended, before this cycle."""
        found = self._state.jobs.get(job)
        return found is not None and found.seq <= self._started_seq and found.suspended_reason is None

    def has_request_for(self, job: str) -> bool:
        """Whether a request in this cycle names the job."""
        facts = [record.data for record in self.records]
        return any(getattr(fact, "request", None) is not None and getattr(fact, "job", None) == job for fact in facts)

    def add(
        self,
        fact: Fact,
        *,
        cause: str = "",
        inputs: tuple[tuple[str, int], ...] = (),
        actor: str = "",
        auth: str = "",
        request: str = "",
    ) -> None:
        """Fold one more fact. request: what the requester signed."""
        asked = {"cause": cause, "inputs": inputs, "actor": actor, "auth": auth, "request": request}
        record = fact_record(self._state, fact, self._cycle, self._time, **asked)
        fold(self._state, record)
        self.records.append(record)

    def finish(self) -> list[Record]:
        """Let the core decide once, and end the cycle with the last record."""
        for decision in decide(self._state):
            self.records.append(decision_record(self._state, decision, prev="", cycle_end=False))
        self.records[-1] = replace(self.records[-1], cycle_end=True)
        close_cycle(self._state)
        return self.records
