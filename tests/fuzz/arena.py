"""The real services on the bus in memory, in virtual time, fed with almost valid messages.

The world of the simulation without its faults; its witness checks every record. What admission makes of each message is
noted as it reads it.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import structlog
from tests.simulation.plan import POOL, plan_of
from tests.simulation.processes import VirtualLoop
from tests.simulation.world import World

from bailiff_admission.input_decoder import DecodedInput, InputDecoder
from bailiff_bus import topics
from bailiff_bus.envelope import MAX_REASON, unwrap_dead_letter
from bailiff_bus.messages import JobSpec, SubmitJob
from bailiff_bus.port import Headers, Message
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, IdentityRules
from bailiff_core.model.state import PoolState
from bailiff_log.signatures import key_id

from .mutations import KEY, Valid, forged_wires, mutated, plain, valid_messages

BATCH = 200
WORLD = 11  # its machines have GPUs
INPUTS = (topics.REQUESTS.name, topics.PROPOSALS.name, topics.EVICTION_PROGRESS.name, topics.NODE_REPORTS.name)
PAGE = os.sysconf("SC_PAGE_SIZE")

Sent = tuple[str, Headers, bytes]


@dataclass
class Tally:
    """Outcomes of the messages of one run."""

    seed: int
    sent: Counter[str] = field(default_factory=Counter)  # by topic
    rejected: Counter[str] = field(default_factory=Counter)  # by code
    accepted: Counter[str] = field(default_factory=Counter)  # by topic
    memory: list[int] = field(default_factory=list)  # resident bytes after each tenth
    log: list[int] = field(default_factory=list)  # of which the log, which a real broker keeps on its disk
    violation: str | None = None
    candidates: list[Sent] = field(default_factory=list)  # the messages before the failure

    def __str__(self) -> str:
        codes = "  ".join(f"{code} {count}" for code, count in self.rejected.most_common())
        mib = ", ".join(f"{all_of_it >> 20} ({log >> 20})" for all_of_it, log in zip(self.memory, self.log, strict=True))
        return (
            f"seed {self.seed}: {self.sent.total()} messages, {self.rejected.total()} rejected, "
            f"{self.accepted.total()} accepted as harmless\n  by topic: {dict(self.sent)}\n  by reason: {codes}\n"
            f"  resident after each tenth, MiB (of which the log in memory): {mib}\n  {self.violation or 'no service failed'}"
        )


class Arena(World):
    """A world where nothing goes wrong by itself."""

    def __init__(self, loop: VirtualLoop, folder: Path) -> None:
        rules = IdentityRules(keys={key_id(KEY): "console"}, operators=("console",))
        policy = DEFAULT_POLICY.model_copy(update={"identity": rules})
        plan = replace(plan_of(WORLD), policy=policy, posts=(), events=(), digest_every=10_000, max_cycle_inputs=200)
        super().__init__(plan, loop, folder)
        self.cluster.faults = None
        self.witness.living = list  # agents get false commands here, and what they run is not checked
        self.witness.starts = lambda task: None  # type: ignore[method-assign]
        self.witness.stops = lambda task, how, isolated: None  # type: ignore[method-assign]

    async def begin(self) -> None:
        """Start everything, and wait until the nodes have joined."""
        for name in (*self.plan.replicas, *(f"agent-{machine}" for machine in self.machines)):
            self.start(name)
        for _ in range(20):
            await asyncio.sleep(0.5)
        assert len(self.witness.state.nodes) == len(self.machines)

    async def feed(self, batch: Sequence[Sent]) -> None:
        """Store these and let them be read."""
        for topic, headers, value in batch:
            partitions = len(self.cluster.partitions(topic))
            self.cluster.store(topic, len(value) % partitions, POOL.encode(), headers, value)
        await asyncio.sleep(0.3)

    def forget(self) -> None:
        """As retention does: what was read from the inputs is gone, and the letters, too."""
        for topic in (*INPUTS, topics.DEAD_LETTERS.name, topics.NODE_COMMANDS.name, topics.ALARMS.name):
            for number, partition in enumerate(self.cluster.partitions(topic)):
                self.cluster.trim(topic, number, partition.end)
        self.witness.lines.clear()

    def letters(self) -> list[Message]:
        """The dead letters that are there now."""
        count = len(self.cluster.partitions(topics.DEAD_LETTERS.name))
        return [message for number in range(count) for message in self.cluster.messages(topics.DEAD_LETTERS.name, number)]

    async def still_works(self) -> None:
        """A good job runs to its end; where the log was said to be cut short and reports are gone, after lease and margin."""
        spec = JobSpec(command=("true",), env={"BAILIFF_SIM_RUN_FOR": "1"}, runtime="simulated")
        group = TaskGroup(gpu_milli=1000, cpu_milli=1, memory_bytes=1)
        demand = JobDemand(job="good", tasks=(group,), priority_class="inference")
        await self.feed([(topics.REQUESTS.name, *plain(SubmitJob(demand=demand, spec=spec), POOL, "good"))])
        for _ in range(1_600):
            await asyncio.sleep(0.5)
            job = self.witness.state.jobs.get("good")
            if job is not None and job.phase == "succeeded":
                return
        self.witness.violated(f"after all of it a good job does not run: {self.witness.state.jobs.get('good')}")


def inputs(seed: int, node: str, incarnation: str, pool: str = POOL) -> "InputConsumer":
    """The messages that the seed gives."""
    return InputConsumer(Random(f"fuzz/{seed}"), valid_messages(node, incarnation), pool)


@dataclass
class InputConsumer:
    """An endless row of them."""

    chance: Random
    valid: list[Valid]
    pool: str
    number: int = 0
    wires: Sequence[tuple[Headers, bytes]] = ()  # true records of the log, to forge others from

    def batch(self, count: int) -> list[Sent]:
        """The next messages: each type equally often, occasionally a forged record; up to the broker's size limit."""
        found: list[Sent] = []
        while len(found) < count:
            topic, headers, value = self._next()
            with suppress(ValueError):
                topics.check_size(topic, self.pool.encode(), headers, value)
                found.append((topic, headers, value))
        return found

    def _next(self) -> Sent:
        self.number += 1
        if self.wires and not self.chance.randrange(15):
            return (topics.AUDIT.name, *next(forged_wires(self.chance, *self.chance.choice(self.wires))))
        valid = self.chance.choice(self.valid)
        return (valid.topic, *mutated(self.chance, valid, self.number, self.pool))


async def _fuzz(arena: Arena, tally: Tally, count: int, only: Sequence[Sent] | None) -> None:
    await arena.begin()
    node = arena.witness.state.nodes[0]
    source = inputs(tally.seed, node.name, node.incarnation)
    source.wires = [(m.headers, m.value) for m in arena.cluster.messages(topics.AUDIT.name, 0)]
    batches = [only] if only is not None else (source.batch(BATCH) for _ in range(count // BATCH))
    tenth = max(1, count // BATCH // 10)
    for number, batch in enumerate(batches, 1):
        tally.sent.update(topic for topic, _, _ in batch)
        with noting() as read:
            await arena.feed(batch)
        _judge(arena, tally, batch, read)
        if arena.witness.violation is not None:
            tally.candidates = list(batch)
            break
        arena.forget()
        if number % tenth == 0:
            tally.memory.append(_resident())
            tally.log.append(_size(arena.cluster.messages(topics.AUDIT.name, 0)))
    else:
        await arena.still_works()
    tally.violation = arena.witness.violation


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _size(log: Sequence[Message]) -> int:
    """Bytes of memory. The names of headers are the same objects everywhere."""
    size = sys.getsizeof
    parts = (
        (message, message.headers, message.value, *(pair for pair in message.headers), *(value for _, value in message.headers))
        for message in log
    )
    return sum(size(part) for each in parts for part in each)


class noting:  # noqa: N801 - used as a context manager only
    """What admission makes of each message while the block lasts: (message, outcome)."""

    def __enter__(self) -> list[tuple[Message, DecodedInput]]:
        found: list[tuple[Message, DecodedInput]] = []
        self._read = true_read = InputDecoder.read

        def read(reading: InputDecoder, state: PoolState, message: Message) -> DecodedInput | None:
            outcome = true_read(reading, state, message)
            if outcome is not None:
                found.append((message, outcome))
            return outcome

        InputDecoder.read = read  # type: ignore[method-assign]
        return found

    def __exit__(self, *_: object) -> None:
        InputDecoder.read = self._read  # type: ignore[method-assign]


def _judge(arena: Arena, tally: Tally, batch: Sequence[Sent], read: list[tuple[Message, DecodedInput]]) -> None:
    """Each input was read, and either has facts, or none for a good reason, or was rejected with a letter that says why."""
    sent = sum(topic in INPUTS for topic, _, _ in batch)
    mine = [(message, outcome) for message, outcome in read if message.headers or message.value]
    seen = {(message.topic, message.partition, message.offset) for message, _ in mine}
    letters = {}
    for message in arena.letters():
        letter, _, value = unwrap_dead_letter(message)
        letters[letter.topic, letter.partition, letter.offset] = (letter, value)
    for message, outcome in mine:
        where = (message.topic, message.partition, message.offset)
        if outcome.rejected is None:
            tally.accepted[message.topic] += 1
            continue
        tally.rejected[outcome.rejected.code] += 1
        letter, value = letters.get(where, (None, b""))
        if letter is None or value != message.value:
            arena.witness.violated(f"{where} was rejected ({outcome.rejected.code}) and has no letter that holds it")
        elif not letter.reason or len(letter.reason) > MAX_REASON or letter.code == "internal-error":
            arena.witness.violated(f"{where}: {letter.code}: {letter.reason!r} is no reason")
    if len(seen) < sent and arena.witness.violation is None:
        arena.witness.violated(f"{sent} inputs were sent and {len(seen)} were read")


def fuzz(seed: int, count: int, only: Sequence[Sent] | None = None) -> Tally:
    """Feeds `count` messages of this seed, or just these."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    loop, tally = VirtualLoop(), Tally(seed)
    with tempfile.TemporaryDirectory(prefix="bailiff-fuzz-") as folder:
        arena = Arena(loop, Path(folder))
        try:
            loop.run_until_complete(_fuzz(arena, tally, count, only))
        except RuntimeError as error:  # nothing happens any more, or no time passes
            tally.violation = str(error)
        arena.witness.violation = arena.witness.violation or "over"
        loop.run_until_complete(arena.tear_down())
        loop.close()
    return tally


def shortest(tally: Tally) -> list[Sent]:
    """Returns the fewest candidates that reproduce the failure, by bisection; all of them where no half does."""
    candidates = tally.candidates
    while len(candidates) > 1:
        half = len(candidates) // 2
        halves = (candidates[:half], candidates[half:])
        guilty = next((each for each in halves if fuzz(tally.seed, 0, each).violation is not None), None)
        if guilty is None:
            break
        candidates = guilty
    return candidates


def listing(messages: Sequence[Sent]) -> str:
    """For a person: what was sent, short."""
    return "\n".join(
        json.dumps({"topic": topic, "headers": [[name, repr(text)[:120]] for name, text in headers], "value": repr(value)[:600]})
        for topic, headers, value in messages[:5]
    )
