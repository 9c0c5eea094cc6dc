"""The roll-up as a process on a real Kafka: exact counts after `kill -9` under load, with two replicas and two pools."""

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.kits.log_builder import MINUTE, SECOND, Story
from tests.kits.otlp import Collector, collecting
from tests.kits.rollup import Recount, busy_log, of_domain, recount
from tests.kits.system import PATIENCE_S, POLL_S, http_get

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.messages.rollups import RollupWindow, TelemetryWindow
from bailiff_bus.messages.telemetry import DeviceTelemetry, NodeTelemetry
from bailiff_bus.port import Producer
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records import Wire
from bailiff_core.records.job_requests import SubmitJob
from bailiff_devstack.stack import ROLLUP, Plan, Stack
from bailiff_service import tracing

POOLS = ("pool-a", "pool-b")
TRACED = "pool-t"
REPLICAS = (ROLLUP, f"{ROLLUP}-2")
SAMPLES = 300
Metrics = dict[str, float]
ENV = {"BAILIFF_KAFKA__SESSION_TIMEOUT_MS": "4000", "BAILIFF_STORE_RECORDS": "100", "BAILIFF_STORE_SECONDS": "0.2"}


@dataclass
class Counting:
    """A Kafka with the logs of two pools, written by the test, and the roll-up replicas."""

    stack: Stack
    collector: Collector
    logs: dict[str, list[Wire]]
    written: dict[str, int] = field(default_factory=lambda: dict.fromkeys(POOLS, 0))
    samples: dict[str, list[int]] = field(
        default_factory=lambda: {pool: [] for pool in POOLS}
    )  # samples of GPU utilization, each for 15 s

    def start(self, process: str) -> None:
        self.stack.start_service(ROLLUP, replica=process.removeprefix(ROLLUP))

    async def feed(self, upto: float) -> None:
        """Append this share of both logs, with some orphan records, which must not count."""
        bus = KafkaBus(self.stack.kafka.bootstrap)
        producer = await bus.producer()
        try:
            for partition, pool in enumerate(POOLS):
                log, begin = self.logs[pool], self.written[pool]
                end = self.written[pool] = round(len(log) * upto)
                wires = [wire for at in range(begin, end) for wire in ([log[at], log[at // 2]] if at % 200 == 0 else [log[at]])]
                messages = [(pool.encode(), wire.headers, wire.value) for wire in wires]
                for batch in await producer.send_many(topics.AUDIT.name, messages, partition=partition):
                    await batch.first
                await self._measure(producer, pool, round(SAMPLES * upto))
        finally:
            await producer.close()
            await bus.close()

    async def _measure(self, producer: Producer, pool: str, upto: int) -> None:
        """Send telemetry samples up to this number."""
        samples, messages = self.samples[pool], []
        for number in range(len(samples), upto):
            samples.append(7 * number % 101)
            gpu = DeviceTelemetry(
                device="GPU-0", jobs=("train-0-a",), busy_percent=samples[-1], memory_used=number << 20, memory_bytes=80 << 30
            )
            sample = NodeTelemetry(node="n1", interval_ms=15_000, devices=(gpu,))
            headers, value = wrap(sample, source="/n1", id=f"{number}", pool=pool, time_us=time.time_ns() // 1_000)
            messages.append((pool.encode(), headers, value))
        for batch in await producer.send_many(topics.TELEMETRY.name, messages) if messages else ():
            await batch.first

    def metrics(self) -> Metrics:
        """All series of all running replicas, by name and labels. Only one replica exports a pool."""
        found: Metrics = {}
        for process in self.stack.processes.running():
            if process in REPLICAS:
                try:
                    _, text = http_get(int(self.stack.address(process).rpartition(":")[2]), "/metrics")
                except OSError:
                    continue
                for series, value in re.findall(r"^(bailiff_\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE):
                    found[series] = found.get(series, 0) + float(value)
        return found

    def counted(self, pool: str) -> float:
        """Number of the pool's jobs counted so far."""
        return jobs_of(pool, self.metrics())

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not await asyncio.to_thread(condition):
                    self.stack.processes.check()
                    await asyncio.sleep(4 * POLL_S)
        except TimeoutError:
            raise AssertionError(f"not so: {what}; {self.metrics()}") from None

    async def until_counted(self) -> Metrics:
        """Wait until every written record is counted; returns the metrics at that time, as a pool may change its owner later."""
        truth = {pool: recount(self.logs[pool][: self.written[pool]]) for pool in POOLS}
        jobs = {pool: len(each.submitted) for pool, each in truth.items()}
        found: Metrics = {}

        def read_to_the_end(pool: str) -> bool:
            """What jobs did is counted after they were submitted."""
            return found.get(f'bailiff_rollup_time_seconds{{pool="{pool}"}}') == truth[pool].end / 1e6

        def all_counted() -> bool:
            nonlocal found
            found = self.metrics()
            return all(
                jobs_of(pool, found) == jobs[pool] and read_to_the_end(pool) and self._measured(pool, found) for pool in POOLS
            )

        await self.until(f"{jobs} jobs and all samples are counted", all_counted)
        return found

    def _measured(self, pool: str, found: Metrics) -> bool:
        """Whether every sample was counted exactly once."""
        samples, of = self.samples[pool], f'{{pool="{pool}",project=""}}'
        if found.get(f"bailiff_gpu_seconds_measured_total{of}", 0) != 15 * len(samples):
            return False
        assert found[f"bailiff_gpu_seconds_busy_total{of}"] == pytest.approx(15 * sum(samples) / 100)
        used = sum(number << 20 for number in range(len(samples)))
        assert found[f"bailiff_gpu_memory_used_byte_seconds_total{of}"] == pytest.approx(15 * used)
        return True

    async def windows(self) -> dict[tuple[str, str, int, int], RollupWindow]:
        """Every published window; duplicates must be equal."""
        bus = KafkaBus(self.stack.kafka.bootstrap)
        try:
            spans = await bus.spans(topics.ROLLUPS.name)
            reader = await bus.reader([(topics.ROLLUPS.name, at, 0) for at in spans])
            found: dict[tuple[str, str, int, int], RollupWindow] = {}
            measured: dict[tuple[str, str, int], TelemetryWindow] = {}
            while any(reader.position(topics.ROLLUPS.name, at) < span.end for at, span in spans.items()):
                for message in await reader.read():
                    envelope = unwrap(message)
                    body = envelope.body
                    if isinstance(body, TelemetryWindow):
                        assert measured.setdefault((envelope.pool, body.window, body.begin), body) == body
                        continue
                    assert isinstance(body, RollupWindow)
                    assert found.setdefault((envelope.pool, body.window, body.begin, body.end), body) == body
            return found
        finally:
            await bus.close()


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    """One ready replica on new logs."""
    folder: Path = tmp_path_factory.mktemp("rollup")
    with collecting() as collector:
        env = {**ENV, "BAILIFF_OTLP_ENDPOINT": collector.address}
        yield from _counting(Stack(folder, Plan(pools=(*POOLS, TRACED), nodes=(), env=env), progress=print), collector)


def _counting(stack: Stack, collector: Collector) -> Iterator[Counting]:
    try:
        (stack.folder / "state").mkdir(parents=True)
        stack.start_kafka()
        log = busy_log(30)
        found = Counting(stack, collector, {"pool-a": log, "pool-b": of_domain(log, "pool-b", 1)})
        asyncio.run(found.feed(0.01))
        found.start(ROLLUP)
        stack.processes.wait_ready(timeout_s=PATIENCE_S)
        yield found
    finally:
        stack.close()


async def test_a_preemption_is_one_trace_from_the_request_to_the_victims_return(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the sender is killed between start and end of the trace."""
    stack, collector = counting.stack, counting.collector
    bus = KafkaBus(stack.kafka.bootstrap)
    producer = await bus.producer()
    story = Story(pool=TRACED, begin=time.time_ns() // 1_000 - 10 * MINUTE)
    written = 0

    async def append() -> None:
        nonlocal written
        messages = [(TRACED.encode(), wire.headers, wire.value) for wire in story.wires[written:]]
        for batch in await producer.send_many(topics.AUDIT.name, messages, partition=len(POOLS)):
            await batch.first
        written = len(story.wires)

    try:
        monkeypatch.setattr(tracing, "_endpoint", collector.address)
        async with Client(KafkaBus(stack.kafka.bootstrap), source="laptop", actor="u-1") as client:
            for job in ("train-1", "urgent"):  # the records have these messages as their cause
                demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=8_000),))
                await client.request(TRACED, SubmitJob(demand=demand, spec=JobSpec(command=("true",))))
        story.node("n1", gpus=8)
        story.submit("train-1", gpus=8, cls="train")
        story.started("train-1", after=SECOND)
        story.submit("urgent", gpus=8, cls="inference", after=MINUTE)
        story.propose(after=SECOND)
        await append()
        trace = tracing.trace_of(TRACED, "urgent")
        await counting.until("the decision is traced", lambda: "select victims" in collector.of(trace))
        stack.processes.kill9(ROLLUP)
        story.yields("train-1", after=2 * SECOND)
        story.started("urgent", after=SECOND)
        await append()
        counting.start(ROLLUP)
        await counting.until("the start is traced", lambda: "start urgent" in collector.of(trace))
        stack.processes.kill9(ROLLUP)
        story.ends("urgent", after=MINUTE)
        story.started("train-1", after=SECOND)
        await append()
        counting.start(ROLLUP)
        await counting.until("the restart is traced", lambda: "resume train-1" in collector.of(trace))
    finally:
        await producer.close()
        await bus.close()
    spans = collector.of(trace)
    parents = {name: collector.spans[span.parent].name if span.parent else None for name, span in spans.items()}
    assert parents == {
        "request urgent": None,
        "admit urgent": "request urgent",
        "place urgent": "admit urgent",
        "select victims": "place urgent",
        "evict train-1": "place urgent",
        "stop train-1/0": "evict train-1",
        "start urgent": "place urgent",
        "resume train-1": "evict train-1",
    }
    assert {name: span.service.removeprefix("bailiff-") for name, span in spans.items()} == {
        "request urgent": "client",
        "admit urgent": "admission",
        "place urgent": "admission",
        "select victims": "victim-selection",
        "evict train-1": "eviction-executor",
        "stop train-1/0": "node-agent",
        "start urgent": "admission",
        "resume train-1": "admission",
    }
    ends = [spans[name].end for name in ("select victims", "stop train-1/0", "evict train-1", "start urgent", "resume train-1")]
    assert ends == sorted(ends)
    assert spans["stop train-1/0"].events == ("noticed", "term_sent", "exited")
    assert collector.disagreements == []


def jobs_of(pool: str, found: Metrics) -> float:
    """Jobs of the pool, of all classes."""
    return sum(value for series, value in found.items() if series.startswith(f'bailiff_jobs_submitted_total{{pool="{pool}"'))


def assert_exact(metrics: Metrics, truth: Recount, pool: str) -> None:
    for (action, rule), count in truth.evictions_by().items():
        assert metrics[f'bailiff_evictions_total{{action="{action}",pool="{pool}",rule="{rule}"}}'] == count
    for cause, amount in truth.lost_by().items():
        figures = (metrics[f'bailiff_gpu_seconds_{name}_total{{cause="{cause}",pool="{pool}"}}'] for name in ("lost", "restart"))
        assert sum(figures) == pytest.approx(amount / 1000)
    for name, count in truth.started_by().items():
        assert metrics[f'bailiff_start_seconds_count{{pool="{pool}",priority_class="{name}"}}'] == count
    assert metrics[f'bailiff_gpu_seconds_used_total{{pool="{pool}",project=""}}'] == pytest.approx(truth.used() / 1e9)


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
async def test_killed_under_load_it_counts_every_record_once(counting: Counting, kills: int) -> None:
    chance = random.Random(kills)
    if REPLICAS[1] not in counting.stack.processes.running():
        counting.start(REPLICAS[1])  # it joins, and some pools are assigned to it
    for kill in range(kills):
        process = chance.choice(REPLICAS)
        before, had = {pool: counting.counted(pool) for pool in POOLS}, dict(counting.written)
        await counting.feed(min(1.0, max(counting.written["pool-a"] / len(counting.logs["pool-a"]), (kill + 1) / (kills + 1))))
        if kill % 2 and counting.written != had:  # a second run on this fixture appends nothing
            await counting.until("it counts", lambda before=before: any(counting.counted(p) > before[p] for p in POOLS))  # type: ignore[misc]
        counting.stack.processes.kill9(process)
        counting.start(process)
    await counting.feed(1.0)
    metrics = await counting.until_counted()
    for pool in POOLS:
        assert_exact(metrics, recount(counting.logs[pool]), pool)


async def test_published_windows_match_the_log(counting: Counting) -> None:
    await counting.feed(1.0)
    await counting.until_counted()
    windows = await counting.windows()
    for pool in POOLS:
        truth = recount(counting.logs[pool])
        minutes = [window for (of, name, *_), window in windows.items() if (of, name) == (pool, "1m")]
        assert all(window.complete for window in minutes)
        assert len(minutes) == truth.end // 60_000_000 - min(window.begin for window in minutes) // 60_000_000
        for (of, *_), window in windows.items():
            if of == pool:
                assert {(e.action, e.rule): e.count for e in window.evictions} == truth.evictions_by(window.begin, window.end)
                assert window.used_gpu_ms == truth.used(window.begin, window.end) // 1_000_000


async def test_a_replica_that_stops_hands_over_its_pools(counting: Counting) -> None:
    await counting.feed(1.0)
    counting.stack.processes.stop(REPLICAS[1])
    metrics = await counting.until_counted()
    for pool in POOLS:
        assert_exact(metrics, recount(counting.logs[pool]), pool)
