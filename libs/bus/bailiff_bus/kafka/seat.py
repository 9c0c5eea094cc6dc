"""Consumer groups, which here say who works on what."""

import asyncio
from collections.abc import Iterable

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from bailiff_bus.port import BusUnavailable
from bailiff_bus.settings import KafkaSettings

from .calls import bounded, calling, client_arguments

log = structlog.get_logger()


class KafkaSeat(ConsumerRebalanceListener):  # type: ignore[misc]
    """A seat in a consumer group that reads nothing.

    Every rebalance takes all partitions away for a moment; `owned` keeps what it was until the group has decided.
    Two living members with the same `instance` take the seat from each other for ever.
    """

    def __init__(self, settings: KafkaSettings, group: str, topic: str, instance: str | None) -> None:
        self._settings = settings
        self._group = group
        self._consumer = AIOKafkaConsumer(
            **client_arguments(settings) | {"request_timeout_ms": settings.request_timeout_ms + settings.session_timeout_ms},
            group_id=group,
            group_instance_id=instance,
            enable_auto_commit=False,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.session_timeout_ms // 3,
        )
        self._consumer.subscribe([topic], listener=self)
        self._owned: frozenset[int] | None = None
        self._told: frozenset[int] = frozenset()
        self._trouble: KafkaError | None = None
        self._news = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that the group gave to this replica."""
        return self._owned or frozenset()

    async def start(self) -> None:
        """Join the group and wait for its decision."""
        try:
            async with calling(self._settings, f"let us join {self._group}", extra=self._settings.session_timeout_ms / 1000):
                await self._consumer.start()
                await self._news.wait()
        except BaseException:
            await self.close()
            raise
        self._told = self.owned
        self._holding = asyncio.create_task(self._hold())

    async def changed(self) -> frozenset[int]:
        """Wait until `owned` is another than this returned last, and return it."""
        while self.owned == self._told:
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: no seat in {self._group}: {trouble!r}")
            self._news.clear()
            await self._news.wait()
        self._told = self.owned
        return self._told

    async def leave(self) -> None:
        """Give everything back."""
        coordinator = self._consumer._coordinator
        if coordinator is not None:
            coordinator._group_instance_id = None  # aiokafka never says good-bye for a named member
        await self.close()

    async def close(self) -> None:
        """End; with an `instance` the seat is kept until the session times out."""
        self.closed = True
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        await bounded(self._consumer.stop(), self._settings.request_timeout)
        self._owned = frozenset()
        self._news.set()

    async def _hold(self) -> None:
        """aiokafka reports its troubles to whoever polls, and gives the seat up if nobody does."""
        while True:
            try:
                await self._consumer.getmany(timeout_ms=1000)
            except KafkaError as error:
                log.warning("kafka group", group=self._group, trouble=repr(error))
                self._trouble = error
                self._news.set()
                await asyncio.sleep(1)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Says nothing: the decision is yet to come."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The group has decided."""
        self._consumer.pause(*assigned)
        self._owned = frozenset(each.partition for each in assigned)
        self._news.set()
