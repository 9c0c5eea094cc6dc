"""The lines of any record."""

from collections.abc import Sequence

from bailiff_core.model.pool import Pool
from bailiff_core.records import Record
from bailiff_core.records.payload import Payload

from . import of_evictions, of_log, of_nodes, of_placing, of_preemption, of_requests, of_tasks
from .line import Line, Said, plain
from .tellers import Tells
from .words import joined

TELLERS: dict[type[Payload], Tells] = {
    **of_evictions.tells.by_type,
    **of_log.tells.by_type,
    **of_nodes.tells.by_type,
    **of_placing.tells.by_type,
    **of_preemption.tells.by_type,
    **of_requests.tells.by_type,
    **of_tasks.tells.by_type,
}


def lines(record: Record, pool: Pool | None = None) -> list[Line]:
    """The record's lines: one, or one per victim. A type of a later release is told by its name."""
    if record.data is None:
        told: Sequence[Said] = [Said(record.type.removeprefix("bailiff.audit."), "", "of a later release", "quiet")]
    else:
        told = TELLERS[type(record.data)](record.data, pool if pool is not None else Pool())
    by = f"by {record.actor} ({record.auth or 'none'})" if record.actor else ""
    return [
        Line(record.time, record.domain, record.seq, Said(said.what, plain(said.who), plain(joined(said.more, by)), said.tone))
        for said in told
    ]
