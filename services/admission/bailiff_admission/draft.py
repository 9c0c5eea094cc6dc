"""A turn being written: facts folded one by one, then what the core decides on them, as records to append."""

from dataclasses import replace

from bailiff_core.fold import close_turn, fold
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record
from bailiff_core.records.payload import Fact
from bailiff_core.turn import decide, decision_record


class Draft:
    """The records of one turn. The pool moves along with it and must be thrown away if the turn is not appended."""

    def __init__(self, pool: Pool, time: int) -> None:
        self._pool, self._began = pool, pool.seq
        self._turn = pool.turn if pool.turn_open else pool.turn + 1
        self._time = max(time, pool.now)
        self.records: list[Record] = []

    def knew(self, job: str) -> bool:
        """Whether the job was there, and not held, before this turn."""
        found = self._pool.jobs.get(job)
        return found is not None and found.seq <= self._began and found.held_because is None

    def asks_about(self, job: str) -> bool:
        """Whether a request of this turn is about the job."""
        facts = [record.data for record in self.records]
        return any(getattr(fact, "request", None) is not None and getattr(fact, "job", None) == job for fact in facts)

    def add(
        self, fact: Fact, *, cause: str = "", inputs: tuple[tuple[str, int], ...] = (), actor: str = "", auth: str = ""
    ) -> None:
        """Fold one more fact."""
        pool = self._pool
        record = Record(
            domain=pool.domain,
            seq=pool.seq + 1,
            epoch=pool.epoch,
            turn=self._turn,
            turn_end=False,
            time=self._time,
            prev="",
            writer=pool.writer,
            engine=pool.engine,
            policy=pool.policy_revision,
            type=fact.type_name(),
            data=fact,
            cause=cause,
            inputs=inputs,
            actor=actor,
            auth=auth,
        )
        fold(pool, record)
        self.records.append(record)

    def finish(self) -> list[Record]:
        """Let the core decide, once, and close the turn with the last record."""
        for decision in decide(self._pool):
            self.records.append(decision_record(self._pool, decision, prev="", turn_end=False))
        self.records[-1] = replace(self.records[-1], turn_end=True)
        close_turn(self._pool)
        return self.records
