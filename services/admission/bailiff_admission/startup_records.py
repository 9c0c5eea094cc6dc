"""The first records of a writer incarnation."""

from collections.abc import Sequence

from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.model.certificate import Certificate
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import PolicyApplied, PoolCreated, WriterStarted
from bailiff_core.records.payload import Fact
from bailiff_log.certificates import InvalidCertificate, check_certificate
from bailiff_log.credentials import Credentials
from bailiff_log.engine_identity import engine_identity
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop


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
    credentials: Credentials | None,
) -> Sequence[Record]:
    """`WriterStarted`, preceded by the records that create the pool in an empty log.

    Where the log ends before its first policy, `WriterStarted` comes first: only its writer's key can sign a policy then.

    credentials: of this replica; a pool that it creates is signed. Raises `MustStop` if they do not fit the pool's log.
    """
    engine = engine_identity()
    certificate = _certificate_for(state, pool, credentials, clock_and_ids.wall())
    policy = PolicyApplied(policy=first_policy.complete())
    started = WriterStarted(
        writer=writer,
        release=engine.release,
        digest=engine.digest,
        logic=engine.logic,
        state_schema=STATE_SCHEMA,
        inputs=state.inputs,
        certificate=certificate,
    )
    epoch, cycle = max(head.epoch, state.accepted_truncation[0]) + 1, max(state.cycle, 0) + 1
    placed: list[tuple[Fact, int, int]] = [(started, epoch, cycle)]
    if head.next_seq == 0:
        nonce, root_key = clock_and_ids.random_bytes().hex(), credentials.root_key if credentials is not None else None
        created = PoolCreated(pool=pool, partition=partition, nonce=nonce, root_key=root_key, certificate=certificate)
        placed = [(created, 0, 0), (policy, 0, 0), *placed]
    elif state.policy is None:
        placed.append((policy, epoch, cycle))
    return [
        Record(
            pool=pool,
            seq=seq,
            epoch=epoch,
            cycle=cycle,
            cycle_end=cycle == 0 and fact is policy,
            time=time,
            prev="",
            writer=writer,
            engine=str(engine),
            policy=state.policy_revision,
            type=fact.type_name(),
            data=fact,
        )
        for seq, (fact, epoch, cycle) in enumerate(placed, head.next_seq)
    ]


def _certificate_for(state: PoolState, pool: str, credentials: Credentials | None, now: int) -> Certificate | None:
    """This replica's certificate; None for a log that is not signed."""
    signed = bool(state.root_key) if state.seq >= 0 else credentials is not None
    if not signed:
        return None
    if credentials is None:
        text = f"the log of {pool} is signed: set BAILIFF_CREDENTIALS to the folder with this replica's certificate"
        raise MustStop(ExitCode.CREDENTIALS, text)
    root_key = state.root_key or credentials.root_key
    try:
        check_certificate(
            credentials.certificate,
            root_keys={root_key},
            pool=pool,
            roles={"admission"},
            at=max(now, state.now),
            revoked=state.revoked_keys,
        )
    except InvalidCertificate as error:
        raise MustStop(ExitCode.CREDENTIALS, f"{pool}: {error}; issue another: bailiff key certify") from None
    return credentials.certificate
