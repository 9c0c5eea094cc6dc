"""Faults: of the network (sends and deliveries), and the schedule of crashes, pauses and disconnections.

All randomness comes from the seed. The bus calls `NetworkFaults` for each send and each delivery; the `schedule` is made before
the run begins, so that a failing seed can print it.
"""

from dataclasses import dataclass, field
from random import Random

from tests.kits.memory_bus import SendOutcome

from bailiff_bus.port import Message

NEVER = float("inf")


@dataclass(frozen=True)
class Event:
    """A fault of `target` at `at`, for `seconds`. messages: how many records a log truncation removes."""

    at: float
    kind: str
    target: str
    seconds: float = 0.0
    messages: int = 0

    def __str__(self) -> str:
        lost = f" of {self.messages} messages" if self.messages else ""
        return f"{self.at:7.2f} {self.kind}{lost} {self.target}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


@dataclass
class NetworkFaults:
    """Outcomes of sends and deliveries. bad, slow: thousandths of sends. disconnected: clients without connection now."""

    random: Random
    bad: int
    slow: int
    disconnected: set[str] = field(default_factory=set)
    stopped: bool = False

    def send(self, client: str, topic: str, partition: int, value: bytes) -> SendOutcome:
        """Mostly stored after a few milliseconds."""
        random = self.random
        delay = random.uniform(0.0005, 0.005)
        if client in self.disconnected:
            return SendOutcome(delay=1.0, stored=0, acknowledged=False)
        if self.stopped:
            return SendOutcome(delay=delay)
        if random.randrange(1000) < self.slow:
            delay = random.uniform(0.05, 3.0)
        if random.randrange(1000) >= self.bad:
            return SendOutcome(delay=delay)
        match random.randrange(5):
            case 0:
                return SendOutcome(delay, acknowledged=False)  # stored, and not acknowledged
            case 1:
                return SendOutcome(delay, stored=0, acknowledged=False)  # lost; later messages are still stored
            case 2:
                return SendOutcome(delay, stored=2)
            case 3:
                return SendOutcome(delay, stored=2, acknowledged=False)
        return SendOutcome(delay, offset_known=False)

    def delivery(self, client: str, message: Message) -> float:
        """Each partition of each topic has its own delays, so messages of different topics arrive out of order."""
        if client in self.disconnected:
            return 1.0
        if not self.stopped and self.random.randrange(1000) < self.slow:
            return self.random.uniform(0.05, 2.0)
        return self.random.uniform(0.0, 0.004)


def schedule(random: Random, services: list[str], nodes: list[str], length: float, lease: float) -> list[Event]:
    """The faults of one run, in order of time. A few runs have none."""
    events = []
    for _ in range(random.choice([0, 2, 4, 8, 14])):
        at = random.uniform(1.0, length)
        agent, service = f"agent-{random.choice(nodes)}", random.choice(services)
        node = agent.removeprefix("agent-")
        roll = random.randrange(100)
        if roll < 24:
            events.append(Event(at, "kill", service, random.choice([0.1, 1.0, 8.0, 15.0])))
        elif roll < 40:
            events.append(Event(at, "pause", service, random.choice([0.5, 3.0, 9.0, 20.0])))
        elif roll < 54:
            events.append(Event(at, "kill", agent, random.choice([0.1, 2.0, 12.0, lease * 0.6])))
        elif roll < 61:
            events.append(Event(at, "pause", agent, random.choice([0.5, 5.0, 15.0])))
        elif roll < 69:
            events.append(Event(at, "host-crash", node, random.choice([1.0, 5.0, 20.0])))
        elif roll < 79:
            events.append(Event(at, "disconnect", agent, random.choice([2.0, 10.0, 25.0, lease + 60.0])))
        elif roll < 83:
            events.append(Event(at, "disconnect", service, random.choice([2.0, 10.0])))
        elif roll < 92:
            events.append(
                Event(at, random.choice(["kill-mid-cycle", "pause-mid-cycle"]), "admission-0", random.choice([0.1, 9.0]))
            )
        elif roll < 95:
            events.append(Event(at, "outage", "all", random.choice([1.0, 5.0, 20.0])))
        elif roll < 97:
            wrong = random.choice(["clock-back", "clock-fast"])
            events.append(Event(at, wrong, random.choice([service, node]), random.choice([1.0, 10.0, 30.0])))
        elif roll < 98:
            events.append(Event(at, "inputs-deleted", "all", random.choice([1.0, 9.0])))
        else:
            events.append(Event(at, "task-fails", node))
    if random.randrange(3) == 0:
        for _ in range(random.choice([1, 2, 4])):
            kind = random.choice(["leak", "leak", "hang", "gpu-lost", "xid"])
            events.append(Event(random.uniform(1.0, length), kind, random.choice(nodes), random.choice([1.0, 10.0, 60.0])))
    return sorted(events, key=lambda event: event.at)


def log_truncations(random: Random, length: float) -> list[Event]:
    """In one run of ten the log is truncated, in some of those twice."""
    cuts = []
    for _ in range(random.choice([0] * 27 + [1, 1, 2])):
        lost = random.choice([1, 3, 10, 30, 100])
        cuts.append(Event(random.uniform(2.0, length), "log-truncation", "all", random.choice([0.5, 3.0, 10.0]), lost))
    return cuts
