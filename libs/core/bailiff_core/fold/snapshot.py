"""The state as data: for its digest, which services compare, and for local snapshots."""

import hashlib

from pydantic import TypeAdapter

from bailiff_core.model.pool import Pool

_ADAPTER = TypeAdapter(Pool)
_CACHES = {"touched", "room_grew", "unplaceable", "untried", "passed_over", "kept_for_head", "ever_fits"} | {
    "stale_nodes", "stale_jobs", "scene", "stale_times", "agenda", "queued", "forgotten",
}  # fmt: skip


def to_snapshot(pool: Pool) -> bytes:
    """The state as JSON, caches left out. Taken between turns only: an open turn is not a state of its own."""
    if pool.turn_open:
        raise ValueError(f"turn {pool.turn} is open at #{pool.seq}: a snapshot is taken between turns")
    return _ADAPTER.dump_json(pool, exclude=_CACHES)


def from_snapshot(data: bytes) -> Pool:
    """The state that `to_snapshot` wrote. Raises `ValueError` (pydantic's) for anything else."""
    pool = _ADAPTER.validate_json(data)
    pool.queued = dict.fromkeys(pool.queue)
    return pool


def state_digest(pool: Pool) -> str:
    """SHA-256 of the snapshot, in hex. Insertion orders count: they decide ties of iteration."""
    return digest_of(to_snapshot(pool))


def digest_of(snapshot: bytes) -> str:
    """The digest of the state of which these are the bytes."""
    return hashlib.sha256(snapshot).hexdigest()
