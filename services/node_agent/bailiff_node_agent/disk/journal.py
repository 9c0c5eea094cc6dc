"""An append-only file of JSON entries, one per line, each with its checksum."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from .storage import DamagedFile, Storage

Entry = dict[str, Any]


class NotWritable(Exception):
    pass


class Journal:
    """The caller replays `entries` on opening, and rewrites the file with fewer when it has grown too long."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        content = storage.read(name) or b""
        # An incomplete last line was being written when the machine crashed; the write never returned.
        *lines, torn = content.split(b"\n")
        self.entries: Sequence[Entry] = [self._parsed(line, number) for number, line in enumerate(lines, start=1)]
        self._length = len(lines)
        self._broken = False
        if torn:
            self.rewrite(self.entries)

    def __len__(self) -> int:
        return self._length

    def add(self, entry: Entry) -> None:
        if self._broken:
            raise NotWritable(f"an earlier write to {self._name} failed; restart the agent, so that it reads what is on disk")
        try:
            self._storage.append(self._name, _line(entry))
        except OSError:
            # Part of the line may be on disk; another line must not be appended to it.
            self._broken = True
            raise
        self._length += 1

    def rewrite(self, entries: Sequence[Entry]) -> None:
        self._storage.replace(self._name, b"".join(map(_line, entries)))
        self._length = len(entries)

    def _parsed(self, line: bytes, number: int) -> Entry:
        checksum, _, text = line.partition(b" ")
        if checksum != _checksum(text):
            raise DamagedFile(self._name, f"line {number} has a wrong checksum")
        entry: Entry = json.loads(text)
        return entry


@dataclass(frozen=True)
class Keyed:
    """Has fields that JSON has, too."""

    key: str


Value = TypeVar("Value", bound=Keyed)


class JournalOf(Generic[Value]):
    """Values by their key, in a journal of their own: an entry is a value as it is from then on, or a key that has ended."""

    def __init__(self, storage: Storage, name: str, kind: type[Value]) -> None:
        self._journal = Journal(storage, name)
        self._values: dict[str, Value] = {}
        for entry in self._journal.entries:
            match entry:
                case {"key": str(key)}:
                    self._values[key] = kind(**entry)
                case {"ended": str(key)}:
                    self._values.pop(key, None)
                case _:
                    raise ValueError(f"{name}: unknown entry {entry}")

    def get(self, key: str) -> Value | None:
        return self._values.get(key)

    def put(self, value: Value) -> None:
        """It is new, or has changed."""
        self._journal.add(asdict(value))
        self._values[value.key] = value

    def end(self, key: str) -> None:
        if key not in self._values:
            return
        self._journal.add({"ended": key})
        del self._values[key]
        if len(self._journal) > 100 + 2 * len(self._values):
            self._journal.rewrite([asdict(value) for value in self._values.values()])


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


def _line(entry: Entry) -> bytes:
    text = json.dumps(entry, separators=(",", ":")).encode()
    return _checksum(text) + b" " + text + b"\n"
