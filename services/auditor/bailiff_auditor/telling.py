"""What records say, told by a process of its own while the archive is far behind.

The auditor reads Kafka and follows the chain, this process decodes and lays out rows, PostgreSQL writes: all at the same
time. It is a function of what comes in through the pipe, opens nothing, and ends where the pipe does.
"""

import gc
import pickle
import signal
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from bailiff_bus.archive import packed_named
from bailiff_bus.archive_rows import record_bytes
from bailiff_bus.people import People
from bailiff_bus.port import Message
from bailiff_core.records import Wire, decode
from bailiff_core.records.wire import UnreadableRecord

LENGTH = struct.Struct(">I")
READY = b"ready"
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Untold:
    """Records whose place in the log is known, column by column: a few long lists go through a pipe best."""

    names: list[Names]
    contents: list[tuple[bytes, ...]]
    places: list[tuple[int, int, bytes | None]]  # offset, append time, key
    values: list[bytes]
    digests: list[bytes]


@dataclass(frozen=True, slots=True)
class Told:
    """rows: of binary COPY, all in one. people: as `People.take` gives them. unreadable: why a record cannot be told."""

    rows: bytes
    people: dict[str, str]
    unreadable: str = ""


def untold(judged: list[tuple[Message, bytes]]) -> Untold:
    """These messages with their hashes; equal names of headers once."""
    known: dict[Names, Names] = {}
    pairs = [tuple(zip(*message.headers, strict=True)) for message, _ in judged]
    return Untold(
        [known.setdefault(names, names) for names, _ in pairs], [contents for _, contents in pairs],
        [(message.offset, message.time, message.key) for message, _ in judged], [message.value for message, _ in judged],
        [digest for _, digest in judged],
    )  # fmt: skip


def tell(people: People, given: Untold) -> Told:
    """Rows of these records, and what they change for people."""
    rows: list[bytes] = []
    for names, contents, place, value, digest in zip(
        given.names, given.contents, given.places, given.values, given.digests, strict=True
    ):
        try:
            record = decode(Wire(tuple(zip(names, contents, strict=True)), value))
        except UnreadableRecord as error:
            return Told(b"", {}, str(error))
        people.note(record)
        rows.append(record_bytes(people.domain, *place, packed_named(names, contents), value, record, digest))
    return Told(b"".join(rows), people.take())


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer what comes in: `People` to begin with, then `Untold`; None asks for the `People` back."""
    people: People | None = None
    _send(sink, READY)
    while head := source.read(LENGTH.size):
        found = pickle.loads(source.read(*LENGTH.unpack(head)))  # noqa: S301 - from our own parent
        if isinstance(found, People):
            people = found
            continue
        assert people is not None
        _send(sink, people if found is None else tell(people, found))


def _send(sink: BinaryIO, answer: Any) -> None:
    raw = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    sink.write(LENGTH.pack(len(raw)))
    sink.write(raw)
    sink.flush()


def main() -> None:
    """Until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the auditor
    gc.disable()  # records hold no circles, and the process does not last
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)
