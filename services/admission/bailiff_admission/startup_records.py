"""The first records of a writer incarnation."""

from collections.abc import Sequence

from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import PolicyApplied, PoolCreated, WriterStarted
from bailiff_core.records.payload import Fact
from bailiff_log.engine_identity import engine_identity
from bailiff_service.clock_and_ids import ClockAndIds


def first_records(
    state: PoolState,
    pool: str,
    partition: int,
    head: ChainHead,
    *,
    writer: str,
    time: int,
    first_policy: Policy,
    clock_and_ids: ClockAndIds,
) -> Sequence[Record]:
    """`WriterStarted`, preceded by the records that create the pool in an empty log."""
    engine = engine_identity()
    records: list[Record] = []

    def record(seq: int, epoch: int, cycle: int, cycle_end: bool, fact: Fact) -> None:
        records.append(
            Record(
                pool=pool,
                seq=seq,
                epoch=epoch,
                cycle=cycle,
                cycle_end=cycle_end,
                time=time,
                prev="",
                writer=writer,
                engine=str(engine),
                policy=state.policy_revision,
                type=fact.type_name(),
                data=fact,
            )
        )

    if head.next_seq == 0:
        nonce = clock_and_ids.random_bytes().hex()
        record(0, 0, 0, False, PoolCreated(pool=pool, partition=partition, nonce=nonce))
    if head.next_seq <= 1:
        record(1, 0, 0, True, PolicyApplied(policy=first_policy.complete()))
    epoch = max(head.epoch, state.accepted_truncation[0]) + 1
    started = WriterStarted(
        writer=writer,
        release=engine.release,
        digest=engine.digest,
        logic=engine.logic,
        state_schema=STATE_SCHEMA,
        inputs=state.inputs,
    )
    record(max(head.next_seq, 2), epoch, max(state.cycle, 0) + 1, False, started)
    return records
