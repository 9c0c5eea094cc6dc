"""An exported log: JSON Lines, one message of the partition per line, so that it can be verified and replayed offline.

The first line identifies the file: `{"bailiff_log": 1, "pool": …, "partition": …}`, optionally with `seals`
and `cosignatures`. Each further
line has `offset`, `time` (µs, the broker's append time), `headers` as [name, text] pairs in their order, and `value`.
Bytes that are not UTF-8 are `{"base64": …}`, so that all bytes are preserved. Orphans are included. The file may be gzipped.
"""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Sequence
from itertools import count
from typing import Any, BinaryIO, TextIO, cast

import orjson

from bailiff.client.errors import CheckFailed, ClientError, UsageError
from bailiff_bus.port import Message
from bailiff_log.message_json import message_from_json, message_to_json

from .object_path import AnyPath

FORMAT = 1
GZIP = b"\x1f\x8b"
BUFFER = 1 << 20
LONGEST_LINE = 256 * 1024 * 1024  # characters: the first line may hold the seals of years; bounds the size of decompressed lines


def about_line(
    pool: str, partition: int, seals: Sequence[dict[str, Any]] = (), cosignatures: Sequence[dict[str, Any]] = ()
) -> str:
    """First line of a file."""
    lists = {"seals": list(seals), "cosignatures": list(cosignatures)}
    about = {"bailiff_log": FORMAT, "pool": pool, "partition": partition} | {name: each for name, each in lists.items() if each}
    return json.dumps(about) + "\n"


def message_line(message: Message) -> str:
    line = message_to_json(message.offset, message.time, message.headers, message.value)
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


async def write_log(
    out: TextIO,
    pool: str,
    partition: int,
    messages: AsyncIterable[Message],
    seals: Sequence[dict[str, Any]] = (),
    cosignatures: Sequence[dict[str, Any]] = (),
) -> int:
    """Writes the file. Returns the number of messages."""
    out.write(about_line(pool, partition, seals, cosignatures))
    written = 0
    async for message in messages:
        out.write(message_line(message))
        written += 1
    return written


class HashedFile(io.RawIOBase):
    """A file that is hashed while it is read from its beginning to its end."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw, self._hash, self.bytes = raw, hashlib.sha256(), 0

    def readable(self) -> bool:
        """It is only read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads and hashes the next bytes."""
        found = self._raw.read(len(buffer))
        buffer[: len(found)] = found
        self._hash.update(found)
        self.bytes += len(found)
        return len(found)

    def finish(self) -> None:
        """Hashes what was not read."""
        while self.read(1 << 20):
            pass

    @property
    def sha256(self) -> str:
        """Hash of what was read, in hex."""
        return self._hash.hexdigest()


class LogFile:
    """An exported log, read line by line. Raises `ClientError` with file and line for invalid content.

    hashed: the bytes of the file, once `messages` has read all of it.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path, self.hashed = path, cast("HashedFile | None", None)
        about = self._parsed(1, next(iter(self._lines()), ""))
        pool, partition, seals = about.get("pool"), about.get("partition", 0), about.get("seals", [])
        cosignatures = about.get("cosignatures", [])
        right = isinstance(pool, str) and pool.isprintable() and isinstance(partition, int)
        right = right and isinstance(seals, list) and isinstance(cosignatures, list)
        if about.get("bailiff_log") != FORMAT or not right:
            raise self._fault(1, 'expected {"bailiff_log": 1, "pool": …}', "create such a file: bailiff audit export FILE")
        self.pool: str = about["pool"]
        self.partition: int = partition
        self.seals: list[Any] = seals
        self.cosignatures: list[Any] = cosignatures

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Every message, in the file's order."""
        for number, line in enumerate(self._lines(), 1):
            if number > 1 and line.strip():
                yield self._message(number, self._parsed(number, line))

    def _lines(self) -> Any:
        try:
            with self.path.open("rb") as raw:
                file = HashedFile(raw)
                buffered = io.BufferedReader(file, BUFFER)
                gzipped = buffered.peek(len(GZIP))[: len(GZIP)] == GZIP
                whole = cast(BinaryIO, gzip.GzipFile(fileobj=buffered, mode="rb")) if gzipped else buffered
                yield from self._whole(io.TextIOWrapper(whole, encoding="utf-8"))
                file.finish()
                self.hashed = file
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CheckFailed(f"{self.path}: is damaged or truncated: {error}") from None
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{self.path}: is not UTF-8") from None

    def _whole(self, lines: TextIO) -> Iterator[str]:
        for number in count(1):
            line = lines.readline(LONGEST_LINE)
            if not line:
                return
            if len(line) == LONGEST_LINE:
                raise self._fault(number, f"the line has {LONGEST_LINE:,} characters or more; exports have no such lines")
            yield line

    def _parsed(self, number: int, line: str) -> dict[str, Any]:
        try:
            value = orjson.loads(line)
        except ValueError as error:
            raise self._fault(number, f"not JSON: {error}") from None
        if not isinstance(value, dict):
            raise self._fault(number, "expected a JSON object")
        return value

    def _message(self, number: int, line: dict[str, Any]) -> Message:
        try:
            return message_from_json(line, self.partition)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._fault(number, f"expected offset, time, headers and value: {error!r}") from None

    def _fault(self, number: int, text: str, advice: str = "") -> ClientError:
        return UsageError(f"{self.path}:{number}: {text}", advice)
