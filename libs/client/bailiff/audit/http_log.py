"""A pool's log from the query interface instead of Kafka: a bus on which the audit log and the seals are read over HTTP.

Everything else goes to Kafka as before. What comes is the bytes of the log, orphans too, so that whoever reads here checks
the chain as he would there, and every command that reads works on both without a difference. Only the standard library is
used: one connection per reader, on which one question is out at a time and waits at the other end until there is something.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages import MESSAGE_TYPES
from bailiff_bus.port import Bus, GroupMembership, Message, OffsetOutOfRange, Producer, Reader, Span
from bailiff_log.message_json import message_from_json

from .http_connection import HttpConnection, RequestFailed

WAIT_THERE = 10.0
PAUSE = 0.5
FIRST_PAGE, PAGE = 50, 1000  # often the first record is all that is wanted


class HttpLogSource:
    """Reads `bailiff.audit` and `bailiff.seals` at this address; `kafka` is for all other topics."""

    def __init__(self, address: str, token: str | None, kafka: Bus, patience: float = 10.0) -> None:
        self._address, self._token, self._kafka, self._patience = address, token, kafka, patience
        self._link = HttpConnection(address, token, patience)
        self._pools: dict[int, str] = {}

    async def spans(self, topic: str) -> Mapping[int, Span]:
        """What is archived; of other topics what Kafka holds."""
        if topic == topics.AUDIT.name:
            found = (await self._link.get("/pools"))["items"]
            for each in found:
                if each["first_seq"]:
                    text = f"the archive of {each['pool']} begins with record {each['first_seq']}: those before it were exported"
                    raise ClientError(ExitCode.UNREADABLE, text, "read the log from Kafka: BAILIFF_API= bailiff …")
            self._pools = {each["partition"]: each["pool"] for each in found if each["next_seq"]}
            return {each["partition"]: Span(0, each["next_offset"]) for each in found if each["next_seq"]}
        if topic == topics.SEALS.name:
            return {0: Span(0, 1)}
        return await self._kafka.spans(topic)

    async def reader(self, positions: Sequence[tuple[str, int, int]]) -> Reader:
        """Of one partition of the log, or of all seals; or of topics of Kafka."""
        names = {topic for topic, _, _ in positions}
        if names == {topics.SEALS.name}:
            return _Seals(self._link, await self._names())
        if topics.AUDIT.name in names:
            ((_, partition, offset),) = positions
            pool = (await self._names())[partition]
            return HttpLogReader(
                HttpConnection(self._address, self._token, self._patience), pool, partition, offset, self._patience
            )
        return await self._kafka.reader(positions)

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

    async def topic_settings(self, topic: str) -> Mapping[str, str]:
        """Kafka's."""
        return await self._kafka.topic_settings(topic)

    async def close(self) -> None:
        """Let go of both."""
        self._link.close()
        await self._kafka.close()


class HttpLogReader:
    """One partition of the log, by position. Failed requests are retried for `patience` seconds."""

    def __init__(self, link: HttpConnection, pool: str, partition: int, offset: int, patience: float) -> None:
        self._link, self._pool, self._partition, self._offset = link, pool, partition, offset
        self._patience = patience
        self._failing_since: float | None = None
        self._held: list[Message] = []
        self._behind = offset  # what was held
        self._asked: asyncio.Task[Any] | None = None

    async def read(self, limit: int = 500, wait: float = 0.5) -> list[Message]:
        """What is there, at most `limit`; waits up to `wait` seconds for a first message."""
        if not self._held:
            if self._asked is None:
                self._asked = asyncio.create_task(self._ask(self._offset))
            await asyncio.wait([self._asked], timeout=wait)
            if not self._asked.done():
                return []
            asked, self._asked = self._asked, None
            self._held, self._behind = asked.result()
        given, self._held = self._held[:limit], self._held[limit:]
        self._offset = given[-1].offset + 1 if self._held else self._behind
        return given

    async def _ask(self, offset: int) -> tuple[list[Message], int]:
        loop = asyncio.get_running_loop()
        while True:
            try:
                found = await self._link.get(
                    f"/pools/{self._pool}/log",
                    from_offset=offset,
                    limit=PAGE if offset else FIRST_PAGE,
                    wait=WAIT_THERE if offset else 0,
                )
                self._failing_since = None
                return [message_from_json(line, self._partition) for line in found["messages"]], found["next_offset"]
            except RequestFailed as why:
                if why.status == 400:
                    end = (await self._link.get(f"/pools/{self._pool}"))["next_offset"]
                    raise OffsetOutOfRange(topics.AUDIT.name, self._partition, offset, Span(0, end)) from None
                self._failing_since = self._failing_since or loop.time()
                if loop.time() - self._failing_since > self._patience:
                    raise
                await asyncio.sleep(PAUSE)

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Move to this offset."""
        assert (topic, partition) == (topics.AUDIT.name, self._partition)
        self._stop_asking()
        self._offset = self._behind = offset
        self._held = []

    def position(self, topic: str, partition: int) -> int:  # noqa: ARG002 - the port's
        """The offset that is read next."""
        return self._offset

    async def close(self) -> None:
        """Let go of the connection."""
        asked = self._asked
        self._stop_asking()
        self._link.close()
        if asked is not None:
            with suppress(asyncio.CancelledError, Exception):
                await asked

    def _stop_asking(self) -> None:
        if self._asked is not None:
            self._asked.cancel()
            self._asked = None
            self._link.close()


class _Seals:
    """The seals of all pools as messages of their topic."""

    def __init__(self, link: HttpConnection, pools: Mapping[int, str]) -> None:
        self._link, self._pools, self._done = link, pools, False

    async def read(self, limit: int = 500, wait: float = 0.5) -> list[Message]:  # noqa: ARG002 - the port's
        """All of them, once."""
        if self._done:
            return []
        self._done = True
        found: list[Message] = []
        for pool in self._pools.values():
            cursor: dict[str, str] = {}
            while True:
                page = await self._link.get(f"/pools/{pool}/seals", order="asc", limit=PAGE, **cursor)
                for each in page["items"]:
                    body = MESSAGE_TYPES[f"bailiff.{each['kind']}.v1"].model_validate_json(json.dumps(each["data"]))
                    headers, value = wrap(body, source="/bailiff/api", id=str(each["offset"]), pool=pool, time_us=0)
                    found.append(Message(topics.SEALS.name, 0, 0, 0, None, headers, value))
                if page["next"] is None:
                    break
                cursor = {"cursor": page["next"]}
        return found

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """There is only the beginning."""

    def position(self, topic: str, partition: int) -> int:  # noqa: ARG002 - the port's
        """Behind all of them, once they were read."""
        return int(self._done)

    async def close(self) -> None:
        """The connection is the bus's."""
