"""What the record of a fact says besides its contents: its writer, what caused it, which inputs are done with it."""

from collections.abc import Mapping

from bailiff_core.admission import reported
from bailiff_core.decision_cycle import fact_record
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RequestFact
from bailiff_core.records.wire import Record

OF_WRITER = (
    *(facts.PoolCreated, facts.WriterStarted, facts.StateDigest, facts.DecisionFailed, facts.TruncationReconciled),
    *(facts.ClockAdvanced, facts.ClockStepped, facts.InputsAdvanced, facts.InputsLost),
    *(facts.NodeReachable, facts.NodeUnreachable, facts.NodeLost, facts.NodesSilent),
)
"""Facts that no input causes: the writer says them of itself."""
WITH_REQUESTER = (RequestFact, facts.PolicyApplied, facts.InputRejected)


def contradiction(state: PoolState, record: Record, last_cause: str = "") -> str:
    """Returns why no writer of this logic records this fact after the records before it; empty: nothing contradicts it.

    Args:
        state: After the records before it.
        record: Of a fact.
        last_cause: Of the fact before it: several facts of one input follow each other.
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
    return _of_cause(state, record, fact, last_cause) or reported.contradiction(state, fact)


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


def _of_cause(state: PoolState, record: Record, fact: Fact, last_cause: str) -> str:
    """Whether the input that it names is done with this record, or with the fact before it."""
    rejected = fact if isinstance(fact, facts.InputRejected) else None
    if isinstance(fact, OF_WRITER) or not record.cause:
        required = bool(state.root_key) and not isinstance(fact, OF_WRITER) and not _of_nobody(record)
        return "a fact of the writer itself has no cause" if record.cause else "no input causes it" if required else ""
    partition, _, offset = record.cause.rpartition("/")
    if not offset.isdecimal():
        return f"an input as its cause, not {record.cause}"
    if rejected is not None and record.cause != f"{rejected.topic}/{rejected.partition}/{rejected.offset}":
        return f"it rejects the input {rejected.topic}/{rejected.partition}/{rejected.offset}, and names {record.cause}"
    if isinstance(fact, facts.LogTruncated):  # a writer that waits for it does nothing else
        return ""
    done_with_it = dict(record.inputs)
    if not is_done(state.inputs | done_with_it, partition, int(offset)):
        return f"the input {record.cause}, which it names, is not done with it"
    if record.cause == last_cause and state.cycle_open:
        return "" if not record.inputs else f"it advances inputs, and {record.cause} was done with the fact before it"
    read_again = done_with_it.get(partition, state.inputs.get(partition, 0)) < state.inputs.get(partition, 0)
    if not read_again and is_done(state.inputs, partition, int(offset)):
        return f"the input {record.cause}, which it names, was done before"
    return ""


def _of_nobody(record: Record) -> bool:
    """Whether it has no single cause: rejections that are counted together, and a log's first policy."""
    fact = record.data
    if isinstance(fact, facts.InputRejected):
        return not (record.auth or record.request)
    return isinstance(fact, facts.PolicyApplied) and fact.request is None


def is_done(inputs: Mapping[str, int], partition: str, offset: int) -> bool:
    """Returns whether these recorded positions and ranges include the input."""
    if offset < inputs.get(partition, 0):
        return True
    for name, end in inputs.items():
        of, _, first = name.rpartition("/")
        if of == partition and int(first) <= offset < end:
            return True
    return False
