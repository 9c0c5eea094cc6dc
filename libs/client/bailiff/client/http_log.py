"""HTTP log source: a bus that reads the audit log, seals and cosignatures from the HTTP API instead of Kafka.

All other topics are read from Kafka. The HTTP API returns the bytes of the log including orphans, so readers verify the
chain as with Kafka, and all reading commands work with both. Each reader has one connection with at most one request in
flight (long polling). Uses only the standard library.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus import topics
from bailiff_bus.assignment import Assigned
from bailiff_bus.port import Bus, GroupMembership, Message, OffsetOutOfRange, Producer, Reader, Span, Wanted
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_log.message_json import message_from_json

from .http_connection import HttpConnection, RequestFailed

WAIT_THERE = 10.0
PAUSE = 0.5
ARCHIVED = {topics.SEALS.name: "seals", topics.COSIGNATURES.name: "cosignatures"}
"""Topics that the archive has, by its paths."""
FIRST_PAGE, PAGE = 50, 1000  # often only the first record is needed


class HttpLogSource:
    """Reads `bailiff.audit` and `ARCHIVED` at this address, all other topics from Kafka.

    Args:
        kafka: Makes the bus of the other topics, once one of them is needed.
        patience: Seconds of retries.
    """

    def __init__(self, address: str, token: str | None, kafka: Callable[[], Bus], patience: float = 10.0) -> None:
        self._address, self._token, self._make_kafka, self._patience = address, token, kafka, patience
        self._connection = HttpConnection(address, token, patience)
        self._pools: dict[int, str] = {}

    @cached_property
    def _kafka(self) -> Bus:
        return self._make_kafka()

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """Spans of the archived log; for other topics those of Kafka.

        Raises:
            ClientError: The archive was pruned.
        """
        if topic == topics.AUDIT.name:
            found = (await self._connection.get("/pools"))["items"]
            for each in found:
                if each["first_seq"]:
                    text = f"the archive of {each['pool']} begins with record {each['first_seq']}: earlier ones were pruned"
                    raise ClientError(ExitCode.UNREADABLE, text, "read the log from Kafka: BAILIFF_API= bailiff …")
            self._pools = {each["partition"]: each["pool"] for each in found if each["next_seq"]}
            return {each["partition"]: Span(0, each["next_offset"]) for each in found if each["next_seq"]}
        if topic in ARCHIVED:
            return {0: Span(0, 1)}
        return await self._kafka.spans(topic)

    async def reader(self, positions: Sequence[tuple[str, int, int]], wanted: Wanted | None = None) -> Reader:
        """A reader of one partition of the log, of one of `ARCHIVED`, or of Kafka topics."""
        names = {topic for topic, _, _ in positions}
        assert wanted is None or not names & {topics.AUDIT.name, *ARCHIVED}, "the archive has no filter"
        if len(names) == 1 and names <= ARCHIVED.keys():
            return _Messages(self._connection, await self._names(), names.pop())
        if topics.AUDIT.name in names:
            ((_, partition, offset),) = positions
            pool = (await self._names())[partition]
            return HttpLogReader(
                HttpConnection(self._address, self._token, self._patience), pool, partition, offset, self._patience
            )
        return await self._kafka.reader(positions, wanted)

    async def _names(self) -> Mapping[int, str]:
        if not self._pools:
            await self.spans(topics.AUDIT.name)
        return self._pools

    async def producer(self) -> Producer:
        """Kafka's."""
        return await self._kafka.producer()

    async def join(self, group: str, topic: str, instance: str | None) -> GroupMembership:
        """Kafka's."""
        return await self._kafka.join(group, topic, instance)

    async def members(self, group: str) -> Mapping[str, Assigned]:
        """Those in Kafka."""
        return await self._kafka.members(group)

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """Kafka's."""
        return await self._kafka.topic_settings(topic)

    async def close(self) -> None:
        """Closes both connections."""
        self._connection.close()
        if "_kafka" in vars(self):
            await self._kafka.close()


class HttpLogReader:
    """One partition of the log, by position. Failed requests are retried for `patience` seconds."""

    def __init__(self, connection: HttpConnection, pool: str, partition: int, offset: int, patience: float) -> None:
        self._connection, self._pool, self._partition, self._offset = connection, pool, partition, offset
        self._patience = patience
        self._failing_since: float | None = None
        self._buffer: list[Message] = []
        self._buffer_end = offset  # offset after the buffered messages
        self._pending: asyncio.Task[Any] | None = None
        self._woken = asyncio.Event()

    async def read(self, limit: int = 500, wait: float = 0.5) -> list[Message]:
        """Available messages, at most `limit`; waits up to `wait` seconds for the first one."""
        if not self._buffer:
            if self._pending is None:
                self._pending = asyncio.create_task(self._fetch(self._offset))
            woken = asyncio.create_task(self._woken.wait())
            await asyncio.wait([self._pending, woken], timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            self._woken.clear()
            if not self._pending.done():
                return []
            pending, self._pending = self._pending, None
            self._buffer, self._buffer_end = pending.result()
        given, self._buffer = self._buffer[:limit], self._buffer[limit:]
        self._offset = given[-1].offset + 1 if self._buffer else self._buffer_end
        return given

    async def _fetch(self, offset: int) -> tuple[list[Message], int]:
        loop = asyncio.get_running_loop()
        while True:
            try:
                found = await self._connection.get(
                    f"/pools/{self._pool}/log",
                    from_offset=offset,
                    limit=PAGE if offset else FIRST_PAGE,
                    wait=WAIT_THERE if offset else 0,
                )
                self._failing_since = None
                return [message_from_json(line, self._partition) for line in found["messages"]], found["next_offset"]
            except RequestFailed as error:
                if error.status == 400:
                    end = (await self._connection.get(f"/pools/{self._pool}"))["next_offset"]
                    raise OffsetOutOfRange(topics.AUDIT.name, self._partition, offset, Span(0, end)) from None
                self._failing_since = self._failing_since or loop.time()
                if loop.time() - self._failing_since > self._patience:
                    raise
                await asyncio.sleep(PAUSE)

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Moves to this offset."""
        assert (topic, partition) == (topics.AUDIT.name, self._partition)
        self._cancel_pending()
        self._offset = self._buffer_end = offset
        self._buffer = []

    def position(self, topic: str, partition: int) -> int:  # noqa: ARG002 - the port's
        """Offset of the next message."""
        return self._offset

    def wake(self) -> None:
        """A waiting read returns at once."""
        self._woken.set()

    async def close(self) -> None:
        """Closes the connection."""
        pending = self._pending
        self._cancel_pending()
        self._connection.close()
        if pending is not None:
            with suppress(asyncio.CancelledError, Exception):
                await pending

    def _cancel_pending(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
            self._connection.close()


class _Messages:
    """The messages of all pools on one of the topics `ARCHIVED`."""

    def __init__(self, connection: HttpConnection, pools: Mapping[int, str], topic: str) -> None:
        self._connection, self._pools, self._topic, self._done = connection, pools, topic, False

    async def read(self, limit: int = 500, wait: float = 0.5) -> list[Message]:  # noqa: ARG002 - the port's
        """All messages, on the first call."""
        if self._done:
            return []
        from bailiff_bus.envelope import wrap  # imported here: a reader of the log alone loads no message models

        self._done = True
        found: list[Message] = []
        for pool in self._pools.values():
            cursor: dict[str, str] = {}
            while True:
                page = await self._connection.get(f"/pools/{pool}/{ARCHIVED[self._topic]}", order="asc", limit=PAGE, **cursor)
                for each in page["items"]:
                    body = MESSAGE_TYPES[f"bailiff.{each['kind']}.v1"].model_validate_json(json.dumps(each["data"]))
                    headers, value = wrap(body, source="/bailiff/api", id=str(each["offset"]), pool=pool, time_us=0)
                    found.append(Message(self._topic, 0, 0, 0, None, headers, value))
                if page["next"] is None:
                    break
                cursor = {"cursor": page["next"]}
        return found

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Does nothing: they are always read from the beginning."""

    def position(self, topic: str, partition: int) -> int:  # noqa: ARG002 - the port's
        """1 after they were read, else 0."""
        return int(self._done)

    def wake(self) -> None:
        """Does nothing: a read does not wait."""

    async def close(self) -> None:
        """Does nothing: the bus owns the connection."""
