"""The log of a simulation: real records, chained and hashed as by admission, in memory or passed to a sink."""

from collections.abc import Callable, Iterable

from bailiff_core.decision_cycle import decide, decision_record, fact_record
from bailiff_core.engine import LOGIC, RELEASE, STATE_SCHEMA
from bailiff_core.fold import close_cycle, fold
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, Wire, encode, facts, record_hash
from bailiff_core.records.chain import GENESIS
from bailiff_core.records.payload import Decision, Fact

from .digest import digest_of

DIGEST = "0" * 64  # digest of the code: a simulation names its engine by release and LOGIC only
ENGINE = f"{RELEASE}+{DIGEST[:12]}/{LOGIC}"
WRITER = "5" * 32
REQUESTS, REPORTS = "bailiff.requests/0", "bailiff.node-reports/0"
PROPOSALS, PROGRESS = "bailiff.proposals/0", "bailiff.eviction-progress/0"
InputFact = tuple[Fact, str]
Sink = Callable[[Record, Wire], None]


class SimulatedLog:
    """One pool's state and its log.

    Attributes:
        sink: Gets every record with its bytes, in order.
        digest: Hash of the newest record, which covers all before it: two runs with one digest have the same bytes.
    """

    def __init__(self, pool: str, policy: Policy, begin: int, sink: Sink | None = None) -> None:
        self.state = PoolState(pool=pool, writer=WRITER, engine=ENGINE)
        self.digest = GENESIS
        self.records = 0
        self._sink = sink
        self._last: Record | None = None
        self._offsets = {REQUESTS: 0, REPORTS: 0, PROPOSALS: 0, PROGRESS: 0}
        self._write(facts.PoolCreated(pool=pool, partition=0, nonce="00" * 16), begin, 0)
        self._write(facts.PolicyApplied(policy=policy.complete()), begin, 0, cycle_end=True)
        close_cycle(self.state)
        self.state.epoch += 1
        started = facts.WriterStarted(
            writer=WRITER, release=RELEASE, digest=DIGEST, logic=LOGIC, state_schema=STATE_SCHEMA, inputs={}
        )
        self.cycle(begin, [(started, "")])

    def cycle(self, time: int, inputs: Iterable[InputFact]) -> tuple[list[str], list[Decision]] | None:
        """Runs one decision cycle of these facts, each with its input topic, if any. Each is folded before the next is generated.

        Returns the jobs that changed, and the decisions; None if there were no facts.
        """
        state = self.state
        number, before = state.cycle + 1, state.seq
        for fact, topic in inputs:
            self._write(fact, time, number, topic)
        if state.seq == before:
            return None
        decided = []
        for decision in decide(state):
            decided.append(decision)
            self._append(decision_record(state, decision, "", False))
        touched = list(state.indices.touched)
        close_cycle(state)
        assert self._last is not None
        self._last.cycle_end = True
        self._flush()
        return touched, decided

    def _write(self, fact: Fact, time: int, cycle: int, topic: str = "", cycle_end: bool = False) -> None:
        state, offset = self.state, self._offsets.get(topic, 0)
        if isinstance(fact, facts.InputRejected):
            fact = fact.model_copy(update={"offset": offset})
        record = fact_record(state, fact, cycle, time)
        record.cycle_end = cycle_end
        if topic:
            self._offsets[topic] = offset + 1
            record.cause, record.inputs = f"{topic}/{offset}", ((topic, offset + 1),)
        if record.seq == 1:  # the state keeps the first record's hash
            self._flush()
            record.prev = self.digest
        fold(state, record)
        self._append(record)

    def _append(self, record: Record) -> None:
        """Buffers the record until the next one, since only then is it known whether it ends its cycle."""
        self._flush()
        self._last = record

    def _flush(self) -> None:
        record, self._last = self._last, None
        if record is None:
            return
        record.prev = self.digest
        self.records += 1
        if self._sink is None:
            self.digest = digest_of(record)
            return
        wire = encode(record)
        self.digest = record_hash(wire)
        self._sink(record, wire)
