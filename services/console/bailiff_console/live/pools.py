"""All pools that have a log: each followed by itself, and a new one found while this runs. And whether Kafka answers."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from bailiff.client import Client
from bailiff.present.times import moment
from bailiff_bus import topics
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, BusUnavailable, Span
from bailiff_console.problems import busy, missing

from .change import event
from .follower import Followed
from .telemetry import Telemetry

LOOK_EVERY_S = 2.0
BEHIND_FROM = 50  # records; below that what is read and what is there are apart for moments only


class Pools:
    """watch: a connection that gives up soon, to tell whether Kafka answers. snapshots: so many of each pool's past.

    now: µs UTC.
    """

    def __init__(
        self, bus: Bus, watch: Bus, metrics: Metrics, folder: Path, snapshots: int = 64,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:  # fmt: skip
        self._bus, self._watch, self._metrics, self._folder, self._now = bus, watch, metrics, folder, now
        self._snapshots = snapshots
        self._followed: dict[str, Followed] = {}
        self._looked: dict[int, int] = {}  # the end of each partition in which no pool was found
        self._spans: Mapping[int, Span] = {}
        self._no_word_since: int | None = None
        self._looked_once = False
        self._state: tuple[object, ...] = ()
        self.archive_answers: Callable[[], bool] = lambda: False

    # --- what others ask

    def all(self) -> list[Followed]:
        """Every pool, by name."""
        return [self._followed[name] for name in sorted(self._followed)]

    def get(self, name: str) -> Followed:
        """The pool of that name, read to its end. Raises `Refused`."""
        found = self._followed.get(name)
        if found is None:
            if not self._looked_once:
                raise busy("Kafka has not been asked yet which pools there are")
            known = ", ".join(sorted(self._followed)) or "none yet"
            raise missing(f"there is no pool {name!r}; pools with a log: {known}")
        if not found.ready:
            raise busy(found.fault or f"the log of {name} is being read: {found.view.pool.seq + 1} records so far")
        return found

    def known(self, name: str) -> Followed | None:
        """The pool of that name, if it is followed and read to its end."""
        found = self._followed.get(name)
        return found if found is not None and found.ready else None

    @property
    def kafka(self) -> dict[str, object]:
        """Whether it answers; since: when it stopped, ."""
        since = self._no_word_since
        return {"answers": since is None and self._looked_once, "since": moment(since)}

    def state(self, found: Followed) -> bytes:
        """What the console can see of the pool's surroundings, as an event."""
        since = self._no_word_since
        span = self._spans.get(found.place.partition)
        behind = max(0, span.end - found.view.offset) if span is not None else 0
        data = {
            "kafka": self.kafka["answers"], "kafka_since": self.kafka["since"], "archive": self.archive_answers(),
            "behind_s": 0 if since is None else (self._now() - since) // 1_000_000,
            "behind": behind if behind >= BEHIND_FROM else 0, "fault": found.fault,
        }  # fmt: skip
        return event("state", orjson.dumps(data))

    # --- running

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Telemetry(self._bus, lambda: self._followed).run())
            while True:
                await self._look(group)
                self._tell_state()
                for each in self.all():
                    await each.past.tidy()
                await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, group: asyncio.TaskGroup) -> None:
        try:
            self._spans = await self._watch.spans(topics.AUDIT.name)
            await self._find(group)
        except KeyError:
            self._spans = {}  # nobody has created the topics yet
        except BusUnavailable as away:
            if self._no_word_since is None:
                self._no_word_since = self._now()
                logger().warning("Kafka does not answer", why=str(away))
            return
        self._looked_once, self._no_word_since = True, None

    async def _find(self, group: asyncio.TaskGroup) -> None:
        taken = {each.place.partition for each in self._followed.values()}
        fresh = {
            partition: span.end for partition, span in self._spans.items()
            if partition not in taken and span.end > span.begin and self._looked.get(partition) != span.end
        }  # fmt: skip
        if not fresh:
            return
        found = await Client(self._watch, source="console").domains()
        for place in found.values():
            if place.name not in self._followed:
                followed = self._followed[place.name] = Followed(self._bus, place, self._metrics, self._folder, self._snapshots)
                group.create_task(followed.run())
                logger().info("following a pool", domain=place.name, partition=place.partition)
        self._looked = fresh

    def _tell_state(self) -> None:
        """Where something changed; what only grows older, each page counts by itself."""
        state = (self._no_word_since, self.archive_answers(), *((each.name, each.fault) for each in self.all()))
        if state != self._state:
            self._state = state
            for each in self.all():
                each.pages.tell(self.state(each))
