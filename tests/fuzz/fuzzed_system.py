"""The real services on the in-memory bus, in virtual time, with almost valid messages as input.

The simulation without its faults; its checker checks every record. Admission's outcome for each message is recorded.
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
from bailiff_bus.port import Headers, Message
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import DEFAULT_POLICY, IdentityRules
from bailiff_core.model.state import PoolState
from bailiff_core.records.job_requests import SubmitJob
from bailiff_log.keys import key_id

from .mutations import KEY, Valid, forged_wires, mutated, plain, valid_messages

BATCH = 200
WORLD = 11  # its machines have GPUs
INPUTS = (topics.REQUESTS.name, topics.PROPOSALS.name, topics.EVICTION_PROGRESS.name, topics.NODE_REPORTS.name)
PAGE = os.sysconf("SC_PAGE_SIZE")

Sent = tuple[str, Headers, bytes]


@dataclass
class Results:
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


class FuzzedSystem(World):
    """The simulated system without injected faults."""

    def __init__(self, loop: VirtualLoop, folder: Path) -> None:
        rules = IdentityRules(keys={key_id(KEY): "console"}, operators=("console",))
        policy = DEFAULT_POLICY.model_copy(update={"identity": rules})
        plan = replace(plan_of(WORLD), policy=policy, posts=(), events=(), digest_every=10_000, max_cycle_inputs=200)
        super().__init__(plan, loop, folder)
        self.cluster.faults = None
        self.checker.living = list  # agents get forged commands, so running tasks are not checked
        self.checker.on_start = lambda task, order: None  # type: ignore[method-assign]
        self.checker.on_stop = lambda task, how, isolated: None  # type: ignore[method-assign]

    async def begin(self) -> None:
        """Start everything, and wait until the nodes have joined."""
        for name in (*self.plan.replicas, *(f"agent-{machine}" for machine in self.machines)):
            self.start(name)
        for _ in range(20):
            await asyncio.sleep(0.5)
        assert len(self.checker.state.nodes) == len(self.machines)

    async def feed(self, batch: Sequence[Sent]) -> None:
        """Store these messages, and wait until they are read."""
        for topic, headers, value in batch:
            partitions = len(self.cluster.partitions(topic))
            self.cluster.store(topic, len(value) % partitions, POOL.encode(), headers, value)
        await asyncio.sleep(0.3)

    def trim(self) -> None:
        """Delete inputs and dead letters that were read, as retention does."""
        for topic in (*INPUTS, topics.DEAD_LETTERS.name, topics.NODE_COMMANDS.name, topics.ALARMS.name):
            for number, partition in enumerate(self.cluster.partitions(topic)):
                self.cluster.trim(topic, number, partition.end)
        self.checker.lines.clear()

    def dead_letters(self) -> list[Message]:
        """All dead letters."""
        count = len(self.cluster.partitions(topics.DEAD_LETTERS.name))
        return [message for number in range(count) for message in self.cluster.messages(topics.DEAD_LETTERS.name, number)]

    async def check_still_works(self) -> None:
        """A valid job runs to its end; if a forged message reported a truncation, only after lease and margin."""
        spec = JobSpec(command=("true",), env={"BAILIFF_SIM_RUN_FOR": "1"}, runtime="simulated")
        group = TaskGroup(gpu_milli=1000, cpu_milli=1, memory_bytes=1)
        demand = JobDemand(job="good", tasks=(group,), priority_class="inference")
        await self.feed([(topics.REQUESTS.name, *plain(SubmitJob(demand=demand, spec=spec), POOL, "good"))])
        for _ in range(1_600):
            await asyncio.sleep(0.5)
            job = self.checker.state.jobs.get("good")
            if job is not None and job.phase == "succeeded":
                return
        self.checker.violated(f"a valid job does not run at the end: {self.checker.state.jobs.get('good')}")


def inputs(seed: int, node: str, incarnation: str, pool: str = POOL) -> "InputConsumer":
    """The messages of this seed."""
    return InputConsumer(Random(f"fuzz/{seed}"), valid_messages(node, incarnation), pool)


@dataclass
class InputConsumer:
    """An endless sequence of messages."""

    rng: Random
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
        if self.wires and not self.rng.randrange(15):
            return (topics.AUDIT.name, *next(forged_wires(self.rng, *self.rng.choice(self.wires))))
        valid = self.rng.choice(self.valid)
        return (valid.topic, *mutated(self.rng, valid, self.number, self.pool))


async def _fuzz(system: FuzzedSystem, results: Results, count: int, only: Sequence[Sent] | None) -> None:
    await system.begin()
    node = system.checker.state.nodes[0]
    source = inputs(results.seed, node.name, node.incarnation)
    source.wires = [(m.headers, m.value) for m in system.cluster.messages(topics.AUDIT.name, 0)]
    batches = [only] if only is not None else (source.batch(BATCH) for _ in range(count // BATCH))
    tenth = max(1, count // BATCH // 10)
    for number, batch in enumerate(batches, 1):
        results.sent.update(topic for topic, _, _ in batch)
        with recorded_outcomes() as read:
            await system.feed(batch)
        _check_outcomes(system, results, batch, read)
        if system.checker.violation is not None:
            results.candidates = list(batch)
            break
        system.trim()
        if number % tenth == 0:
            results.memory.append(_resident())
            results.log.append(_size(system.cluster.messages(topics.AUDIT.name, 0)))
    else:
        await system.check_still_works()
        await system.check_log()
    results.violation = system.checker.violation


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _size(log: Sequence[Message]) -> int:
    """Bytes of memory. Header names are shared objects and not counted."""
    size = sys.getsizeof
    parts = (
        (message, message.headers, message.value, *(pair for pair in message.headers), *(value for _, value in message.headers))
        for message in log
    )
    return sum(size(part) for each in parts for part in each)


class recorded_outcomes:  # noqa: N801 - used as a context manager only
    """Admission's outcome of each message inside the context: (message, outcome)."""

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


def _check_outcomes(
    system: FuzzedSystem, results: Results, batch: Sequence[Sent], read: list[tuple[Message, DecodedInput]]
) -> None:
    """Check that each input was read, and was accepted or rejected with a dead letter that has the reason."""
    sent = sum(topic in INPUTS for topic, _, _ in batch)
    mine = [(message, outcome) for message, outcome in read if message.headers or message.value]
    seen = {(message.topic, message.partition, message.offset) for message, _ in mine}
    dead_letters = {}
    for message in system.dead_letters():
        dead_letter, _, value = unwrap_dead_letter(message)
        dead_letters[dead_letter.topic, dead_letter.partition, dead_letter.offset] = (dead_letter, value)
    for message, outcome in mine:
        where = (message.topic, message.partition, message.offset)
        if outcome.rejected is None:
            results.accepted[message.topic] += 1
            continue
        results.rejected[outcome.rejected.code] += 1
        dead_letter, value = dead_letters.get(where, (None, b""))
        if dead_letter is None or value != message.value:
            system.checker.violated(f"{where} was rejected ({outcome.rejected.code}) and has no dead letter with its bytes")
        elif not dead_letter.reason or len(dead_letter.reason) > MAX_REASON or dead_letter.code == "internal-error":
            system.checker.violated(f"{where}: {dead_letter.code}: {dead_letter.reason!r} is not a valid reason")
    if len(seen) < sent and system.checker.violation is None:
        system.checker.violated(f"{sent} inputs were sent and {len(seen)} were read")


def fuzz(seed: int, count: int, only: Sequence[Sent] | None = None) -> Results:
    """Send `count` messages of this seed, or only these."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    loop, results = VirtualLoop(), Results(seed)
    with tempfile.TemporaryDirectory(prefix="bailiff-fuzz-") as folder:
        system = FuzzedSystem(loop, Path(folder))
        try:
            loop.run_until_complete(_fuzz(system, results, count, only))
        except RuntimeError as error:  # deadlock or endless loop
            results.violation = str(error)
        system.checker.violation = system.checker.violation or "over"
        loop.run_until_complete(system.tear_down())
        loop.close()
    return results


def shortest(results: Results) -> list[Sent]:
    """The fewest candidates that reproduce the failure, by bisection; all of them if no half does."""
    candidates = results.candidates
    while len(candidates) > 1:
        half = len(candidates) // 2
        halves = (candidates[:half], candidates[half:])
        failing = next((each for each in halves if fuzz(results.seed, 0, each).violation is not None), None)
        if failing is None:
            break
        candidates = failing
    return candidates


def listing(messages: Sequence[Sent]) -> str:
    """The messages as shortened JSON lines."""
    return "\n".join(
        json.dumps({"topic": topic, "headers": [[name, repr(text)[:120]] for name, text in headers], "value": repr(value)[:600]})
        for topic, headers, value in messages[:5]
    )
