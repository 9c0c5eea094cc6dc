"""A dict of a snapshot whose values are decoded when they are asked for: most readers need few jobs of a large pool."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from .state import Job

V = TypeVar("V")
MISSING: Any = object()
WITHOUT_TASKS = ("waiting", "paused", "succeeded", "failed", "cancelled")


class Slices(Protocol):
    """Bytes, or a file mapped into memory."""

    def __getitem__(self, part: slice, /) -> bytes: ...

    def __len__(self) -> int: ...


class Joined:
    """Two snapshots behind one another. No slice reaches over both."""

    def __init__(self, first: Slices, second: Slices) -> None:
        self._first, self._second, self._length = first, second, len(first)

    def __getitem__(self, part: slice, /) -> bytes:
        if part.start < self._length:
            return self._first[part]
        return self._second[part.start - self._length : part.stop - self._length]

    def __len__(self) -> int:
        return self._length + len(self._second)


class Shared(NamedTuple):
    """What a reader asks of many jobs, without decoding each: jobs that are equal in it differ in name, times and history.

    Attributes:
        user: Whose job it is: who submitted it, or for whom an unnamed sender did.
        waits: It is pending, and has neither placed tasks, reservation, eviction nor operator's request.
        user_verified: Whether that name was verified.
    """

    phase: str
    user: str
    project: str
    class_name: str
    priority: int
    preemptible: bool
    scheduling_class: str
    waits: bool
    user_verified: bool


@dataclass(slots=True)
class Entries:
    """Where the entries of a dict stand in a snapshot.

    Attributes:
        start: Position of the first entry.
        names: The keys, in order.
        ends: Where each entry ends, from `start` on; the next one begins after a comma.
        shared: Of each entry the number in `kinds`, for jobs; else empty.
        kinds: Each different `Shared`.
    """

    start: int = 0
    names: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    kinds: list[Shared] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Position after the last entry."""
        return self.start + (self.ends[-1] if self.ends else 0)


class Undecoded(dict[str, V]):
    """Values that were not asked for yet are stored as the number of their entry.

    Attributes:
        decoded: How many were decoded.
        removed: The entries of the snapshot that are no longer there, or stand elsewhere in the order.
    """

    def __init__(self, data: Slices, entries: Entries, decode: Callable[[bytes], V]) -> None:
        numbers: Any = range(len(entries.names))
        super().__init__(zip(entries.names, numbers, strict=True))
        self.decoded, self.removed = 0, dict[str, None]()
        self._data, self._entries, self._decode = data, entries, decode
        self._first = len(entries.names)  # of the entries of `changed`

    def changed(self) -> Iterator[str]:
        """Yields the names of what the snapshot does not have, or may have otherwise."""
        entries: Iterable[tuple[str, Any]] = dict.items(self)
        return (name for name, found in entries if type(found) is not int or found >= self._first)

    def with_changes(self, data: Slices, changes: Entries, removed: Iterable[str]) -> "Undecoded[V]":
        """What a later snapshot of `changed` makes of this one, which it takes apart."""
        mine, joined = self._entries, Joined(self._data, data)
        before = len(self._data) + changes.start - mine.start - 1  # where the entry that fills the gap between the two ends
        mine.ends += [before, *(before + 1 + end for end in changes.ends)]
        mine.shared += [0, *(len(mine.kinds) + kind for kind in changes.shared)]
        mine.kinds += changes.kinds
        made: Undecoded[V] = Undecoded(joined, mine, self._decode)
        for name in removed:
            if name in made:
                del made[name]
        numbers: Any = range(made._first + 1, len(mine.ends))
        made.update(zip(changes.names, numbers, strict=True))
        return made

    def entry(self, name: str) -> bytes | None:
        """The bytes of an entry, with its name, that was not decoded; else None."""
        found: Any = super().get(name)
        return self._bytes(found) if type(found) is int else None

    def shared(self, name: str) -> Shared | None:
        """What a job has in common with others, if it was not decoded; else None."""
        found: Any = super().get(name)
        return self._entries.kinds[self._entries.shared[found]] if type(found) is int else None

    def numbers_of(self, wanted: Callable[[Shared], bool]) -> frozenset[int]:
        """The numbers of jobs whose `Shared` is wanted."""
        kinds = {number for number, shared in enumerate(self._entries.kinds) if wanted(shared)}
        return frozenset(at for at, kind in enumerate(self._entries.shared) if kind in kinds) if kinds else frozenset()

    def counts(self) -> "Counter[Shared]":
        """How many jobs that were not decoded have each `Shared`."""
        undecoded: Any = (found for found in dict.values(self) if type(found) is int)
        counted = Counter(map(self._entries.shared.__getitem__, undecoded))
        return Counter({self._entries.kinds[kind]: count for kind, count in counted.items()})

    def by_shared(self) -> list[tuple[Shared | None, list[str]]]:
        """The names of those with equal `Shared`, without decoding them, and of those that were decoded."""
        kinds, found = self._entries.shared, defaultdict[int, list[str]](list)
        entries: Iterable[tuple[str, Any]] = dict.items(self)
        for name, value in entries:
            found[kinds[value] if type(value) is int else -1].append(name)
        return [(self._entries.kinds[kind] if kind >= 0 else None, names) for kind, names in found.items()]

    def without_gaps(self) -> "Undecoded[V]":
        """A copy."""
        made: Undecoded[V] = Undecoded(self._data, Entries(), self._decode)
        made._entries, made.decoded, made.removed, made._first = self._entries, self.decoded, self.removed, self._first
        made.update(dict.items(self))
        return made

    def __getitem__(self, name: str) -> V:
        return self._value(name, super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        found = super().get(name, MISSING)
        return default if found is MISSING else self._value(name, found)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.removed[name] = None

    def pop(self, name: str, *default: Any) -> Any:
        """As of a dict."""
        found = self.get(name, MISSING)
        if found is MISSING:
            return super().pop(name, *default)
        del self[name]
        return found

    def values(self) -> Iterator[V]:  # type: ignore[override]
        """Decodes all of them, one after the other."""
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, V]]:  # type: ignore[override]
        """Decodes all of them, one after the other."""
        return ((name, self[name]) for name in self)

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == (dict(other.items()) if isinstance(other, dict) else other)

    __hash__ = None

    def _value(self, name: str, found: Any) -> V:
        if type(found) is int:
            found = self._decode(self._bytes(found)[len(key(name)) :])
            self.decoded += 1
            self[name] = found
        value: V = found
        return value

    def _bytes(self, number: int) -> bytes:
        entries = self._entries
        first = entries.start + (entries.ends[number - 1] + 1 if number else 0)
        return self._data[first : entries.start + entries.ends[number]]


def without_gaps(values: dict[str, V]) -> dict[str, V]:
    """A copy, in which the first key is found at once: removed keys leave gaps, and dict() would keep them."""
    return values.without_gaps() if isinstance(values, Undecoded) else {name: value for name, value in values.items()}  # noqa: C416


def key(name: str) -> bytes:
    """The name of an entry in JSON, with the colon."""
    return encode_basestring(name).encode() + b":"


def shared_of(jobs: "dict[str, Job]", name: str) -> Shared:
    """What the job has in common with others, without decoding it."""
    stored = jobs.shared(name) if isinstance(jobs, Undecoded) else None
    return stored if stored is not None else _shared(jobs[name])


def jobs_of_user(jobs: "dict[str, Job]", user: str) -> "Iterator[str]":
    """Yields the names of a user's jobs, without decoding them."""
    stored = jobs.numbers_of(lambda shared: shared.user == user) if isinstance(jobs, Undecoded) else frozenset[Any]()
    found: Any
    for name, found in dict.items(jobs):
        if (found in stored) if type(found) is int else (found.user or found.demand.user or "") == user:
            yield name


def shared_counts(jobs: "dict[str, Job]") -> "Counter[Shared]":
    """How many jobs have each `Shared`, without decoding one."""
    counts = jobs.counts() if isinstance(jobs, Undecoded) else Counter[Shared]()
    found: Any
    for found in dict.values(jobs):
        if type(found) is not int:
            counts[_shared(found)] += 1
    return counts


def _shared(job: "Job") -> Shared:
    held = job.tasks or job.reservation or job.eviction or job.operator_request
    waits = job.phase == "pending" and not (held or job.cancelled or job.suspended_reason or job.paused_seq is not None)
    user = job.user or job.demand.user or ""
    rank = (job.class_name, job.priority, job.preemptible, job.scheduling_class)
    return Shared(job.phase, user, job.project, *rank, waits, job.user_verified)


def alike(jobs: "dict[str, Job]") -> "Iterator[tuple[Job, list[str]]]":
    """Yields jobs with the names that they stand for: of those without tasks that were not decoded one of each `Shared`."""
    for shared, names in jobs.by_shared() if isinstance(jobs, Undecoded) else [(None, list(jobs))]:
        if shared is not None and (shared.waits or shared.phase in WITHOUT_TASKS):
            yield jobs[names[0]], names
        else:
            yield from ((jobs[name], [name]) for name in names)
