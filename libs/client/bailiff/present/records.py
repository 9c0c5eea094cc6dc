"""Records of the log."""

from typing import Any

from bailiff.eventline.lines import lines
from bailiff_bus.log import Entry
from bailiff_core.model.pool import Pool

from .times import moment


def record_data(entry: Entry, pool: Pool | None = None) -> dict[str, Any]:
    """One record of the log: attributes, data, its place in the chain, and what it says to people."""
    found = entry.record
    return {
        "domain": found.domain,
        "seq": found.seq,
        "type": found.type,
        "time": moment(found.time),
        "epoch": found.epoch,
        "turn": found.turn,
        "turn_end": found.turn_end,
        "cause": found.cause,
        "inputs": dict(found.inputs),
        "actor": found.actor,
        "auth": found.auth,
        "engine": found.engine,
        "policy": found.policy,
        "writer": found.writer,
        "prev": found.prev,
        "hash": entry.hash,
        "offset": entry.offset,
        "append_time": moment(entry.append_time),
        "says": [str(line) for line in lines(found, pool)],
        "data": found.data.to_data() if found.data is not None else None,
    }
