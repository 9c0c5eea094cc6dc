"""The dataset in data/month: a simulated month of a small research pool. `python -m tests.kits.dataset_month FOLDER` writes it.

Synthetic jobs: arrivals, sizes and run times come from a fixed random seed, in whole numbers; the core makes the decisions.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from bailiff.audit.log_sources import Source
from bailiff.dataset import Dataset, Pseudonyms, write_dataset
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records import ChainHead, Record, Wire
from bailiff_core.records.facts import JobSubmitted, RequestId
from bailiff_sim.cluster import joined, machines
from bailiff_sim.engine import Simulation
from bailiff_sim.timeline import Delays
from bailiff_sim.workload import Outage, Outcome, Workload, WorkloadEvent

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86400 * SECOND
BEGIN = 1_767_571_200 * SECOND  # Monday 2026-01-05
DAYS = 28
SEED = 20260105
KEY = b"the month is nobody's; key known"  # pseudonyms of synthetic users: the key is public, so they can be checked
BUSY = (1, 1, 1, 1, 1, 1, 2, 3, 6, 9, 10, 9, 7, 9, 10, 10, 9, 8, 6, 5, 4, 3, 2, 1)  # by the hour
PROJECTS = (("vision", 16, 3), ("speech", 16, 2), ("robots", 8, 1), ("serving", 8, 1))
USERS = {
    "vision": ("lovelace", "liskov", "dijkstra"),
    "speech": ("hopper", "knuth"),
    "robots": ("turing", "hoare"),
    "serving": ("perlman",),
}
GANGS = ((1, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 4), (1, 4), (1, 8), (1, 8), (2, 8), (4, 8))


def policy() -> Policy:
    """Four projects that borrow from each other, and the usual protections."""
    data = DEFAULT_POLICY.model_dump(mode="json")
    data["projects"] = [
        {"name": name, "quota": {"gpus": gpus}, "over_quota_weight": weight, "created": at}
        for at, (name, gpus, weight) in enumerate(PROJECTS)
    ]
    data["preemption"] |= {"scope": "pool", "quota_shields": False, "selection_backoff": "30s"}
    data["protections"] |= {
        "min_runtime": {"preempt": "10m", "reclaim": "10m"},
        "eviction_cap": {"evictions": 4, "window": "24h"},
        "cooldown": {"job": "5m"},
    }
    return Policy.model_validate(data, strict=False)


def month(jobs_a_day: int = 15, days: int = DAYS) -> Workload:
    """Arrivals by day and hour, and two machines that fail."""
    random, events, outcomes = Random(SEED), list[WorkloadEvent](), dict[str, Outcome]()
    for day in range(days):
        for _ in range(jobs_a_day if day % 7 < 5 else jobs_a_day // 3):
            (hour,) = random.choices(range(24), BUSY)
            at = BEGIN + day * DAY + hour * HOUR + random.randrange(HOUR)
            name = f"{random.choice(('llm', 'asr', 'sweep', 'eval', 'policy'))}-{len(events):04d}"
            events.append(WorkloadEvent(at, _submitted(random, name)))
            outcomes[name] = _outcome(random, events[-1].event)
    events += [
        WorkloadEvent(BEGIN + 9 * DAY + 5 * HOUR, Outage("node-0003", 7 * HOUR)),
        WorkloadEvent(BEGIN + 20 * DAY + 11 * HOUR, Outage("node-0001", 90 * MINUTE)),
    ]
    in_order = sorted((each for each in events if each.time < BEGIN + days * DAY), key=lambda each: each.time)
    nodes = [
        node.model_copy(update={"labels": {"rack": f"r{at // 3}"}}) for at, node in enumerate(joined(machines("6x8xH100-80GB")))
    ]
    return Workload("month", BEGIN, nodes, in_order, outcomes)


def _submitted(random: Random, name: str) -> JobSubmitted:
    (kind,) = random.choices(("train", "interactive", "inference", "build"), (60, 25, 9, 6))
    (project,) = random.choices([each for each, _, _ in PROJECTS], (5, 4, 3, 1)) if kind != "inference" else ("serving",)
    tasks, gpus = random.choice(GANGS) if kind == "train" else (1, random.choice((1, 1, 2)) if kind != "build" else 1)
    demand: dict[str, Any] = {
        "job": name,
        "project": project,
        "user": random.choice(USERS[project]),
        "priority_class": kind,
        "max_failures": 1,
        "tasks": (TaskGroup(count=tasks, gpu_milli=1000 * gpus, cpu_milli=8000 * gpus, memory_bytes=gpus << 36),),
    }
    if tasks > 1 and random.randrange(2):
        demand |= {"min_tasks": 1, "elastic": "live"}
    requested = RequestId(source=f"{demand['user']}-laptop", id=name, digest="0" * 64)
    return JobSubmitted(request=requested, demand=JobDemand(**demand), spec_digest="0" * 64)


def _outcome(random: Random, fact: Any) -> Outcome:
    kind = fact.demand.priority_class
    shortest, longest = {"train": (120, 4000), "interactive": (30, 480), "inference": (480, 4000), "build": (5, 40)}[kind]
    minutes = shortest
    while minutes < longest and random.randrange(5):
        minutes = minutes * random.randrange(11, 16) // 10 + 1
    listens = kind == "train" and random.randrange(4) > 0
    return Outcome(
        run_time=min(minutes, longest) * MINUTE + random.randrange(MINUTE),
        checkpoint_every=random.choice((15, 30, 60)) * MINUTE if kind == "train" and random.randrange(10) < 7 else None,
        save_time=random.randrange(15, 100) * SECOND if listens else None,
        restart_cost=random.randrange(20, 90) * SECOND,
        end=random.choices(("succeeded", "failed", "cancelled"), (86, 8, 6))[0],
    )


async def write(folder: Path, jobs_a_day: int = 15, days: int = DAYS) -> Dataset:
    """Simulate it and write the dataset."""
    messages: list[Message] = []

    def keep(record: Record, wire: Wire) -> None:
        messages.append(Message(AUDIT.name, 0, record.seq, record.time, None, wire.headers, wire.value))

    workload = replace(month(jobs_a_day, days), name="month")
    delays = Delays(start=12 * SECOND, release=4 * SECOND, selection=SECOND // 3)
    Simulation(workload, policy(), delays=delays, until=BEGIN + days * DAY, sink=keep, pool="lab").run()

    async def log() -> AsyncGenerator[Message, None]:
        for message in messages:
            yield message

    source = Source("lab", 0, log, [], ChainHead("lab"))
    return await write_dataset(folder, source, Pseudonyms(KEY), "CC0-1.0", name_original=False)


if __name__ == "__main__":
    print(asyncio.run(write(Path(sys.argv[1]))))
