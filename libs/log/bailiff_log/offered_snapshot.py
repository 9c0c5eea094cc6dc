"""A snapshot that somebody else has made is used only if the log shows all of it.

The first part is checked here: that it is of this log, that its position is that of its state, and that the log's root key has
certified the writer whose record is to confirm it. `Projection.open_offered` then reads that record and those after it.
"""

import asyncio
from contextlib import aclosing

from bailiff_bus.port import Bus, Message, OffsetOutOfRange
from bailiff_core.fold.keys import log_keys
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, LogKeys, Wire, decode, record_hash
from bailiff_core.records.facts import WriterStarted
from bailiff_core.records.wire import UnreadableRecord, time_text

from .certificates import InvalidCertificate, check_certificate
from .records_at import messages_between
from .root_keys import is_change_signed
from .snapshot_file import StoredSnapshot

MAX_ORPHANS = 1_000
"""Messages among which the writer's first record is looked for: its offset is above its seq where the log has orphans."""
WITHIN_S = 10.0


class SnapshotRefused(Exception):
    """The snapshot is not used. The text says why."""


async def check_offered(bus: Bus, offered: StoredSnapshot, pool: str, partition: int, identity: str, root_key: str) -> None:
    """Check what an offered snapshot says about the log.

    Args:
        identity: Hash of the log's first record.
        root_key: The key that this record names; empty: nothing is signed.

    Raises:
        SnapshotRefused: It is not of this log, or not of a certified writer.
    """
    state, head, keys = offered.state, offered.head, log_keys(offered.state)
    if (state.pool, state.partition, state.identity) != (pool, partition, identity):
        raise SnapshotRefused("it is of another log")
    try:
        at = ChainHead(pool, state.seq + 1, head.hash, state.epoch, time_text(state.now), keys=keys)
    except (ValueError, OverflowError):
        raise SnapshotRefused("its time is none") from None
    if head != at or offered.beside is not None or type(offered.offset) is not int or offered.offset <= state.seq:
        raise SnapshotRefused("its position is not that of its state")
    before = await _messages(bus, partition, offered.offset - 1, offered.offset - 1)
    if [record_hash(Wire(each.headers, each.value)) for each in before] != [head.hash]:
        raise SnapshotRefused("the log has another record before it")
    roots = [root_key]
    for change in state.root_key_changes:
        if not is_change_signed(change, roots[-1]):
            raise SnapshotRefused("it has a change of the root key that the key before it has not signed")
        roots.append(change.key)
    if roots[-1] != state.root_key:
        raise SnapshotRefused("its root key is not the log's")
    if keys is not None and not await _is_certified(bus, state, keys, frozenset(roots), offered.offset):
        raise SnapshotRefused("no root key of the log has certified its writer")


async def _messages(bus: Bus, partition: int, first: int, last: int) -> list[Message]:
    try:
        async with asyncio.timeout(WITHIN_S), aclosing(messages_between(bus, partition, first, last)) as messages:
            return [message async for message in messages]
    except (OffsetOutOfRange, TimeoutError):
        raise SnapshotRefused("the log does not have the records that it follows") from None


async def _is_certified(bus: Bus, state: PoolState, keys: LogKeys, roots: frozenset[str], offset: int) -> bool:
    """Whether the `WriterStarted` of the state's epoch, as the log has it, certifies the state's writer."""
    seq = state.epochs.get(state.epoch, -1)
    orphans = offset - state.seq - 1
    if not 0 <= seq <= state.seq or orphans > MAX_ORPHANS:
        return False
    for message in await _messages(bus, state.partition, seq, seq + orphans):
        try:
            record = decode(Wire(message.headers, message.value))
        except UnreadableRecord:
            continue
        certificate = record.data.certificate if isinstance(record.data, WriterStarted) else None
        if record.seq != seq or certificate is None or certificate.key != keys.writer_key:
            continue
        try:
            at = max(record.time, certificate.not_before)
            check_certificate(certificate, root_keys=roots, pool=state.pool, roles={"admission"}, at=at, revoked=keys.revoked)
        except InvalidCertificate:
            continue
        if time_text(certificate.expires) == keys.writer_until:
            return True
    return False
