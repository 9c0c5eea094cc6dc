"""What the record of a fact says besides its contents: its writer, what caused it, which inputs are done with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bailiff_core.admission import reported
from bailiff_core.decision_cycle import fact_record
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RequestFact
from bailiff_core.records.wire import Record

REQUESTS = "bailiff.requests"
OF_WRITER = (
    *(facts.PoolCreated, facts.WriterStarted, facts.StateDigest, facts.DecisionFailed, facts.TruncationReconciled),
    *(facts.ClockAdvanced, facts.ClockStepped, facts.InputsAdvanced, facts.InputsLost),
    *(facts.NodeReachable, facts.NodeUnreachable, facts.NodeLost, facts.NodesSilent),
)
"""Facts that no input causes: the writer says them of itself."""
WITH_REQUESTER = (RequestFact, facts.PolicyApplied, facts.InputRejected)


@dataclass(slots=True)
class Inputs:
    """What the state does not keep of the inputs of the records before.

    Attributes:
        last: The cause of the last fact: several facts of one input follow each other.
        cut: Partitions that ended before the position of the present writer: it may still have inputs from before, whose places
            are given again.
    """

    last: str = ""
    cut: set[str] = field(default_factory=set)

    def follow(self, record: Record) -> None:
        """The next record of the log."""
        match record.data:
            case facts.WriterStarted():
                self.last, self.cut = "", set()
            case facts.InputsLost() as lost if lost.to_offset < lost.from_offset:
                self.last = ""
                self.cut.add(f"{lost.topic}/{lost.partition}")
            case Fact():
                self.last = record.cause


def contradiction(state: PoolState, record: Record, before: Inputs) -> str:
    """Returns why no writer of this logic records this fact after the records before it; empty: nothing contradicts it.

    Args:
        state: After the records before it.
        record: Of a fact.
    """
    fact = record.data
    if not isinstance(fact, Fact):
        return ""
    if (record.actor or record.auth or record.request) and not isinstance(fact, WITH_REQUESTER):
        return "a fact that nobody requested has no actor"
    if isinstance(fact, facts.WriterStarted):
        return _of_writer(state, record, fact)
    if not state.writer:
        return _of_creation(state, record)
    again = fact_record(state, fact, state.cycle if state.cycle_open else state.cycle + 1, record.time)
    for name in ("writer", "engine", "policy", "cycle"):
        said, expected = getattr(record, name), getattr(again, name)
        if said != expected:
            return f"{name} {expected}, not {said}"
    if isinstance(fact, facts.TruncationReconciled) and not state.truncation_unreconciled:
        return "no loss of the log is to be reconciled"
    of_inputs = _of_positions(state, record, fact, before) or _of_cause(state, record, fact, before)
    return of_inputs or reported.contradiction(state, fact)


def _of_creation(state: PoolState, record: Record) -> str:
    """Of the records before the first writer: the pool, and its first policy."""
    if record.seq > 1:
        return ""  # a log that was cut: its first policy follows the writer
    engine = state.engine if record.seq else record.engine
    said = (record.cycle, record.cycle_end, record.policy, record.engine, record.cause, record.inputs)
    expected = (0, record.seq == 1, state.policy_revision, engine, "", ())
    if isinstance(record.data, facts.PolicyApplied) and (record.data.enforce or record.data.reason):
        return "nobody has asked for a log's first policy, to enforce it or for a reason"
    return "" if said == expected and not (record.actor or record.auth) else f"{expected} as first record, not {said}"


def _of_writer(state: PoolState, record: Record, fact: facts.WriterStarted) -> str:
    policy = state.policy_revision if state.writer else record.policy
    said = (record.writer, record.policy, record.cause, record.inputs, fact.inputs)
    expected = (fact.writer, policy, "", (), state.inputs)
    return "" if said == expected else f"a writer, policy, cause and inputs as {expected}, not {said}"


def _of_positions(state: PoolState, record: Record, fact: Fact, before: Inputs) -> str:
    """Whether a position of requests goes back, which only the writer says of itself, with lost inputs."""
    if isinstance(fact, OF_WRITER) and not isinstance(fact, facts.InputsAdvanced):
        return ""
    for name, end in record.inputs:
        known = state.inputs.get(name, 0)
        if name.rpartition("/")[0] == REQUESTS and end < known and name not in before.cut:
            return f"the position of {name} does not go back from {known}"
    return ""


def _of_cause(state: PoolState, record: Record, fact: Fact, before: Inputs) -> str:
    """Whether the input that it names is done with this record, or with the fact before it."""
    if isinstance(fact, OF_WRITER) or not record.cause:
        required = bool(state.root_key) and not isinstance(fact, OF_WRITER) and not _of_nobody(record)
        return "a fact of the writer itself has no cause" if record.cause else "no input causes it" if required else ""
    partition, _, number = record.cause.rpartition("/")
    if not number.isdecimal():
        return f"an input as its cause, not {record.cause}"
    if isinstance(fact, facts.InputRejected) and record.cause != f"{fact.topic}/{fact.partition}/{fact.offset}":
        return f"it rejects the input {fact.topic}/{fact.partition}/{fact.offset}, and names {record.cause}"
    if isinstance(fact, facts.LogTruncated):  # a writer that waits for it does nothing else
        return ""
    offset, done = int(number), dict(record.inputs)
    ahead = [name for name, _ in record.inputs if name.count("/") > 1 and not name.startswith(f"{REQUESTS}/")]
    if ahead:
        return f"requests alone are taken in turn, and {ahead[0]} says that other inputs were done ahead of theirs"
    if record.cause == before.last and state.cycle_open:
        repeated = all(state.inputs.get(name) == end for name, end in record.inputs)  # a record may repeat all positions
        return "" if repeated else f"it advances inputs, and {record.cause} was done with the fact before it"
    if partition in before.cut:
        return ""
    known = state.inputs.get(partition, 0)
    position = done.get(partition, known)
    if not (offset < position or _in_range(done, partition, offset) or _in_range(state.inputs, partition, offset)):
        return f"the input {record.cause}, which it names, is not done with it"
    if known <= position and (offset < known or _in_range(state.inputs, partition, offset)):
        return f"the input {record.cause}, which it names, was done before"
    return ""


def _of_nobody(record: Record) -> bool:
    """Whether it has no single cause: rejections that are counted together, and a log's first policy."""
    fact = record.data
    if isinstance(fact, facts.InputRejected):
        return not (record.auth or record.request)
    return isinstance(fact, facts.PolicyApplied) and fact.request is None


def _in_range(inputs: Mapping[str, int], partition: str, offset: int) -> bool:
    """Whether one of the recorded ranges, of inputs that were done ahead of their turn, includes it."""
    for name, end in inputs.items():
        if offset < end:
            of, _, first = name.rpartition("/")
            if of == partition and int(first) <= offset:
                return True
    return False
