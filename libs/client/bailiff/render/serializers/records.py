"""Serializer of records: `bailiff audit show`."""

from typing import Any

from bailiff.render.record_text.lines import lines
from bailiff.render.record_text.phrases import sign_in_of
from bailiff_core.model.state import PoolState
from bailiff_log.reader import Entry
from bailiff_log.signed_requests import signing_key

from .times import moment


def record_data(entry: Entry, state: PoolState | None = None) -> dict[str, Any]:
    """One record: attributes, data, chain hashes, and its lines of text."""
    found = entry.record
    vouched_by = sign_in_of(found)
    return {
        "pool": found.pool,
        "seq": found.seq,
        "type": found.type,
        "time": moment(found.time),
        "epoch": found.epoch,
        "cycle": found.cycle,
        "cycle_end": found.cycle_end,
        "cause": found.cause,
        "inputs": dict(found.inputs),
        "actor": found.actor,
        "auth": found.auth,
        "signed_by": signing_key(found) if found.request else "",
        "vouched_by": vouched_by.to_data() if vouched_by is not None else None,
        "engine": found.engine,
        "policy": found.policy,
        "writer": found.writer,
        "prev": found.prev,
        "hash": entry.hash,
        "offset": entry.offset,
        "append_time": moment(entry.append_time),
        "lines": [str(line) for line in lines(found, state)],
        "data": found.data.to_data() if found.data is not None else None,
    }
