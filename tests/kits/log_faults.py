"""What `bailiff audit verify` and `replay` name in a log: nothing, in one that services wrote."""

from collections.abc import Iterable, Iterator, Sequence

from bailiff.audit.replay import RETRY_FACTS
from bailiff.audit.replay_worker import ReplayWorker
from bailiff_core.engine import LOGIC
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, decode
from bailiff_core.records.facts import ProposalReceived, WriterStarted
from bailiff_log.log_signatures import LogSignatureCheck
from bailiff_log.request_verifier import RequestVerifier


def named_by_verify(records: Iterable[Record], state: PoolState | None = None) -> list[str]:
    """Requests that admission had to answer otherwise. state: a snapshot, after which these records come."""
    state = PoolState() if state is None else state
    verifier: RequestVerifier | None = None
    for record in records:
        if verifier is None:
            verifier = RequestVerifier.after(state) if state.seq >= 0 else RequestVerifier(record.pool)
        verifier.take(record, state)
        apply(state, record)
    return [f"#{each['seq']}: {each['fault']}: {each['detail']}" for each in verifier.result()["faults"]] if verifier else []


def named_from(wires: Sequence[Wire], at: int) -> list[str]:
    """As of a part of a log, that begins at this record: earlier ones are not there, but for the keys that they left."""
    head = ChainHead(decode(wires[0]).pool)
    check = LogSignatureCheck(head.pool)
    for wire in wires[:at]:
        after = continues(head, wire, check)
        assert not isinstance(after, Break), after
        head = after
    verifier = RequestVerifier(head.pool, head.keys)
    for wire in wires[at:]:
        verifier.take(decode(wire))
    return [f"#{each['seq']}: {each['fault']}: {each['detail']}" for each in verifier.result()["faults"]]


def named_by_replay(wires: Sequence[Wire], begin: int = 0) -> list[str]:
    """What is decided otherwise, or contradicts the records before it. begin: earlier records are folded only."""
    records = [decode(wire) for wire in wires]
    searched = {each.data.computed_at for each in records if isinstance(each.data, ProposalReceived) and each.seq >= begin}
    worker = ReplayWorker()
    for record, wire in zip(records, wires, strict=True):
        if not worker.done:
            worker.take(wire, record.seq >= begin, record.seq in searched)
    found = worker.found()
    return [str(each) for each in (found["error"], found["difference"], *found["proposal_differences"]) if each]


def snapshots(records: Sequence[Record], count: int) -> Iterator[tuple[int, PoolState]]:
    """So many states between cycles, as a snapshot restores them, each with the number of records before it."""
    state, ends = PoolState(), [number for number, record in enumerate(records, 1) if record.cycle_end and record.cycle]
    chosen = set(ends[:: max(1, len(ends) // count)])
    for number, record in enumerate(records, 1):
        apply(state, record)
        if number in chosen:
            yield number, from_snapshot(to_snapshot(state))


def replay_starts(records: Sequence[Record]) -> list[int]:
    """Where this release's engine may begin: the cycles of its logic after which all pending jobs are tried again."""
    found, start, mine = list[int](), 0, False
    for record in records:
        if isinstance(record.data, WriterStarted):
            start, mine = record.seq, record.data.logic == LOGIC
        if mine and record.type.encode() in RETRY_FACTS and start not in found:
            found.append(start)
        if record.cycle_end:
            start = record.seq + 1
    return found
