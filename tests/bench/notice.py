"""Latency from a published request to the notified victim: four services as processes, a real Kafka, sequential preemptions."""

import asyncio
import json
import time
from collections import defaultdict
from itertools import pairwise
from statistics import median

from aiokafka import ConsumerRecord

from bailiff_bus import topics
from bailiff_devstack.stack import Plan, Stack

from .requests import submit_message
from .system import cpu_seconds, job_of, publishing, raw_hops, spent, watching
from .table import Row, Run, percentile

POOL = "pool-a"
PAUSE_S = 0.05  # so that each preemption begins on a system at rest
AUDITED = (1, 3, 5)  # of our seven hops, those through the audit topic
PATH = ("JobSubmitted", "PreemptionRequested", "ProposalReceived", "PreemptionDecided", "EvictionStarted", "notified")


def measure(run: Run) -> list[Row]:
    """Fill a pool with training, then let urgent jobs of one GPU come one by one."""
    count = 12 if run.quick else 60  # each takes a GPU of the 64 for good
    nodes = [{"name": "node", "pool": POOL, "gpus": "8xH100-80GB", "count": 8}]
    with Stack(run.folder, Plan(nodes=nodes)) as stack:
        return asyncio.run(_measure(run, stack, count))


async def _measure(run: Run, stack: Stack, count: int) -> list[Row]:
    notified: dict[str, float] = {}
    when: dict[str, dict[str, int]] = defaultdict(dict)  # by job, the broker's time of each step, ms

    def command(kind: str, record: ConsumerRecord) -> None:
        if kind == "bailiff.Evict.v1":
            job = json.loads(record.value)["for_job"]
            notified.setdefault(job, time.perf_counter())
            when[job].setdefault("notified", record.timestamp)

    begun: dict[str, str] = {}

    def audited(kind: str, record: ConsumerRecord) -> None:
        name = kind.removeprefix("bailiff.audit.").removesuffix(".v1")
        if name == "PreemptionDecided":
            for victim in json.loads(record.value)["victims"]:
                begun[victim["job"]] = job_of(record)
        elif name == "ProposalReceived":
            for answer in json.loads(record.value)["proposals"]:
                when[answer["job"]].setdefault(name, record.timestamp)
            return
        job = job_of(record)
        when[begun.get(job, job) if name == "EvictionStarted" else job].setdefault(name, record.timestamp)

    kafka = stack.kafka.bootstrap
    async with (
        watching(kafka, topics.AUDIT.name, on=audited) as audit,
        watching(kafka, topics.NODE_COMMANDS.name, on=command) as commands,
        publishing(kafka) as producer,
        raw_hops(kafka, 5) as hops,
        raw_hops(kafka, 7, flushed=AUDITED) as same_hops,
    ):

        async def submit(job: str, priority_class: str) -> None:
            headers, value = submit_message(POOL, job, priority_class=priority_class)
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))

        for n in range(64):
            await submit(f"train-{n}", "train")
        await audit.until("all training runs", lambda: audit.seen["TaskStarted"] >= 64)
        cpu = cpu_seconds(stack)
        ours, baseline, same = [], [], []
        for n in range(count):
            await asyncio.sleep(PAUSE_S)
            baseline.append(await hops())
            await asyncio.sleep(PAUSE_S)
            same.append(await same_hops())
            await asyncio.sleep(PAUSE_S)
            job = f"urgent-{n}"
            began = time.perf_counter()
            await submit(job, "inference")
            await commands.until("the victim is notified", lambda job=job: job in notified)
            ours.append(notified[job] - began)
            await audit.until("it runs", lambda n=n: audit.seen["TaskStarted"] >= 65 + n)
        used = spent(cpu, cpu_seconds(stack))
    legs = _legs(when)
    run.say("median ms from step to step: " + ", ".join(f"{name} +{value:.0f}" for name, value in legs.items()))
    what = f"request published → victim notified, {count} preemptions"
    run.say(f"processor ms for one of them: { ({name: round(value / count * 1000, 1) for name, value in used.items()}) }")
    return [
        Row(
            f"{what}, p50",
            median(ours) * 1000,
            "ms",
            "≤ 2.5×",
            median(baseline) * 1000,
            "ms: five raw aiokafka hops, p50",
            {"ms": [each * 1000 for each in ours], "legs_ms": legs, "cpu_s": used},
        ),
        Row(
            f"{what}, p99",
            percentile(ours, 99) * 1000,
            "ms",
            "≤ 2×",
            percentile(baseline, 99) * 1000,
            "ms: five raw aiokafka hops, p99",
            {"ms": [each * 1000 for each in baseline]},
        ),
        Row(
            f"{what}, p50",
            median(ours) * 1000,
            "ms",
            "-",
            median(same) * 1000,
            "ms: seven raw aiokafka hops, three of them flushed, p50",
            {"ms": [each * 1000 for each in same]},
        ),
    ]


def _legs(when: dict[str, dict[str, int]]) -> dict[str, float]:
    """Median time from each step to the next, by the broker's append times (whole ms)."""
    legs: dict[str, float] = {}
    for before, after in pairwise(PATH):
        apart = [steps[after] - steps[before] for steps in when.values() if before in steps and after in steps]
        if apart:
            legs[after] = median(apart)
    return legs
