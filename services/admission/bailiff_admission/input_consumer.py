"""Reads the four input topics from the positions in the log (docs/reference/log-protocol.md#inputs)."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bailiff_bus import topics
from bailiff_bus.port import Bus, Message, OffsetOutOfRange, Reader, Span, Wanted
from bailiff_core.model.placement_ranges import runs
from bailiff_core.model.policy import LimitRules
from bailiff_service.clock_and_ids import ClockAndIds

from .input_positions import InputPositions
from .rates import Kind, NearestRate, Rates
from .shed_requests import ShedRequests, above_rate, too_many_waiting
from .turns import UNKNOWN, Turns, User

INPUTS = (topics.REQUESTS, topics.PROPOSALS, topics.EVICTION_PROGRESS, topics.NODE_REPORTS)
PARTITION_REFRESH_US = 30_000_000
POOL = "pool"
READ_AHEAD, READ_LIMIT = 5_000, 500
BACKLOG_LIMIT = 50  # requests of a cycle while others wait: whoever comes next waits for one cycle
MAX_RANGES = 5_000  # in `InputPositions`: all of them fit in one record


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """Offsets that were deleted before they were read. to_offset: where reading goes on; before `from_offset` where the topic was
    cut, or made anew.
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int


Partitions = Mapping[tuple[str, int], Span]
"""Topic, partition, and the offsets that it holds."""


class InputPartitions:
    """The partitions of the input topics. Every 30 s one consumer of this process looks whether there are others."""

    def __init__(self, bus: Bus, clock_and_ids: ClockAndIds) -> None:
        self._bus, self._clock_and_ids = bus, clock_and_ids
        self._recent: Partitions = {}
        self._looked_up_at = clock_and_ids.boot()

    def now(self) -> int:
        """This machine's time, µs UTC."""
        return self._clock_and_ids.wall()

    async def recent(self) -> Partitions:
        """As of the last half minute."""
        if self._clock_and_ids.boot() - self._looked_up_at >= PARTITION_REFRESH_US:
            await self.look_up()
        return self._recent

    async def look_up(self) -> Partitions:
        """As of now."""
        self._looked_up_at = self._clock_and_ids.boot()
        spans = [(topic.name, sorted((await self._bus.spans(topic.name)).items())) for topic in INPUTS]
        self._recent = {(topic, partition): span for topic, found in spans for partition, span in found}
        return self._recent


@dataclass(frozen=True, slots=True)
class NewInputs:
    """What a cycle takes. topic_ids: of topics that are other ones than on record; at_end: no other input was read."""

    messages: list[Message]
    lost: list[LostOffsets]
    topic_ids: dict[str, str]
    at_end: bool


class InputConsumer:
    """Reads all partitions of all input topics. wanted: messages of the pool.

    Requests are read ahead, up to `READ_AHEAD` at a time, and taken in turn by user; all else in its order.
    positions: which inputs are done. shed: requests that are rejected unread.
    """

    def __init__(
        self,
        bus: Bus,
        partitions: InputPartitions,
        wanted: Wanted,
        sender_of: Callable[[Message], User],
        limits: Callable[[], LimitRules],
    ) -> None:
        self._bus, self._partitions, self._wanted, self._sender_of = bus, partitions, wanted, sender_of
        self._limits, self._user_rates, self._source_rates, self._pool_rates = limits, Rates(), Rates(), Rates()
        self.positions = InputPositions({}, 0)
        self._reader: Reader | None = None
        self._topic_ids: dict[str, str] = {}
        self._partitions_seen: Partitions = {}
        self._followed: dict[str, tuple[str, int]] = {}
        self._turns = Turns[Message]()
        self._odd = 0
        self._others = deque[Message]()
        self.shed = ShedRequests()

    async def read(self, limit: int, wait: float) -> NewInputs:
        """What is taken next, at most `limit` messages, and what was lost or shed."""
        if self._reader is None:
            self._reader = await self._bus.reader([], self._wanted)
        found = await (self._partitions.recent() if self._followed else self._partitions.look_up())
        lost, topic_ids = self._follow(found)
        at_end = False
        if len(self._others) < READ_AHEAD and self.positions.ranges < MAX_RANGES:
            wait = 0.0 if lost or self._others else min(wait, self._paced()) if self._turns else wait
            at_end = await self._read_ahead(lost, topic_ids, wait)
        self._odd = 1 - self._odd  # where one is taken at a time, neither waits for the other
        others = min(limit - min((limit + self._odd) // 2, len(self._turns)), len(self._others))
        in_turn = limit - others if len(self._turns) <= limit else min(limit - others, BACKLOG_LIMIT)
        messages = [self._others.popleft() for _ in range(others)]
        messages += self._in_turn(in_turn)
        return NewInputs(messages, lost, topic_ids, at_end and not self._others)

    def _in_turn(self, most: int) -> list[Message]:
        """The next requests, as many as the rates of the pool allow."""
        taken = list[Message]()
        while len(taken) < most and self._turns and not self._paced():
            taken += self._turns.take(1)
            self._pool_rates.count(POOL, self._limits().pool, len(taken[-1].value), self._partitions.now())
        return taken

    def _paced(self) -> float:
        """Seconds until the rates of the pool allow another request."""
        now = self._partitions.now()
        return max(0, (self._pool_rates.retry_at(POOL, self._limits().pool, 1, now) or now) - now) / 1_000_000

    async def _read_ahead(self, lost: list[LostOffsets], topic_ids: dict[str, str], wait: float) -> bool:
        """Reads on, at most `READ_AHEAD` messages. Returns whether that was all there is."""
        assert self._reader is not None
        count = 0
        while count < READ_AHEAD:
            try:
                messages = await self._reader.read(READ_LIMIT, wait)
            except OffsetOutOfRange as gone:
                of_other_topics, others = self._follow(await self._partitions.look_up())
                lost += of_other_topics or [self._skip_to(gone.topic, gone.partition, gone.offset, gone.span.begin)]
                topic_ids |= others
                return False
            for message in messages:
                if self.positions.waits(_name(message), message.offset):
                    self._queue(message)
            for name, at in self._followed.items():
                self.positions.read_to(name, self._reader.position(*at))
            if not messages:
                return True
            count, wait = count + len(messages), 0.0
        return False

    def _queue(self, message: Message) -> None:
        if message.topic != topics.REQUESTS.name:
            self._others.append(message)
            return
        user, size = self._sender_of(message), len(message.value)
        if user.paced:
            limits, rates = self._limits().user, self._source_rates if user.rank == UNKNOWN else self._user_rates
            retry_at = rates.retry_at(user.name, limits, size, message.time)
            if retry_at is not None:
                self.shed.add(user, message, above_rate(user.name, retry_at))
                return
            rates.count(user.name, limits, size, message.time)
        self._wait(user, message)

    def queue_again(self) -> None:
        """Whose turn the waiting requests wait for is found again: a policy or a key has changed who that is.

        Otherwise a user's later requests, read from now on, could pass those that wait as somebody else's.
        """
        waiting, self._turns = self._turns.take(len(self._turns)), Turns()
        for message in sorted(waiting, key=lambda each: (each.partition, each.offset)):
            self._wait(self._sender_of(message), message)

    def _wait(self, user: User, message: Message) -> None:
        for other, shed in self._turns.add(user, message, len(message.value)):
            self.shed.add(other, shed, too_many_waiting(shed))

    def nearest_rates(self) -> Iterator[NearestRate]:
        """Of the users, of the sources whose users are not proven, and of the pool."""
        now = self._partitions.now()
        of_kind: dict[Kind, Rates] = {"user": self._user_rates, "source": self._source_rates, "pool": self._pool_rates}
        for of, rates in of_kind.items():
            percent, name, limit = rates.nearest(now)
            yield NearestRate(of, percent, name, f"limits.{'user' if of == 'source' else of}.{limit}")

    def done(self, topic: str, partition: int, offsets: Iterable[int]) -> None:
        """The next record says that these inputs are done."""
        for first, last in runs(offsets):
            self.positions.done(f"{topic}/{partition}", first, last)

    def wake(self) -> None:
        """A waiting `read` returns at once."""
        if self._reader is not None:
            self._reader.wake()

    async def restart(self, recorded: dict[str, int], topic_ids: Mapping[str, str], seq: int) -> None:
        """Read from these positions on, of the topics with these ids, which the record `seq` has."""
        await self.close()
        self.positions, self._reader, self._followed = InputPositions(recorded, seq), None, {}
        self._topic_ids = dict(topic_ids)
        self._turns, self._others, self.shed = Turns(), deque(), ShedRequests()

    async def close(self) -> None:
        """Close the reader."""
        if self._reader is not None:
            await self._reader.close()

    def _follow(self, found: Partitions) -> tuple[list[LostOffsets], dict[str, str]]:
        """Follow new partitions, and those of topics made anew; one without a position starts at 0.

        Returns what was lost, and the ids of topics that are not those on record.
        """
        if found is self._partitions_seen and self._followed:
            return [], {}
        assert self._reader is not None
        lost, self._partitions_seen = [], found
        others = {topic: span.topic_id for (topic, _), span in found.items() if span.topic_id != self._topic_ids.get(topic)}
        for (topic, partition), span in found.items():
            name = f"{topic}/{partition}"
            is_anew = topic in others and topic in self._topic_ids
            if name in self._followed and not is_anew:
                continue
            self._followed[name] = topic, partition
            at = self.positions.farthest(name) if is_anew else self.positions[name]
            if span.begin <= at <= span.end and not is_anew:
                self._reader.follow(topic, partition, at)
                continue
            gone = self._skip_to(topic, partition, at, span.begin, is_anew=is_anew)
            if gone.from_offset != gone.to_offset:
                lost.append(gone)
        self._topic_ids |= others
        return lost, others

    def _skip_to(self, topic: str, partition: int, offset: int, oldest: int, *, is_anew: bool = False) -> LostOffsets:
        assert self._reader is not None
        self.positions.begin(f"{topic}/{partition}", oldest, is_anew=is_anew)
        self._reader.follow(topic, partition, oldest)
        return LostOffsets(topic, partition, offset, oldest)


def _name(message: Message) -> str:
    return f"{message.topic}/{message.partition}"
