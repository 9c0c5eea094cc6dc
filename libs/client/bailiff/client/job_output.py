"""Output of jobs from `bailiff.job-logs`: each part once, by task and attempt, as chunks or as whole lines."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bailiff.render.plain_text import harmless_output, plain
from bailiff_bus import topics

from .errors import InvalidRequest
from .requester import check_may_read_output

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

    from bailiff_bus.port import Message

    from .client import Client

LOG_WAIT = 0.3
LINE_END = re.compile("\r\n|[\r\n\x85]")
"""Also a lone return, so that a task cannot write over the prefix of its line."""
LONGEST_LINE = 1_000_000  # characters; a longer line is split


@dataclass(frozen=True, slots=True)
class OutputFilter:
    """Which output is wanted.

    Attributes:
        since: µs UTC, when it reached Kafka.
        pattern: A line that does not contain it is left out.
    """

    pool: str
    job: str
    task: int | None = None
    attempt: int | None = None
    since: int | None = None
    pattern: re.Pattern[str] | None = None

    def takes(self, message: Message) -> bool:
        """Whether the message is output of this pool's job, task and attempt."""
        at = dict(message.headers)
        return (
            (message.key or b"").decode(errors="replace") == self.job
            and at.get("ce_pool", self.pool.encode()) == self.pool.encode()
            and (self.task is None or at.get("ce_task") == str(self.task).encode())
            and (self.attempt is None or at.get("ce_attempt") == str(self.attempt).encode())
        )


def pattern_of(text: str | None) -> re.Pattern[str] | None:
    """The regular expression, or None for None. Raises `InvalidRequest`."""
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise InvalidRequest([f"grep: {text!r} is not a regular expression: {error}"]) from None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output, as one task wrote it.

    Attributes:
        time: µs UTC, when it reached Kafka.
    """

    task: str
    attempt: str
    node: str
    time: int
    text: str


class NewOutput:
    """The output that was not seen before, by offset: an agent that was restarted sends some of it again."""

    def __init__(self) -> None:
        self.seen: dict[tuple[bytes, ...], int] = {}

    def chunk(self, message: Message) -> Chunk:
        """The new output in the message, without control sequences except colours."""
        at = dict(message.headers)
        place = tuple(at.get(name, b"") for name in ("ce_attempt", "ce_task", "ce_node"))
        known, offset = self.seen.get(place, 0), at.get("ce_offset", b"")
        begin = int(offset) if offset.isdigit() else known
        new = message.value[max(0, known - begin) :]
        self.seen[place] = max(known, begin + len(message.value))
        attempt, task, node = (plain(part.decode(errors="replace")) for part in place)
        return Chunk(task, attempt, node, message.time, harmless_output(new.decode(errors="replace"), colours=True))


class WholeLines:
    """Joins chunks into lines, for each task and attempt. The last line of a task may come without its end: `rest`."""

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self._pattern = pattern
        self._open: dict[tuple[str, str, str], Chunk] = {}

    def take(self, chunk: Chunk) -> Iterator[Chunk]:
        """The lines that this chunk completes, without line ends."""
        place = (chunk.attempt, chunk.task, chunk.node)
        before = self._open.pop(place, None)
        text = (before.text if before is not None else "") + chunk.text
        cut = text.endswith("\r")  # the line end may be the first half of one
        *lines, last = LINE_END.split(text[:-1] if cut else text)
        last += "\r" if cut else ""
        if len(last) > LONGEST_LINE:
            lines, last = [*lines, last], ""
        if last:
            self._open[place] = replace(chunk, text=last)
        yield from self._wanted(self._line(chunk, line) for line in lines)

    def rest(self) -> Iterator[Chunk]:
        """The last lines, where a task wrote no line end."""
        yield from self._wanted(self._line(chunk, chunk.text) for chunk in self._open.values())
        self._open.clear()

    def _wanted(self, lines: Iterable[Chunk]) -> Iterator[Chunk]:
        return (line for line in lines if self._pattern is None or self._pattern.search(line.text))

    @staticmethod
    def _line(chunk: Chunk, text: str) -> Chunk:
        return replace(chunk, text=harmless_output(text.removesuffix("\r"), colours=True))


async def chunks(client: Client, wanted: OutputFilter, is_over: Callable[[], Awaitable[bool]]) -> AsyncGenerator[Chunk, None]:
    """The retained output of a job, then new output until `is_over`.

    Raises:
        ClientError: The policy denies it.
    """
    check_may_read_output(client, (await client.projection(wanted.pool)).state, wanted.job)
    spans = await client.spans(topics.JOB_LOGS.name)
    reader = await client.bus.reader([(topics.JOB_LOGS.name, partition, span.begin) for partition, span in spans.items()])
    new, over = NewOutput(), False
    try:
        while True:
            messages = await reader.read(wait=LOG_WAIT)
            for message in messages:
                if wanted.takes(message):
                    chunk = new.chunk(message)
                    if chunk.text and (wanted.since is None or message.time >= wanted.since):
                        yield chunk
            if messages or not all(reader.position(topics.JOB_LOGS.name, number) >= span.end for number, span in spans.items()):
                continue
            if over:
                return
            over = await is_over()  # read once more, for the last output
    finally:
        await reader.close()


async def lines(client: Client, wanted: OutputFilter, is_over: Callable[[], Awaitable[bool]]) -> AsyncGenerator[Chunk, None]:
    """As `chunks`, in whole lines: those that contain the pattern."""
    whole = WholeLines(wanted.pattern)
    async with aclosing(chunks(client, wanted, is_over)) as found:
        async for chunk in found:
            for line in whole.take(chunk):
                yield line
    for line in whole.rest():
        yield line
