"""Three brokers, each record on two of them before it counts: one is killed at a time, and jobs keep running.

Requests are sent continuously. Each acknowledged one is accepted once and runs; the log stays one chain.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from tests.kits.partitions import leader_of_the_log
from tests.kits.system import System, Watch

from bailiff_bus.port import BusUnavailable
from bailiff_bus.topic_admin import create_topics
from bailiff_core.records.decisions import JobEnded
from bailiff_core.records.facts import JobSubmitted, NodeLost, TaskStarted
from bailiff_devstack.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SEED = 5
KILLS, EVERY_S = 10, 10.0
BETWEEN_S = 0.5
CALM = 10  # requests


@pytest.fixture
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system on three brokers."""
    folder = tmp_path_factory.mktemp("three")
    with System(folder / "system", kafka=KafkaCluster(folder / "brokers"), pools={"pool-a": 1}) as system:
        yield system


@dataclass
class Load:
    """One client's requests, each for a job that ends at once: acknowledged ones, with their latency."""

    pool: Watch
    acknowledged: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    async def send(self, stop: asyncio.Event) -> None:
        """Submit jobs until `stop` is set. A request without acknowledgement may be stored: the next one is for another job."""
        number = 0
        while not stop.is_set():
            job, began = f"load-{number}", time.monotonic()
            number += 1
            try:
                await self.pool.submit(job, "true", gpus=0, cpus=0)
            except BusUnavailable:
                self.unknown.append(job)
                self.pool.producer = await self.pool.bus.producer()
                continue
            self.acknowledged.append(job)
            self.seconds.append(time.monotonic() - began)
            await asyncio.sleep(BETWEEN_S)  # the rate of the load


@pytest.mark.long
async def test_one_broker_is_killed_and_comes_back(three: System) -> None:
    kafka = three.stack.kafka
    assert isinstance(kafka, KafkaCluster)
    async with three.watch("pool-a") as pool:
        await pool.submit("runs-on", gpus=4)
        await pool.until_running("runs-on")
        load, stop = Load(pool), asyncio.Event()
        sending = asyncio.create_task(load.send(stop))
        await pool.until("requests are accepted", lambda _: len(load.acknowledged) > CALM)

        # The leader of the log's partition is killed. A service that starts meanwhile finds fewer brokers.
        leader = await leader_of_the_log(pool.bus.settings)
        kafka.brokers[leader - 1].kill()
        died = len(load.acknowledged)
        three.kill_and_restart("eviction-executor")
        await pool.until_true("all topics exist with the required settings", lambda: nothing_to_create(kafka))
        await pool.until("requests are accepted", lambda _: len(load.acknowledged) > died + CALM)
        await asyncio.to_thread(three.wait_ready)
        await asyncio.to_thread(kafka.brokers[leader - 1].start)
        stop.set()
        await sending
        await nothing_was_lost(pool, load)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_one_broker_is_killed_ten_times_under_load(three: System) -> None:
    kafka, chance = three.stack.kafka, random.Random(SEED)
    assert isinstance(kafka, KafkaCluster)
    print(f"seed {SEED}")
    async with three.watch("pool-a") as pool:
        await pool.submit("runs-on", gpus=4)
        await pool.until_running("runs-on")
        load, stop = Load(pool), asyncio.Event()
        sending = asyncio.create_task(load.send(stop))
        for _ in range(KILLS):
            broker = chance.choice(kafka.brokers)
            broker.kill()
            await asyncio.gather(asyncio.to_thread(broker.start), asyncio.sleep(EVERY_S))
        stop.set()
        await sending
        await nothing_was_lost(pool, load)
        print(hiccups(load))


async def nothing_was_lost(pool: Watch, load: Load) -> None:
    """Check that each acknowledged request was accepted once and its job ended; unacknowledged ones at most once."""
    for job in load.acknowledged:
        await pool.until_ended(job)
    accepted = Counter(fact.demand.job for fact in pool.facts(JobSubmitted))
    assert set(accepted.values()) == {1}
    assert set(load.acknowledged) <= set(accepted) <= {*load.acknowledged, *load.unknown, "runs-on"}
    started = Counter((fact.job, fact.attempt, fact.task) for fact in pool.facts(TaskStarted))
    assert set(started.values()) == {1}
    assert set(Counter(fact.job for fact in pool.facts(JobEnded)).values()) == {1}
    assert pool.running("runs-on")
    assert pool.job("runs-on").attempt == 1
    pool.assert_started_once("runs-on")
    assert pool.facts(NodeLost) == []
    await pool.verify(orphans=True)
    for service in pool.system.services:
        assert "Traceback" not in pool.system.log_of(service)


async def nothing_to_create(kafka: KafkaCluster) -> bool:
    """Whether every topic exists according to the running brokers; calls to the killed one fail."""
    try:
        return await create_topics(kafka.bootstrap, 1) == []
    except BusUnavailable:
        return False


def hiccups(load: Load) -> str:
    """Latency of the client's requests, as text."""
    slow = sorted(load.seconds)
    p50, p99 = (slow[round((len(slow) - 1) * share)] * 1000 for share in (0.5, 0.99))
    return (
        f"{len(slow)} requests acknowledged, {len(load.unknown)} without an answer; to the acknowledgement "
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, at most {slow[-1]:.1f} s"
    )
