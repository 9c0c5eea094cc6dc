"""Snapshots of the state as JSON, and the state digest."""

import hashlib
from functools import cache

from pydantic import TypeAdapter

from bailiff_core.model.state import PoolState


@cache
def _adapter() -> TypeAdapter[PoolState]:
    """Built on first use: not every reader needs snapshots."""
    return TypeAdapter(PoolState)


def to_snapshot(state: PoolState) -> bytes:
    """Returns the state as JSON, without indices. Raises `ValueError` within a decision cycle."""
    if state.cycle_open:
        raise ValueError(f"cycle {state.cycle} is open at #{state.seq}: a snapshot is taken between decision cycles")
    return _adapter().dump_json(state, exclude={"indices"})


def from_snapshot(data: bytes) -> PoolState:
    """Reads a state that `to_snapshot` wrote. Raises `ValueError` (pydantic's) for anything else."""
    state = _adapter().validate_json(data)
    state.indices.queued = dict.fromkeys(state.queue)
    return state


def state_digest(state: PoolState) -> str:
    """Returns the SHA-256 of the snapshot, in hex. Insertion order matters, since it decides iteration order."""
    return digest_of(to_snapshot(state))


def digest_of(snapshot: bytes) -> str:
    """Returns the state digest of a snapshot's bytes."""
    return hashlib.sha256(snapshot).hexdigest()
