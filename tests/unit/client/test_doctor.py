"""Findings and advice of `bailiff doctor`."""

import json
from collections.abc import AsyncIterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.kits.memory_bus import MemoryBus, MemoryCluster
from tests.unit.client.kit import MINUTE, SECOND, LogWriter, preemption_story, quiet_story

from bailiff import Client, ClientSettings
from bailiff.doctor.checks import (
    Check,
    clock_check,
    examine,
    health_checks,
    package_checks,
    pool_checks,
    python_check,
    topic_checks,
)
from bailiff.doctor.finding import finding
from bailiff.doctor.liveness import SERVICES
from bailiff.tables.checks import checks_table
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.reports import NodeHeartbeat
from bailiff_bus.port import BusUnavailable
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records.facts import InputRejected, PolicyApplied
from bailiff_service.health import HealthServer


@pytest.fixture
def log_writer() -> LogWriter:
    return quiet_story(LogWriter())


@pytest.fixture
async def client(log_writer: LogWriter) -> AsyncIterator[Client]:
    async with Client(log_writer.cluster.client("c"), source="test", now=lambda: log_writer.now + SECOND) as made:
        yield made


def statuses(checks: list[Check]) -> dict[str, str]:
    return {check["check"]: check["status"] for check in checks}


async def all_alive(log_writer: LogWriter) -> None:
    """The policy is as shipped, the control services are members of their groups, and each node has just sent a heartbeat."""
    log_writer.cycle(PolicyApplied(policy=DEFAULT_POLICY.complete()))
    for role in SERVICES:
        await log_writer.cluster.client(role).join(f"bailiff-{role}", topics.AUDIT.name, None)
    for node in log_writer.state.nodes.values():
        body = NodeHeartbeat(node=node.name, incarnation=node.incarnation, number=1)
        headers, value = wrap(body, source="/agent", id=node.name, pool="pool-a", time_us=log_writer.now)
        log_writer.cluster.store(topics.NODE_REPORTS.name, 0, b"pool-a", headers, value)


async def test_a_healthy_installation(client: Client, log_writer: LogWriter) -> None:
    await all_alive(log_writer)
    found = await examine(client, ClientSettings())
    assert statuses(found) == {
        "python": "ok",
        "packages": "ok",
        "engine": "ok",
        "kafka": "ok",
        "topics": "ok",
        "service admission": "ok",
        "service victim-selection": "ok",
        "service eviction-executor": "ok",
        "pool pool-a": "ok",
        "nodes pool-a": "ok",
        "policy pool-a": "ok",
        "rejected pool-a": "ok",
        "clock": "ok",
        "services": "skipped",
    }
    assert json.loads(json.dumps(found)) == found


async def test_what_is_wrong_now_stands_apart_from_what_was_rejected_before(client: Client, log_writer: LogWriter) -> None:
    await all_alive(log_writer)
    where = {"topic": topics.REQUESTS.name, "partition": 0, "offset": 0, "digest": "0" * 64, "source": "/somebody"}
    log_writer.cycle(InputRejected(**where, code="no-such-job", reason="there is no job tarin-1"))
    found = await examine(client, ClientSettings())
    assert {check["when"] for check in found if check["status"] != "ok"} == {"past", "now"}
    out = StringIO()
    Console(width=140, file=out).print(checks_table(found))
    now, before = " ".join(out.getvalue().split()).split("Rejected and refused before")
    assert "tarin-1" not in now
    assert "tarin-1" in before
    assert "No problems now. 1 kind of messages rejected or refused in the last day" in before


def test_advice_that_findings_share_stands_once_with_how_many() -> None:
    silent = [finding(f"node n{number}", "wrong", f"n{number} is silent", "is the machine up?") for number in range(11)]
    out = StringIO()
    Console(width=140, file=out).print(checks_table([*silent, finding("topics", "wrong", "missing: x", "bailiff topics create")]))
    assert out.getvalue().count("is the machine up?") == 1
    assert "→ is the machine up? (for 11 findings)" in out.getvalue()
    assert "→ bailiff topics create\n" in "\n".join(map(str.rstrip, out.getvalue().splitlines())) + "\n"


async def test_the_doctor_names_the_folder_that_it_wants() -> None:
    for found in (await health_checks(None), await health_checks(Path("/nowhere"))):
        assert "--state-dir .bailiff/state" in found[0]["advice"]


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
    preemption = preemption_story(LogWriter())
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
