"""Snapshots of the state as JSON, and the state digest.

A snapshot of a large pool is hundreds of megabytes: it is written, hashed and read in parts.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from itertools import islice
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json

from bailiff_core.model.scheduling_class import shared_parts
from bailiff_core.model.state import Job, PoolState, SeenRequest
from bailiff_core.model.undecoded import Entries, Shared, Slices, Undecoded, key, shared_of

AT_ONCE = 500  # entries serialised together
DICTS: dict[str, type[Any]] = {"jobs": Job, "requests": SeenRequest}
"""The fields of the state that have an entry for every job or request, in their order."""


@dataclass(slots=True)
class SnapshotIndex:
    """Where the entries of `DICTS` stand in a snapshot of `size` bytes, so that they can be decoded one by one.

    Its digest is in the log: another form of it needs another `STATE_SCHEMA`.
    """

    size: int = 0
    jobs: Entries = field(default_factory=Entries)
    requests: Entries = field(default_factory=Entries)

    def to_data(self) -> dict[str, Any]:
        """As JSON values."""
        return {"size": self.size} | {
            name: [entries.start, entries.names, entries.ends, entries.shared, entries.kinds]
            for name, entries in (("jobs", self.jobs), ("requests", self.requests))
        }

    @classmethod
    def from_data(cls, data: Any) -> "SnapshotIndex":
        """Reads what `to_data` wrote. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        found = cls(int(data["size"]))
        for name in DICTS:
            start, names, ends, shared, kinds = data[name]
            setattr(found, name, Entries(start, names, ends, shared, [Shared(*each) for each in kinds]))
        return found

    def digest(self) -> str:
        """SHA-256, in hex. With the state digest it lets readers use a snapshot that somebody else has made."""
        return hashlib.sha256(json.dumps(self.to_data(), separators=(",", ":")).encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[PoolState]:
    """Built on first use: not every reader needs it."""
    return TypeAdapter(PoolState)


@cache
def _adapter_of(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(DICTS[name])


def snapshot_parts(state: PoolState, index: SnapshotIndex | None = None, *, changes: bool = False) -> Iterator[bytes]:
    """Yields the state as JSON, without indices.

    Args:
        index: Gets the positions of the entries, with the last part.
        changes: Of jobs and requests only what the snapshot that the state was read from does not have.

    Raises:
        ValueError: Within a decision cycle.
    """
    if state.cycle_open:
        raise ValueError(f"cycle {state.cycle} is open at #{state.seq}: a snapshot is taken between decision cycles")
    written, before = 0, b"{"
    for name, small in _sections():
        part = before + _adapter().dump_json(state, include=small)[1:-1]
        if name is None:
            if index is not None:
                index.size = written + len(part) + 1
            yield part + b"}"
            return
        part += b',"%b":{' % name.encode()
        yield part
        entries: Entries = getattr(index, name) if index is not None else Entries()
        entries.start = written + len(part)
        values = getattr(state, name)
        names = values.changed() if changes and isinstance(values, Undecoded) else iter(values)
        yield from _entries(name, values, names, entries, share=name == "jobs" and index is not None)
        written, before = entries.end, b"},"


@cache
def _sections() -> list[tuple[str | None, set[str]]]:
    """The other fields before each of `DICTS`, and at the end."""
    found: list[tuple[str | None, set[str]]] = []
    small: set[str] = set()
    for each in fields(PoolState):
        if each.name in DICTS:
            found.append((each.name, small))
            small = set()
        elif each.name != "indices":
            small.add(each.name)
    return [*found, (None, small)]


def _entries(name: str, values: dict[str, Any], names: Iterator[str], entries: Entries, *, share: bool) -> Iterator[bytes]:
    """Yields these entries of a dict and notes where each stands; with `share`, also what jobs have in common."""
    dump = _adapter_of(name).dump_json
    undecoded = values if isinstance(values, Undecoded) else None
    kinds, position, comma = dict[Shared, int](), 0, b""
    while at_once := list(islice(names, AT_ONCE)):
        parts = []
        for entry in at_once:
            stored = undecoded.entry(entry) if undecoded is not None else None
            parts.append(stored if stored is not None else key(entry) + dump(values[entry]))
            position += len(parts[-1])
            entries.ends.append(position)
            position += 1  # the comma
            if share:
                entries.shared.append(kinds.setdefault(shared_of(values, entry), len(kinds)))
        entries.names += at_once
        yield comma + b",".join(parts)
        comma = b","
    entries.kinds = list(kinds)


def to_snapshot(state: PoolState) -> bytes:
    """Returns the state as JSON, without indices.

    Raises:
        ValueError: Within a decision cycle.
    """
    return b"".join(snapshot_parts(state))


def from_snapshot(data: Slices, index: SnapshotIndex | None = None) -> PoolState:
    """Reads a state that `to_snapshot` wrote.

    Args:
        index: With it, jobs and request ids are decoded when they are asked for; `data` may be longer.

    Raises:
        ValueError: For anything else (pydantic's `ValidationError`).
    """
    if index is None:
        state = _adapter().validate_json(data[:])
        for job in state.jobs.values():
            _share(job)
    else:
        small, at = [], 0
        for name in DICTS:
            entries = getattr(index, name)
            small.append(data[at : entries.start])
            at = entries.end
        state = _small_state(b"".join([*small, data[at : index.size]]))
        state.jobs = Undecoded(data, index.jobs, _job)
        state.requests = Undecoded(data, index.requests, _adapter_of("requests").validate_json)
    state.indices.queued = dict.fromkeys(state.queue)
    return state


def _small_state(data: bytes) -> PoolState:
    """Validates what is not as in an empty state: a short command would take longer to build the validators of the rest."""
    empty, found = PoolState(), from_json(data, cache_strings="keys")
    if not isinstance(found, dict):
        raise ValueError("a state is an object")
    part = _adapter_of_fields(frozenset(name for name, value in found.items() if value != getattr(empty, name, value)))
    return PoolState(**vars(part.validate_json(data)))


@cache
def _adapter_of_fields(names: frozenset[str]) -> TypeAdapter[Any]:
    return TypeAdapter(make_dataclass("Part", [(each.name, each.type) for each in fields(PoolState) if each.name in names]))


def removed_since(state: PoolState) -> dict[str, list[str]]:
    """What of the snapshot's jobs and requests the state no longer has, for `from_changes`."""
    return {name: list(values.removed) for name in DICTS if isinstance(values := getattr(state, name), Undecoded)}


def from_changes(state: PoolState, data: Slices, index: SnapshotIndex, removed: dict[str, list[str]]) -> PoolState:
    """Reads a later state, of which `data` has only what has changed since `state`. That is of no use afterwards.

    Raises:
        ValueError: For anything else (pydantic's `ValidationError`).
    """
    later = from_snapshot(data, index)
    for name in DICTS:
        setattr(later, name, getattr(state, name).with_changes(data, getattr(index, name), removed[name]))
    return later


def _job(data: bytes) -> Job:
    job: Job = _adapter_of("jobs").validate_json(data)
    _share(job)
    return job


def _share(job: Job) -> None:
    shared_parts(job.demand, job.scheduling_class)
    job.share_empty()


def state_digest(state: PoolState, index: SnapshotIndex | None = None) -> str:
    """Returns the SHA-256 of the snapshot, in hex. Insertion order matters, since it decides iteration order.

    Args:
        index: As of `snapshot_parts`.
    """
    digest = hashlib.sha256()
    for part in snapshot_parts(state, index):
        digest.update(part)
    return digest.hexdigest()
