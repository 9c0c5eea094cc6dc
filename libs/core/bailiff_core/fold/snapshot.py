"""The state as data: for its digest, which services compare, and for local snapshots."""

import hashlib
from functools import cache

from pydantic import TypeAdapter

from bailiff_core.model.state import PoolState


@cache
def _adapter() -> TypeAdapter[PoolState]:
    """Built on first use: not every reader of a log compares or keeps snapshots."""
    return TypeAdapter(PoolState)


def to_snapshot(state: PoolState) -> bytes:
    """The state as JSON, caches left out. Taken between turns only: an open turn is not a state of its own."""
    if state.cycle_open:
        raise ValueError(f"turn {state.cycle} is open at #{state.seq}: a snapshot is taken between turns")
    return _adapter().dump_json(state, exclude={"indices"})


def from_snapshot(data: bytes) -> PoolState:
    """The state that `to_snapshot` wrote. Raises `ValueError` (pydantic's) for anything else."""
    state = _adapter().validate_json(data)
    state.indices.queued = dict.fromkeys(state.queue)
    return state


def state_digest(state: PoolState) -> str:
    """SHA-256 of the snapshot, in hex. Insertion orders count: they decide ties of iteration."""
    return digest_of(to_snapshot(state))


def digest_of(snapshot: bytes) -> str:
    """The digest of the state of which these are the bytes."""
    return hashlib.sha256(snapshot).hexdigest()
