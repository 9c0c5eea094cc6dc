"""Where the records about a job stand in the log, so that its history is read without reading the whole log.

A preemption decision also indexes its request and proposal. Progress records are not indexed.
"""

import json
import sys
from array import array
from collections.abc import Callable, Iterable
from itertools import accumulate, islice
from typing import NamedTuple

import orjson

from bailiff_core.model.state import PoolState
from bailiff_core.records import decisions, facts
from bailiff_core.records.subjects import jobs_of

from .reader import Entry

KEEP_FIRST = 50  # records of a job with more than MAX_RECORDS, besides the newest
MAX_RECORDS = 2000
MAX_REQUESTS = 1000
MAX_ENDED_JOBS = 20_000  # older ended jobs are in the archive only
HASH_DIGITS = 16  # hexadecimal, of a record's hash


class Place(NamedTuple):
    """A record's offset, and the first 64 bits of its hash."""

    offset: int
    hash: int


def place_of(offset: int, hash_: str) -> Place:
    """The place of the record at this offset, with this hash in hexadecimal."""
    return Place(offset, int(hash_[:HASH_DIGITS], 16))


def _little_endian(values: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        values.byteswap()
    return values


class Note(NamedTuple):
    """What the index takes of a record.

    Attributes:
        jobs: The jobs that it is about; of a submission the one that is new is the first.
        request: Of a decision about victims the record that it answers; else 0.
    """

    seq: int
    place: Place
    kind: str
    jobs: list[str]
    request: int


SUBMITTED, PROPOSAL, REQUEST, ANSWER, ENDED, OTHER = "submitted", "proposal", "request", "answer", "ended", ""


def _note_of(entry: Entry) -> Note | None:
    data, kind, request = entry.record.data, OTHER, 0
    jobs = list(jobs_of(entry.record))
    match data:
        case facts.TaskProgressed():
            return None
        case facts.JobSubmitted():
            kind, jobs = SUBMITTED, [data.demand.job, *jobs]
        case facts.ProposalReceived():
            kind = PROPOSAL
        case decisions.PreemptionRequested():
            kind = REQUEST
        case decisions.PreemptionDecided() | decisions.PreemptionRefused():
            kind, request = ANSWER, data.request
        case decisions.JobEnded():
            kind, jobs = ENDED, [data.job, *jobs]
    return Note(entry.record.seq, place_of(entry.offset, entry.hash), kind, list(dict.fromkeys(jobs)), request)


def no_places() -> bytes:
    """An index that begins here, as `JobIndex.restore_later` wants it: it has the jobs that are submitted from now on."""
    return JobIndex().to_bytes(PoolState())


class JobIndex:
    """Places by job, for active and pending jobs and for recently ended ones.

    What `restore_later` was given is read when it is needed first.
    """

    def __init__(self) -> None:
        self._places: dict[str, array[int]] = {}  # offset, hash, offset, hash, …
        self._ended: dict[str, None] = {}  # in order of their end
        self._requests: dict[int, Place] = {}
        self._proposal: Place | None = None
        self._stored: Callable[[], bytes] | None = None
        self._waiting: list[Note] = []
        self._changes = b""  # those of an earlier reader, a line of JSON each

    def of(self, job: str, state: PoolState) -> list[Place] | None:
        """Ascending places; None if the job is no longer indexed."""
        self.load(state)
        places = self._places.get(job)
        return sorted(dict.fromkeys(map(Place, places[::2], places[1::2]))) if places is not None else None

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self._places)

    def take(self, entry: Entry, state: PoolState) -> None:
        """Index the next record."""
        note = _note_of(entry)
        if note is not None and self._stored is not None:
            self._waiting.append(note)
        elif note is not None:
            self._take(note, state)

    def _take(self, note: Note, state: PoolState) -> None:
        about = [note.place]
        if note.kind == PROPOSAL:
            self._proposal = note.place
        elif note.kind == REQUEST:
            self._requests[note.seq] = note.place
            while len(self._requests) > MAX_REQUESTS:
                del self._requests[next(iter(self._requests))]
        elif note.kind == ANSWER:
            about += [answered for answered in (self._requests.get(note.request), self._proposal) if answered is not None]
            if note.request not in self._requests:  # it was before the index begins
                for name in note.jobs:
                    self._places.pop(name, None)
        elif note.kind == SUBMITTED:
            self._places.setdefault(note.jobs[0], array("Q"))
            self._ended.pop(note.jobs[0], None)
        for name in note.jobs:
            if name in self._places:
                self._note(name, about)
        if note.kind == ENDED:
            self._ended[note.jobs[0]] = None
            self._forget(state)

    def to_bytes(self, state: PoolState) -> bytes:
        """The index, to be stored with a snapshot of this state: a line of JSON, then the places of all jobs."""
        self.load(state)
        about = {
            "jobs": list(self._places),
            "lengths": [len(places) for places in self._places.values()],
            "ended": list(self._ended),
            "requests": list(self._requests.items()),
            "proposal": self._proposal,
        }
        all_places = array("Q")
        for places in self._places.values():
            all_places.extend(places)
        return json.dumps(about, separators=(",", ":")).encode() + b"\n" + _little_endian(all_places).tobytes()

    def restore(self, stored: bytes) -> None:
        """Load what `to_bytes` gave. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        line, _, values = stored.partition(b"\n")
        about, all_places = orjson.loads(line), array("Q")
        all_places.frombytes(values)
        _little_endian(all_places)
        ends = list(accumulate(about["lengths"], initial=0))
        if ends[-1] != len(all_places):
            raise ValueError("the index of jobs is damaged")
        self._places = dict(zip(about["jobs"], map(all_places.__getitem__, map(slice, ends, ends[1:])), strict=True))
        self._ended = {str(job): None for job in about["ended"]}
        self._requests = {int(seq): Place(*place) for seq, place in about["requests"]}
        self._proposal = Place(*about["proposal"]) if about["proposal"] is not None else None

    def restore_later(self, stored: Callable[[], bytes], changes: bytes = b"") -> None:
        """Continue from what `to_bytes` and then `changes` gave; raises `ValueError` once it is needed, if it is damaged."""
        self._stored, self._changes = stored, changes

    def changes(self) -> bytes:
        """What was taken since `restore_later`, which was not needed yet."""
        return self._changes + b"".join(json.dumps(note, separators=(",", ":")).encode() + b"\n" for note in self._waiting)

    def load(self, state: PoolState) -> None:
        """Read now what `restore_later` was given. Raises `ValueError` if it is damaged."""
        if self._stored is not None:
            self.restore(self._stored())
            lines = orjson.loads(b"[%b]" % b",".join(self._changes.splitlines()))
            earlier = [Note(seq, Place(*place), *more) for seq, place, *more in lines]
            waiting, self._waiting, self._changes, self._stored = [*earlier, *self._waiting], [], b"", None
            for note in waiting:
                self._take(note, state)

    def clear(self) -> None:
        """Remove everything."""
        self._places.clear()
        self._ended.clear()
        self._requests.clear()
        self._waiting.clear()
        self._proposal, self._stored, self._changes = None, None, b""

    def _forget(self, state: PoolState) -> None:
        """Drop jobs that ended too long ago or are no longer in the state."""
        for job in list(islice(self._ended, 2)):
            if len(self._ended) > MAX_ENDED_JOBS or job not in state.jobs:
                del self._ended[job]
                self._places.pop(job, None)

    def _note(self, job: str, about: Iterable[Place]) -> None:
        places = self._places[job]
        for place in about:
            places.extend(place)
        if len(places) > 2 * MAX_RECORDS:
            del places[2 * KEEP_FIRST : len(places) - MAX_RECORDS]
