"""Kafka that starts late, stops and restarts; and how services exit: on request, or with an error."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.kits.system import ALL_SERVICES, System, Watch

from bailiff_bus import topics
from bailiff_core.records.decisions import JobEnded
from bailiff_core.records.facts import EvictionStarted, NodeLost
from bailiff_devstack.identity import wait_until
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.ports import free_port
from bailiff_devstack.stack import SERVICES

NODES = '[{"name": "node-1", "pool": "pool-a", "gpus": "8xH100-80GB"}]'
TRAINING = [f"outage-{n}" for n in range(8)]


@pytest.fixture
def without_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Kafka with its topics, and no services yet."""
    with contextlib.closing(System(tmp_path_factory.mktemp("outage"))) as system:
        system.start_kafka()
        yield system


async def check_preemption_completes(pool: Watch) -> None:
    """Check that the urgent job runs and ends, its victims resume, and no job was started twice."""
    await pool.until_running("outage-urgent")
    pool.let_finish("outage-urgent")
    await pool.until_ended("outage-urgent")
    await pool.until_running(*TRAINING)
    for name in TRAINING:
        await pool.noted(name, pool.job(name).attempt)
    pool.assert_started_once(*TRAINING, "outage-urgent")


async def test_kafka_starts_late_and_goes_away_and_jobs_continue(without_services: System) -> None:
    system, kafka = without_services, without_services.stack.kafka

    # Kafka is unavailable when the services start: they log it, are not ready, and retry.
    await asyncio.to_thread(kafka.stop)
    system.start_services()
    for service in ALL_SERVICES:
        await asyncio.to_thread(until_it_waits, lambda service=service: system.log_of(service), kafka.bootstrap)
        status, why = await system.get(service, "/readyz")
        assert status == 503
        assert "Kafka" in why
    await asyncio.to_thread(kafka.start)
    await asyncio.to_thread(system.wait_ready)

    # Kafka is killed during an eviction.
    async with system.watch("pool-a") as pool:
        for name in TRAINING:
            await pool.submit(name)
        await pool.until_running(*TRAINING)
        await pool.submit("outage-urgent", pool.until_signalled(), gpus=4, kind="inference")
        pool.keep(*TRAINING, "outage-urgent")
        await pool.record(EvictionStarted)
    await asyncio.to_thread(kafka.kill)
    for service in ALL_SERVICES:
        assert service in system.stack.processes.running()
    await asyncio.to_thread(kafka.start)

    # Kafka is restarted.
    async with system.watch("pool-a") as pool:
        await check_preemption_completes(pool)
        assert len(pool.facts(JobEnded, job="outage-urgent")) == 1
        await pool.verify(orphans=True)
    for service in ALL_SERVICES:
        assert "Traceback" not in system.log_of(service)

    # Each service stops on request.
    for service in ALL_SERVICES:
        assert (await asyncio.to_thread(system.stack.processes.stop, service)).code == 0
        assert '"event": "stopped"' in system.log_of(service)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [20, 180])
@pytest.mark.parametrize("how", ["paused", "killed"])
async def test_kafka_is_gone_for_a_while_in_the_middle_of_an_eviction(without_services: System, how: str, seconds: int) -> None:
    """Longer than request and session timeouts, and no reason to declare a node lost."""
    system, kafka = without_services, without_services.stack.kafka
    system.start_services()
    await asyncio.to_thread(system.wait_ready)
    async with system.watch("pool-a") as pool:
        for name in TRAINING:
            await pool.submit(name, f"trap '' TERM; {pool.training()}", grace_s=4)
        await pool.until_running(*TRAINING)
        for name in TRAINING:
            await pool.noted(name, attempt=1)
        await pool.submit("outage-urgent", pool.until_signalled(), gpus=4, kind="inference")
        pool.keep(*TRAINING, "outage-urgent")
        await pool.record(EvictionStarted)
    await asyncio.to_thread(kafka.pause if how == "paused" else kafka.kill)
    await asyncio.sleep(seconds)  # the length of the outage
    await asyncio.to_thread(kafka.resume if how == "paused" else kafka.start)

    async with system.watch("pool-a") as pool:
        await check_preemption_completes(pool)
        assert [pool.job(name).evictions for name in TRAINING].count(1) == 4
        assert pool.facts(NodeLost) == []
        await pool.verify(orphans=True)
    for service in ALL_SERVICES:
        assert service in system.stack.processes.running()
        assert "Traceback" not in system.log_of(service)


@dataclass
class Lone:
    """One service, started without the stack."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        """The service's log."""
        return self.log.read_text(errors="replace")

    def code(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(60)


Start = Callable[..., Lone]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a service with these settings; all end with the test."""
    (tmp_path / "pools.yaml").write_text("pools: [{name: pool-a, partition: 0}]\n")
    started: list[Lone] = []

    def begin(service: str, settings: Mapping[str, str]) -> Lone:
        log = tmp_path / f"{service}-{len(started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", SERVICES[service]],
                env={
                    **os.environ,
                    "BAILIFF_STATE_DIR": str(tmp_path / f"state-{len(started)}"),
                    "BAILIFF_POOLS": str(tmp_path / "pools.yaml"),
                    "BAILIFF_NODES": NODES,
                    **settings,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(Lone(process, log))
        return started[-1]

    try:
        yield begin
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()


def until_it_waits(log: Callable[[], str], bootstrap: str) -> None:
    """Wait until a service has logged twice that it waits for this Kafka, without a traceback."""

    def waits_logged() -> bool:
        texts = ("Kafka is unreachable", "trying again")
        waits = [line for line in log().splitlines() if bootstrap in line and any(text in line for text in texts)]
        return len(waits) >= 2

    assert wait_until(waits_logged, 60), log()
    assert "Traceback" not in log()


def test_asked_to_stop_while_kafka_is_away(start: Start) -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    lone = {service: start(service, {"BAILIFF_KAFKA__BOOTSTRAP": bootstrap}) for service in SERVICES}
    for each in lone.values():
        until_it_waits(each.text, bootstrap)
        each.process.send_signal(signal.SIGTERM)
    for service, each in lone.items():
        assert each.code() == 0, f"{service}: {each.text()}"


def test_settings_that_do_not_fit_are_one_sentence_and_exit_code_two(start: Start, tmp_path: Path) -> None:
    (tmp_path / "torn.toml").write_text("[kafka\n")
    (tmp_path / "odd.toml").write_text("favourite_colour = 'green'\n")
    (tmp_path / "twice.yaml").write_text("pools: [{name: pool-a, partition: 0}, {name: pool-a, partition: 1}]\n")
    (tmp_path / "policy.yaml").write_text("backfil: greedy\n")
    wrong = [
        ("victim-selection", {"BAILIFF_SETTINGS": str(tmp_path / "torn.toml")}, "torn.toml: not TOML"),
        ("victim-selection", {"BAILIFF_SETTINGS": str(tmp_path / "odd.toml")}, "favourite_colour"),
        ("eviction-executor", {"BAILIFF_POOLS": str(tmp_path / "twice.yaml")}, "pool-a is already used by pool pool-a"),
        ("admission", {"BAILIFF_POLICY": str(tmp_path / "policy.yaml")}, "policy.yaml:1: backfil: no such field"),
        ("node-agent", {"BAILIFF_NODES": '[{"name": "n", "pool": "pool-a", "gpus": "a few"}]'}, "a few"),
    ]
    for (service, _, expected), each in [(case, start(case[0], case[1])) for case in wrong]:
        assert each.code() == 2, f"{service}: {each.text()}"
        assert expected in each.text()
        assert "Traceback" not in each.text()
        assert len([line for line in each.text().splitlines() if "settings" in line or '"level": "error"' in line]) == 1


async def test_an_audit_topic_that_could_lose_the_log_is_exit_code_three(
    start: Start, private_kafka: Callable[[], EmbeddedKafka]
) -> None:
    kafka = await asyncio.to_thread(private_kafka)
    settings = {"BAILIFF_KAFKA__BOOTSTRAP": kafka.bootstrap}
    without = start("admission", settings)
    assert await asyncio.to_thread(without.code) == 3
    assert "topic bailiff.audit does not exist" in without.text()

    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    try:
        fleeting = {**topics.AUDIT.settings_for(1), "retention.ms": "3600000"}
        await admin.create_topics([NewTopic(topics.AUDIT.name, 1, 1, topic_configs=fleeting)])
    finally:
        await admin.close()
    refused = [start(service, settings) for service in ("admission", "victim-selection", "eviction-executor")]
    for each in refused:
        assert await asyncio.to_thread(each.code) == 3, each.text()
        assert "bailiff.audit: retention.ms is 3600000, expected -1." in each.text()
        assert "Traceback" not in each.text()
