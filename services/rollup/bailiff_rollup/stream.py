"""Faust integration: partition assignment, the stream of log messages, and the table of stored aggregates.

One agent, no concurrency, at least once. Faust delivers raw messages; `PoolRollup` decodes them, verifies the chain and
skips those already aggregated.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import faust
from aiokafka.errors import KafkaError
from yarl import URL

from bailiff_bus import topics
from bailiff_bus.kafka import build_ssl_context
from bailiff_bus.kafka_settings import KafkaSettings, secret_of
from bailiff_bus.port import BusUnavailable, Message

GROUP = "bailiff-rollup"
COMMIT_EVERY_S = 2.0
BUFFERED = 1_000
STOP_TIMEOUT_S = 5.0
TEN_YEARS_S = 315_360_000.0
"""Faust would log an error every few seconds of a table's partition that it has recovered and, as it should, no longer reads."""

for _name in ("faust", "mode"):  # too verbose at `info`
    logging.getLogger(_name).setLevel(logging.WARNING)


class Stream:
    """The log of all assigned pools. take: awaited with each message, in order."""

    def __init__(self, kafka: KafkaSettings, instance: str, folder: Path, take: Callable[[Message], Awaitable[None]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._take = take
        self.app = faust.App(
            GROUP,
            broker=[URL(f"kafka://{address}") for address in kafka.bootstrap.split(",")],
            broker_credentials=_credentials(kafka),
            broker_session_timeout=kafka.session_timeout,
            broker_heartbeat_interval=kafka.session_timeout / 3,
            broker_request_timeout=max(kafka.request_timeout, kafka.session_timeout),
            broker_commit_interval=COMMIT_EVERY_S,
            consumer_group_instance_id=instance,
            consumer_auto_offset_reset="earliest",
            processing_guarantee="at_least_once",
            stream_buffer_maxsize=BUFFERED,
            stream_wait_empty=False,
            stream_processing_timeout=TEN_YEARS_S,
            store="memory://",
            datadir=str(folder),
            key_serializer="raw",
            value_serializer="raw",
            topic_allow_declare=False,
            topic_disable_leader=True,
            web_enabled=False,
            web_tables_enabled=False,
            autodiscover=False,
        )
        self._log = self._topic(topics.AUDIT.name)
        self._table = self.app.Table(
            "aggregates", key_type=bytes, value_type=bytes, changelog_topic=self._topic(topics.ROLLUP_STATE.name)
        )
        self.app.agent(self._log, name="count", concurrency=1)(self._follow)
        self._ready = self.joined = False
        self.changed = asyncio.Event()
        self._table.on_recover(self._recovered)
        self.app.on_partitions_revoked.connect(self._revoked, weak=False)

    def _topic(self, name: str) -> Any:
        return self.app.topic(name, key_serializer="raw", value_serializer="raw", key_type=bytes, value_type=bytes)

    async def _follow(self, stream: Any) -> None:
        async for event in stream.events():
            found = event.message
            await self._take(
                Message(
                    found.topic,
                    found.partition,
                    found.offset,
                    round(found.timestamp * 1_000_000),
                    found.key,
                    tuple(found.headers or ()),
                    found.value or b"",
                )
            )

    async def run(self) -> None:
        """Run until cancelled, or until Faust stops. Raises the reason."""
        try:
            await self.app.start()
            await self.app.wait_until_stopped()
            reason = self.app.crash_reason
            if isinstance(reason, KafkaError):
                raise BusUnavailable(f"Faust stopped: {reason!r}") from reason
            raise reason or BusUnavailable("Faust stopped")
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self.app.stop()

    async def _recovered(self) -> None:
        self._ready = self.joined = True
        self.changed.set()

    async def _revoked(self, *_: object, **__: object) -> None:
        self._ready = False
        self.changed.set()

    @property
    def owned(self) -> frozenset[int]:
        """Assigned partitions of the log, once their stored aggregates are recovered."""
        if not self._ready:
            return frozenset()
        return frozenset(at.partition for at in self.app.consumer.assignment() if at.topic == topics.AUDIT.name)

    def stored(self, pool: str) -> bytes | None:
        """The aggregates stored last for the pool, by any replica."""
        found: bytes | None = self._table.data.get(pool.encode())
        return found

    async def store(self, pool: str, partition: int, aggregates: bytes) -> None:
        """Store a pool's aggregates; returns when Kafka has acknowledged them."""
        key = pool.encode()
        self._table.data[key] = aggregates
        await asyncio.shield(self._table.send_changelog(partition, key, aggregates))  # Faust does not handle a cancelled send


def _credentials(kafka: KafkaSettings) -> Any:
    tls = build_ssl_context(kafka)
    if kafka.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=kafka.username, password=secret_of(kafka.password), ssl_context=tls, mechanism=kafka.sasl_mechanism
        )
    return faust.SSLCredentials(tls) if tls is not None else None
