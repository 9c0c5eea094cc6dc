"""Discovers pools and follows each one; also tracks whether Kafka answers."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
from typing_extensions import TypedDict

from bailiff.client.client import Client
from bailiff.render.serializers.times import moment
from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Span, TopicMissing
from bailiff_core.views import Moment
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.problems import not_found, unavailable

from .change import event
from .follower import PoolFollower
from .telemetry import Telemetry

POLL_S = 2.0
BEHIND_FROM = 50  # messages: a smaller lag is normal


class KafkaState(TypedDict):
    """Whether Kafka answers, and since when it does not."""

    answers: bool
    since: Moment | None


class ConsoleState(TypedDict):
    """What the console has of a pool. archive: whether it answers. behind: messages of the log not read yet.

    behind_s: since Kafka does not answer. fault: why the log cannot be followed. auditor_since: when the auditor reported last,
    if it is silent.
    """

    kafka: bool
    kafka_since: Moment | None
    archive: bool
    auditor_since: str | None
    behind_s: int
    behind: int
    fault: str | None


class Pools:
    """watch: connection with a short timeout, to probe Kafka. snapshots: maximum number per pool. now: clock, µs UTC."""

    def __init__(
        self,
        bus: Bus,
        watch: Bus,
        metrics: Metrics,
        folder: Path,
        snapshots: int = 64,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._bus, self._watch, self._metrics, self._folder, self._now = bus, watch, metrics, folder, now
        self._snapshots = snapshots
        self._followed: dict[str, PoolFollower] = {}
        self._ends: dict[int, int] = {}  # end offset of each partition without a pool
        self._spans: Mapping[int, Span] = {}
        self._silent_since: int | None = None
        self._probed = False
        self._state: tuple[object, ...] = ()
        self.archive_answers: Callable[[], bool] = lambda: False
        self.auditor_silent: Callable[[], Mapping[str, str]] = dict

    # --- queries

    def all(self) -> list[PoolFollower]:
        """All pools by name."""
        return [self._followed[name] for name in sorted(self._followed)]

    def get(self, name: str) -> PoolFollower:
        """The pool, read to its end. Raises `ApiError`."""
        found = self._followed.get(name)
        if found is None:
            if not self._probed:
                raise unavailable("the pools are not discovered yet")
            known = ", ".join(sorted(self._followed)) or "none"
            raise not_found(f"no pool {name!r}; known pools: {known}")
        if not found.ready:
            raise unavailable(
                found.fault or f"the log of {name} is being read: {found.log_projection.state.seq + 1} records so far"
            )
        return found

    def known(self, name: str) -> PoolFollower | None:
        """The pool if it is followed and read to its end, else None."""
        found = self._followed.get(name)
        return found if found is not None and found.ready else None

    @property
    def kafka(self) -> KafkaState:
        """answers: whether Kafka answers; since: when it stopped answering, or None."""
        since = self._silent_since
        return {"answers": since is None and self._probed, "since": moment(since)}

    def state(self, found: PoolFollower) -> bytes:
        """The server-sent event `state`: Kafka, archive, lag and fault of the pool."""
        since = self._silent_since
        span = self._spans.get(found.place.partition)
        behind = max(0, span.end - found.log_projection.offset) if span is not None else 0
        data: ConsoleState = {
            "kafka": self.kafka["answers"],
            "kafka_since": self.kafka["since"],
            "archive": self.archive_answers(),
            "auditor_since": self.auditor_silent().get(found.name),
            "behind_s": 0 if since is None else (self._now() - since) // 1_000_000,
            "behind": behind if behind >= BEHIND_FROM else 0,
            "fault": found.fault,
        }
        return event("state", orjson.dumps(data))

    # --- running

    async def run(self) -> None:
        """Discover and follow pools until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Telemetry(self._bus, lambda: self._followed).run())
            while True:
                await self._poll(group)
                self._broadcast_state()
                for each in self.all():
                    await each.history.tidy()
                await asyncio.sleep(POLL_S)

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        try:
            self._spans = await self._watch.spans(topics.AUDIT.name)
            await self._discover(group)
        except TopicMissing:
            self._spans = {}  # the topics do not exist yet
        except BusUnavailable as error:
            if self._silent_since is None:
                self._silent_since = self._now()
                logger().warning("Kafka does not answer", why=str(error))
            return
        self._probed, self._silent_since = True, None

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        taken = {each.place.partition for each in self._followed.values()}
        fresh = {
            partition: span.end
            for partition, span in self._spans.items()
            if partition not in taken and span.end > span.begin and self._ends.get(partition) != span.end
        }
        if not fresh:
            return
        found = await Client(self._watch, source="console").pools()
        for place in found.values():
            if place.name not in self._followed:
                followed = self._followed[place.name] = PoolFollower(
                    self._bus, place, self._metrics, self._folder, self._snapshots
                )
                group.create_task(followed.run())
                logger().info("following a pool", pool=place.name, partition=place.partition)
        self._ends = fresh

    def _broadcast_state(self) -> None:
        """Broadcast the state if it changed; ages are counted by the clients."""
        silent = tuple(self.auditor_silent().items())
        state = (self._silent_since, self.archive_answers(), silent, *((each.name, each.fault) for each in self.all()))
        if state != self._state:
            self._state = state
            for each in self.all():
                each.subscribers.broadcast(self.state(each))
