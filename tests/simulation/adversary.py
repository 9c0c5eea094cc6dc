"""The adversary of a run: it has one participant's key, reads every topic, and lies at the times of the plan.

Each of its messages leaves a trace: a rejection or another record at its position, an orphan with a reason, a command that
its node has refused or obeyed, or a counter of inputs without effect.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from tests.kits.memory_bus import MemoryCluster

from bailiff_admission.input_decoder import DecodedInput, InputDecoder
from bailiff_bus import topics
from bailiff_bus.envelope import Envelope
from bailiff_bus.messages.commands import JobCommand
from bailiff_bus.port import Message
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, Wire
from bailiff_core.records.facts import InputRejected, WriterStarted
from bailiff_node_agent.agent import Agent
from bailiff_service.metrics import Metrics

from .keys import PoolKeys
from .liar import ROLES, Forgery, Liar
from .lies import BY_NAME, kinds

INPUTS = (topics.REQUESTS.name, topics.PROPOSALS.name, topics.EVICTION_PROGRESS.name, topics.NODE_REPORTS.name)
OWN_TOPICS = {
    "selection": (topics.PROPOSALS.name,),
    "executor": (topics.EVICTION_PROGRESS.name,),
    "node": (topics.NODE_REPORTS.name,),
}
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Lie:
    """A lie of this kind (`lies`) at `at`, with these dice."""

    at: float
    kind: str
    dice: int

    def __str__(self) -> str:
        return f"{self.at:7.2f} {self.kind} {self.dice}"


def random_lies(random: Random, role: str, length: float) -> tuple[Lie, ...]:
    """The lies of one run, in order of time."""
    found = [
        Lie(round(random.uniform(1.0, length), 3), random.choice(kinds(role)), random.randrange(10**6))
        for _ in range(random.choice((4, 12, 30)))
    ]
    return tuple(sorted(found, key=lambda lie: lie.at))


def role_of(seed: int) -> str:
    """Whose key the adversary of this seed has."""
    return ROLES[seed % len(ROLES)]


@dataclass
class Adversary:
    """role: whose key it has; node: the node whose key it is, where the role is that of a node.

    sent: its messages. outcomes: of those that were read, by every writer and agent. commanded: attempts about which a node has
    accepted its commands.
    """

    role: str
    node: str
    cluster: MemoryCluster
    keys: PoolKeys
    sent: dict[Place, str] = field(default_factory=dict)
    outcomes: dict[Place, set[str]] = field(default_factory=dict)
    commanded: set[tuple[str, int]] = field(default_factory=set)
    _ids: dict[str, Place] = field(default_factory=dict)
    _copies: dict[Place, Place] = field(default_factory=dict)

    @property
    def speaks_for(self) -> str:
        """The node whose machine and reports need not be true."""
        return self.node if self.role == "node" else ""

    def tell(self, lie: Lie, state: PoolState, now: int) -> list[str]:
        """Send the messages of this lie; a line about each."""
        liar = Liar(self.role, state, self._messages, self.keys, Random(lie.dice), now, self.node, lie.dice)
        return [self._send(forgery, liar.random) for forgery in list(BY_NAME[lie.kind](liar))]

    def _send(self, forgery: Forgery, random: Random) -> str:
        partition = random.randrange(len(self.cluster.partitions(forgery.topic)))
        place = forgery.topic, partition, self.cluster.partitions(forgery.topic)[partition].end
        self.sent[place] = forgery.what
        if forgery.copy_of is not None:
            self._copies[place] = forgery.copy_of
        self._ids[dict(forgery.headers).get("ce_id", b"").decode(errors="replace")] = place
        self.cluster.store(forgery.topic, partition, forgery.key, forgery.headers, forgery.value)
        return f"*** lie at {place}: {forgery.what}"

    def _messages(self, topic: str) -> list[Message]:
        numbers = range(len(self.cluster.partitions(topic)))
        return [message for number in numbers for message in self.cluster.messages(topic, number)]

    # --- what becomes of them

    def note_input(self, message: Message, found: DecodedInput | None) -> None:
        """Admission has read this message."""
        place = message.topic, message.partition, message.offset
        if place in self.sent:
            effect = found is not None and (found.rejected is not None or found.facts)
            self.outcomes.setdefault(place, set()).add("recorded" if effect else "nothing")

    def note_command(self, envelope: Envelope, refused: bool) -> None:
        """An agent has read this command."""
        place = self._ids.get(envelope.id)
        if place is not None and place[0] == topics.NODE_COMMANDS.name and envelope.id.startswith("lie-"):
            self.outcomes.setdefault(place, set()).add("refused" if refused else "accepted")
            if not refused and isinstance(envelope.body, JobCommand):
                self.commanded.add((envelope.body.job, envelope.body.attempt))

    def violations(
        self, log: Sequence[tuple[Record, Wire]], orphans: Collection[int], metrics: Metrics, rules: Policy
    ) -> Iterator[str]:
        """Lies that left no trace, and lies with an effect that the key does not permit. orphans: their offsets in the log."""
        records, cut = dict(_by_cause(record for record, _ in log)), set(_cut_short([record for record, _ in log]))
        rejections = [record.data for record, _ in log if isinstance(record.data, InputRejected)]
        # beyond the limit not each has a record of its own
        muted = any(each.count > 1 for each in rejections) or len(rejections) > rules.max_rejections_per_minute
        counters = metrics.inputs_without_effect.collect()
        counted = sum(int(sample.value) for metric in counters for sample in metric.samples)
        silent = 0
        for place, what in self.sent.items():
            topic, partition, offset = place
            outcomes, record = self.outcomes.get(place, set()), records.get(place, "")
            if topic == topics.AUDIT.name and offset not in orphans:
                yield f"{what} at {place} is no orphan"
            if topic == topics.NODE_COMMANDS.name and "accepted" in outcomes and self.role != "executor":
                yield f"{what} at {place} was obeyed"
            if topic not in INPUTS:
                continue
            allowed = topic in (*OWN_TOPICS.get(self.role, ()), topics.REQUESTS.name) or self._read_first(place, records)
            allowed = allowed or self._copies.get(place) in cut
            if record and record != "InputRejected" and not allowed:
                yield f"{what} at {place} had an effect: {record}"
            if record == "LogTruncated" and self.role != "executor":  # its commands may look like those of a log that was cut
                yield f"{what} at {place} made a loss be accepted that did not happen"
            if record or offset < self.cluster.partitions(topic)[partition].begin:
                continue
            if "nothing" in outcomes:
                silent += "NodeHeartbeat" not in what  # one that claims nothing beyond the log is no lie
            elif not muted:
                yield f"{what} at {place} left no trace: {outcomes or 'it was not read'}"
        if silent > counted:
            yield f"{silent} lies had no effect, and {counted} inputs were counted as without effect"

    def _read_first(self, place: Place, records: Mapping[Place, str]) -> bool:
        """Whether it is a copy in another partition, read before the original: then only the copy has the effect."""
        original = self._copies.get(place)
        if original is None or original[1] == place[1]:
            return False
        return records.get(original, "InputRejected") == "InputRejected"


def _by_cause(records: Iterable[Record]) -> Iterator[tuple[Place, str]]:
    """The type of a record by the position of the message that caused it."""
    for record in records:
        topic, _, place = record.cause.partition("/")
        if place:
            partition, _, offset = place.partition("/")
            yield (topic, int(partition), int(offset)), record.type.removeprefix("bailiff.audit.").removesuffix(".v1")


def _cut_short(records: Iterable[Record]) -> Iterator[Place]:
    """Positions of messages of which a record was stored, and the rest of its cycle was not: a copy has the missing effect."""
    for record, after in pairwise(records):
        if not record.cycle_end and isinstance(after.data, WriterStarted):
            yield from (place for place, _ in _by_cause([record]))


@contextmanager
def watched(adversary: Adversary | None) -> Iterator[None]:
    """Note what becomes of the adversary's messages: in admission, and in each agent."""
    if adversary is None:
        yield
        return
    read, receive = InputDecoder.read, Agent.receive

    def watched_read(decoder: InputDecoder, state: PoolState, message: Message) -> DecodedInput | None:
        found = read(decoder, state, message)
        adversary.note_input(message, found)
        return found

    async def watched_receive(agent: Agent, envelope: Envelope, at: int) -> None:
        before = agent._refused_commands
        await receive(agent, envelope, at)
        adversary.note_command(envelope, refused=agent._refused_commands > before)

    InputDecoder.read, Agent.receive = watched_read, watched_receive  # type: ignore[method-assign]
    try:
        yield
    finally:
        InputDecoder.read, Agent.receive = read, receive  # type: ignore[method-assign]
