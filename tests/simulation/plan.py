"""Plan of one run: the pool, the requests and their times, the faults and their times. A seed gives a plan.

A run depends on its plan only, so parts of the plan can be removed to see whether the run still fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from bailiff_bus import topics
from bailiff_core.model.policy import Policy
from bailiff_node_agent.settings import NodeDeclaration

from .adversary import Lie, random_lies, role_of
from .faults import Event, log_truncations, schedule
from .work import MOST_JOBS, Post, random_nodes, random_policy, random_requests

POOL = "pool-a"
LENGTH = 45.0  # virtual seconds with requests and faults
UNDECIDABLE = ("always", "once pending")


@dataclass(frozen=True)
class Plan:
    """One run. bad, slow: network faults, in thousandths of sends and deliveries. skews: offsets from the broker's clock, µs.

    undecidable: jobs on which deciding fails: always, or only once they are pending (`UNDECIDABLE`).
    liar: whose key the adversary has; empty: there is none, and nothing is signed.
    """

    seed: int
    nodes: tuple[NodeDeclaration, ...]
    policy: Policy
    replicas: tuple[str, ...]
    posts: tuple[Post, ...]
    events: tuple[Event, ...]
    bad: int
    slow: int
    partitions: Mapping[str, int]
    skews: Mapping[str, int]
    digest_every: int
    max_cycle_inputs: int
    undecidable: tuple[tuple[str, str], ...] = ()
    liar: str = ""
    lies: tuple[Lie, ...] = ()

    def __str__(self) -> str:
        nodes = ", ".join(f"{node.name} {node.gpus} {node.cpu_milli} mCPU {node.memory_bytes >> 30} GiB" for node in self.nodes)
        requests = [f"  {post}" for post in self.posts] or ["  none"]
        faults = [f"  {event}" for event in self.events] or ["  none"]
        services = f"{', '.join(self.replicas)}; network faults {self.bad}/{self.slow} of 1000; cycles of {self.max_cycle_inputs}"
        faults += [f"  deciding on {job} fails {when}" for job, when in self.undecidable]
        if self.liar:
            faults += [f"lies of {self.liar}:", *(f"  {lie}" for lie in self.lies)]
        return "\n".join([f"pool: {nodes}", f"services: {services}", "requests:", *requests, "faults:", *faults])


def plan_of(seed: int) -> Plan:
    """The plan that this seed gives."""
    random = Random(f"bailiff/{seed}")
    nodes = random_nodes(random, POOL)
    policy = random_policy(random)
    digest_every = random.choice([10, 50, 10_000])
    max_cycle_inputs = random.choice([1, 3, 200, 200])
    counts = {"admission": random.choice([1, 2]), "selection": 1, "executor": random.choice([1, 1, 2])}
    replicas = [f"{name}-{number}" for name, count in counts.items() for number in range(count)]
    posts = random_requests(random, POOL, nodes, LENGTH, bool(policy.projects))
    names = [node.name for node in nodes]
    events = schedule(random, replicas, names, LENGTH, policy.nodes.lease / 1_000_000)
    events = sorted([*events, *log_truncations(Random(f"cuts/{seed}"), LENGTH)], key=lambda event: event.at)
    bad, slow = random.choice([(0, 0), (2, 5), (10, 30), (40, 100)])
    partitions = {topic.name: 1 if topic is topics.AUDIT else random.choice([1, 2]) for topic in topics.TOPICS.values()}
    return Plan(
        seed=seed,
        nodes=tuple(nodes),
        policy=policy,
        replicas=tuple(replicas),
        posts=tuple(posts),
        events=tuple(events),
        bad=bad,
        slow=slow,
        partitions=partitions,
        skews={name: random.randrange(-1_000_000, 1_000_000) for name in (*replicas, *names)},
        digest_every=digest_every,
        max_cycle_inputs=max_cycle_inputs,
        undecidable=_undecidable(Random(f"undecidable/{seed}")),
    )


def plan_with_adversary(seed: int) -> Plan:
    """The plan of this seed, in a pool with a root key and an adversary."""
    role = role_of(seed)
    return replace(plan_of(seed), liar=role, lies=random_lies(Random(f"lies/{seed}"), role, LENGTH))


def _undecidable(random: Random) -> tuple[tuple[str, str], ...]:
    """One to three jobs, in one run of eight."""
    jobs = random.sample(range(MOST_JOBS), random.choice([0] * 21 + [1, 1, 3]))
    return tuple((f"job-{number}", random.choice(UNDECIDABLE)) for number in sorted(jobs))
