"""Replay a verified log: decide every cycle again, search again for every proposal, and compare."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bailiff_core.decision_cycle import decide, decision_record
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold import apply, close_cycle, fold
from bailiff_core.fold.snapshot import SnapshotIndex, state_digest
from bailiff_core.model.state import PoolState
from bailiff_core.recorded import Inputs, contradiction
from bailiff_core.records.facts import ProposalReceived, StateDigest, WriterStarted
from bailiff_core.records.payload import Decision
from bailiff_core.records.wire import Record, Wire, encode
from bailiff_core.victims.search_again import ProposalCheck, ProposalDifference

MAX_PROPOSALS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """The first record that differs from the replay.

    Attributes:
        expected: What this engine decides.
        found: What the log has.
    """

    seq: int
    cycle: int
    expected: str
    found: str


class Replay:
    """Replays the records of a log, fed in order; stops comparing at the first difference.

    Cycles decided by an engine with another `logic` are folded, not decided again, and counted in `skipped_cycles`.
    A cycle cut short by a crash must be a prefix of the decisions of the replay. Proposals are compared where `search` was
    called on the record that they name: not_reproduced counts those that differ, proposal_differences has the first of them.
    """

    def __init__(self) -> None:
        self.state = PoolState()
        self.difference: Difference | None = None
        self.cycles = self.skipped_cycles = self.decisions = self.digests = 0
        self.proposal_differences: list[ProposalDifference] = []
        self.not_reproduced = 0
        self._proposals = ProposalCheck()
        self._again: Iterator[Decision] | None = None
        self._comparable = True
        self._inputs = Inputs()

    @property
    def proposals(self) -> int:
        """Number of `ProposalReceived` records whose proposals were searched again."""
        return self._proposals.checked

    def search(self) -> None:
        """Searches again on the state after the last record, which a later `ProposalReceived` names."""
        if self.difference is None:
            self._proposals.search(self.state)

    def check_proposals(self, record: Record) -> None:
        """Compares the proposals of the record, if it has any, with those found by searching again."""
        if isinstance(record.data, ProposalReceived):
            found = self._proposals.compare(self.state, record.seq, record.data) or []
            self.not_reproduced += bool(found)
            self.proposal_differences += found[: MAX_PROPOSALS_SHOWN - len(self.proposal_differences)]

    def skip(self, record: Record) -> None:
        """Folds the next record, and compares nothing. Raises as `feed`."""
        apply(self.state, record)
        self._inputs.follow(record)

    def feed(self, record: Record, wire: Wire) -> None:
        """Compares and folds the next record.

        Raises:
            ValueError: The record does not follow the one before.
        """
        if self.difference is not None:
            return
        if isinstance(record.data, WriterStarted):
            self._comparable = record.data.logic == LOGIC
            self._again = None
            if record.engine.rpartition("/")[2] != str(record.data.logic):
                self._differs(record, f"an engine of the logic {record.data.logic}", f"the engine {record.engine}")
                return
        if isinstance(record.data, StateDigest):
            self._check_digest(record, record.data)
        if not self._comparable:
            self.skip(record)
            self.cycles += record.cycle_end
            self.skipped_cycles += record.cycle_end
        elif isinstance(record.data, Decision):
            self._compare(record, wire)
        elif self._again is not None:
            self._differs(record, "the rest of the cycle's decisions", f"the fact {record.type}")
        elif problem := contradiction(self.state, record, self._inputs):
            self._differs(record, problem, _record_text(record, wire))
        else:
            self.check_proposals(record)
            fold(self.state, record)
            self._inputs.follow(record)
            if record.cycle_end:
                self._end_cycle(record)

    def _compare(self, record: Record, wire: Wire) -> None:
        if self._again is None:
            self._again = decide(self.state)
        expected = next(self._again, None)
        if expected is None:
            self._differs(record, "the end of the cycle", _record_text(record, wire))
            return
        self.decisions += 1
        decided = decision_record(self.state, expected, record.prev, record.cycle_end)
        again = encode(replace(decided, next_content=record.next_content, signature=record.signature))
        if again != wire:
            self._differs(record, f"{expected.type_name()} {again.value.decode()}", _record_text(record, wire))
            if again.value == wire.value:
                self.difference = Difference(record.seq, record.cycle, f"headers {again.headers}", f"{wire.headers}")
            return
        if record.cycle_end:
            self._end_cycle(record)

    def _end_cycle(self, record: Record) -> None:
        missing = next(self._again if self._again is not None else decide(self.state), None)
        self._again = None
        if missing is not None:
            self._differs(record, f"one more decision: {missing.type_name()}", "the end of the cycle")
            return
        close_cycle(self.state)
        self.cycles += 1

    def _check_digest(self, record: Record, fact: StateDigest) -> None:
        if fact.schema_version != STATE_SCHEMA:
            return
        self.digests += 1
        index = SnapshotIndex()
        found = state_digest(self.state, index)
        if found != fact.digest:
            self._differs(record, f"state digest {found}", f"state digest {fact.digest}")
        elif fact.index is not None and fact.index != index.digest():
            self._differs(record, f"digest {index.digest()} of the state's index", f"digest {fact.index} of the state's index")

    def _differs(self, record: Record, expected: str, found: str) -> None:
        self.difference = Difference(record.seq, record.cycle, expected, found)


def _record_text(record: Record, wire: Wire) -> str:
    return f"{record.type} {wire.value.decode()}"
