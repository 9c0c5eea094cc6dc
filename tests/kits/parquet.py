"""The log as Parquet, as `bailiff audit export` writes it."""

from collections.abc import AsyncGenerator
from pathlib import Path

from tests.histories.record import HISTORIES
from tests.kits.cosigned_log import KEY, SealedLog
from tests.kits.log_builder import Story

from bailiff.audit import segment_proofs
from bailiff.audit.object_path import ObjectPath
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.segments import SegmentFolder
from bailiff_bus.port import Message
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.keys import key_id
from bailiff_log.seals import chain_of_bodies

SIZE = 20
STORY = Story(pool="pool-a")
HISTORIES["borrow-and-reclaim"](STORY)
WIRES = STORY.wires
SEALED = len(WIRES) // SIZE * SIZE
LOG = SealedLog(WIRES, (15, SIZE, 3 * SIZE + 3, len(WIRES) - 1))  # seals at the end of a segment, within one, beyond all
TRUST = [key_id(KEY)]


async def messages() -> AsyncGenerator[Message, None]:
    for offset, wire in enumerate(WIRES):
        yield Message("bailiff.audit", 0, offset, 1_800_000_000_000_000, None, wire.headers, wire.value)


async def export(folder: ObjectPath | Path) -> list[str]:
    """The names of the new segments."""
    written = await write_segments(folder, SIZE, ChainHead("pool-a"), Frontier(), 0, messages(), LOG.seals)
    return [each.name for each in written]


async def parquet(folder: ObjectPath | Path) -> list[str]:
    """The names of the segments that were written as Parquet."""
    found = SegmentFolder(folder)
    chain, problem = chain_of_bodies(found.pool, found.seals, TRUST)
    assert not problem
    return [each.name for each in await segment_proofs.write_all(found, chain)]
