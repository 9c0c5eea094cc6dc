"""Findings and advice of `bailiff doctor`."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.client.kit import MINUTE, SECOND, LogWriter, preemption_story, quiet_story

from bailiff import Client, ClientSettings
from bailiff.client.doctor import (
    Check,
    clock_check,
    examine,
    health_checks,
    package_checks,
    pool_checks,
    python_check,
    topic_checks,
)
from bailiff_bus import topics
from bailiff_bus.port import BusUnavailable
from bailiff_bus.testing import MemoryBus, MemoryCluster
from bailiff_service.health import HealthServer


@pytest.fixture
def log_writer() -> LogWriter:
    made = LogWriter()
    quiet_story(made)
    return made


@pytest.fixture
async def client(log_writer: LogWriter) -> AsyncIterator[Client]:
    async with Client(log_writer.cluster.client("c"), source="test", now=lambda: log_writer.now + SECOND) as made:
        yield made


def statuses(checks: list[Check]) -> dict[str, str]:
    return {check["check"]: check["status"] for check in checks}


async def test_a_healthy_installation(client: Client) -> None:
    found = await examine(client, ClientSettings())
    assert statuses(found) == {
        "python": "ok", "packages": "ok", "engine": "ok", "kafka": "ok", "topics": "ok", "pool pool-a": "ok",
        "policy pool-a": "ok", "rejected pool-a": "ok", "clock": "ok", "services": "skipped",
    }  # fmt: skip
    assert json.loads(json.dumps(found)) == found


class NoKafka(MemoryBus):
    async def topic_settings(self, topic):  # type: ignore[no-untyped-def]
        raise BusUnavailable("Kafka at h:1 did not answer")


async def test_without_kafka_the_rest_is_skipped(log_writer: LogWriter) -> None:
    async with Client(NoKafka(log_writer.cluster, "c"), source="test") as client:
        found = await examine(client, ClientSettings())
    assert statuses(found)["kafka"] == "wrong"
    assert any("--kafka HOST:PORT" in check["advice"] for check in found)
    assert statuses(found)["topics, pools, clock"] == "skipped"


async def test_missing_topics_and_pools(tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools:\n  - {name: pool-a, partition: 0}\n")
    cluster = MemoryCluster(clock=lambda: 0)
    cluster.add_partitions(topics.AUDIT.name, 1)
    async with Client(cluster.client("c"), source="test") as client:
        (missing, fine) = [check async for check in topic_checks(client, 1)]
        assert missing["status"] == "wrong"
        assert missing["advice"] == "bailiff topics create"
        assert "bailiff.requests" in missing["found"]
        assert fine["found"].startswith("1 of ")
        (silent,) = [check async for check in pool_checks(client, ClientSettings(pools=pools))]
        assert (silent["status"], "pool-a" in silent["found"]) == ("wrong", True)
        (none,) = [check async for check in pool_checks(client, ClientSettings(pools=tmp_path / "none.yaml"))]
        assert "no pool has a log yet" in none["found"]


class ShortRetention(MemoryBus):
    async def topic_settings(self, topic):  # type: ignore[no-untyped-def]
        return {**await super().topic_settings(topic), "retention.ms": "1000"}


async def test_wrong_topic_settings_are_errors_for_audit_and_warnings_for_others(log_writer: LogWriter) -> None:
    async with Client(ShortRetention(log_writer.cluster, "c"), source="test") as client:
        found = [check async for check in topic_checks(client, 1)]
    assert statuses(found)[f"topic {topics.AUDIT.name}"] == "wrong"
    assert statuses(found)[f"topic {topics.REQUESTS.name}"] == "warn"
    assert all(check["advice"] for check in found)


async def test_pending_jobs_in_a_silent_log_are_a_warning(log_writer: LogWriter) -> None:
    preemption = LogWriter()
    preemption_story(preemption)
    async with Client(preemption.cluster.client("c"), source="test", now=lambda: preemption.now + 20 * MINUTE) as client:
        (found, *_) = [check async for check in pool_checks(client, ClientSettings(pools=Path("none.yaml")))]
    assert (found["status"], found["advice"]) == ("warn", "check that admission is running")


async def test_clocks(log_writer: LogWriter) -> None:
    async def clock(behind: int, *, probe: bool = False) -> Check:
        async with Client(log_writer.cluster.client("c"), source="test", now=lambda: log_writer.now + behind) as client:
            return await clock_check(client, probe=probe)

    assert (await clock(SECOND))["status"] == "ok"
    assert (await clock(-MINUTE))["status"] == "wrong"
    assert "--probe" in (await clock(MINUTE))["advice"]
    assert (await clock(MINUTE, probe=True))["status"] == "wrong"
    assert (await clock(SECOND, probe=True))["status"] == "ok"


async def test_service_health_is_read_from_the_address_files(tmp_path: Path) -> None:
    reasons: dict[str, str | None] = {"kafka": None}
    async with HealthServer("127.0.0.1", 0, lambda: reasons, lambda: b"") as server:
        (tmp_path / "admission.address").write_text(server.address)
        (tmp_path / "address.txt").write_text("nonsense")
        assert statuses(await health_checks(tmp_path)) == {"service admission": "ok"}
        reasons["pool-a"] = "its log is being read"
        (found,) = await health_checks(tmp_path)
        assert (found["status"], "pool-a: its log is being read" in found["found"]) == ("wrong", True)
    (found,) = await health_checks(tmp_path)
    assert (found["status"], "does not answer" in found["found"]) == ("wrong", True)
    assert statuses(await health_checks(tmp_path / "none")) == {"services": "warn"}


def test_the_local_python_and_packages() -> None:
    assert python_check()["status"] == "ok"
    assert {check["status"] for check in package_checks()} == {"ok"}
