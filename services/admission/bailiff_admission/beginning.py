"""The first records of a writer incarnation."""

from collections.abc import Sequence

from bailiff_bus.ambient import Ambient
from bailiff_bus.engine_identity import engine_identity
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import DomainCreated, PolicyApplied, WriterStarted
from bailiff_core.records.payload import Fact


def first_records(
    pool: Pool, domain: str, partition: int, head: ChainHead, *, writer: str, time: int, first_policy: Policy, ambient: Ambient
) -> Sequence[Record]:
    """`WriterStarted`, after what creates the domain where that is missing."""
    engine = engine_identity()
    records: list[Record] = []

    def record(seq: int, epoch: int, turn: int, turn_end: bool, fact: Fact) -> None:
        records.append(
            Record(
                domain=domain,
                seq=seq,
                epoch=epoch,
                turn=turn,
                turn_end=turn_end,
                time=time,
                prev="",
                writer=writer,
                engine=str(engine),
                policy=pool.policy_revision,
                type=fact.type_name(),
                data=fact,
            )
        )

    if head.next_seq == 0:
        nonce = ambient.fresh().hex()
        record(0, 0, 0, False, DomainCreated(domain=domain, partition=partition, nonce=nonce))
    if head.next_seq <= 1:
        record(1, 0, 0, True, PolicyApplied(policy=first_policy.complete()))
    epoch = max(head.epoch, pool.accepted_loss[0]) + 1
    started = WriterStarted(
        writer=writer,
        release=engine.release,
        digest=engine.digest,
        logic=engine.logic,
        state_schema=STATE_SCHEMA,
        inputs=pool.inputs,
    )
    record(max(head.next_seq, 2), epoch, max(pool.turn, 0) + 1, False, started)
    return records
