"""What must be alive: `bailiff doctor` and an alarm name each node that is silent for a minute, and each dead service."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from rich.console import Console, RenderableType
from tests.kits.memory_bus import MemoryBus
from tests.kits.signed_pool import POOL, SignedPool, in_signed_pool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff import Client, ClientSettings
from bailiff.client.rejections import PoolAlarms
from bailiff.doctor.checks import examine
from bailiff.doctor.finding import Check
from bailiff.doctor.liveness import leftovers, listed_nodes, node_checks, service_checks
from bailiff.render.serializers.nodes import ListedNode
from bailiff.tables.nodes import listed_table
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.port import AccessDenied
from bailiff_core.records.facts import NodeLost
from bailiff_core.records.node_requests import DrainNode
from bailiff_core.records.wire import time_text
from bailiff_devstack.simulated_node import SimulatedRuntime
from bailiff_log.keys import new_private_key
from bailiff_node_agent.runtime.process import exposure

SECOND = 1_000_000


def doctor(pool: SignedPool, bus: MemoryBus | None = None) -> Client:
    """A client that sees the pool's clock."""
    return Client(bus or pool.cluster.client("doctor"), source="doctor", now=pool.now)


async def nodes(pool: SignedPool, bus: MemoryBus | None = None) -> list[Check]:
    """What the doctor says of the pool's nodes."""
    async with doctor(pool, bus) as client:
        return await node_checks(client, (await client.projection(pool.state.pool)).state)


async def listed(pool: SignedPool) -> list[ListedNode]:
    """The rows of `bailiff nodes`."""
    async with doctor(pool) as client:
        return await listed_nodes(client, (await client.projection(pool.state.pool)).state)


def plainly(shown: RenderableType) -> str:
    """What a terminal shows, as one line."""
    console = Console(width=300)
    with console.capture() as captured:
        console.print(shown)
    return " ".join(captured.get().split())


async def services(pool: SignedPool) -> dict[str, Check]:
    """What the doctor says of each control service."""
    async with doctor(pool) as client:
        return {check["check"].removeprefix("service "): check async for check in service_checks(client)}


async def passes(pool: SignedPool, seconds: float) -> None:
    """Let this time pass on the pool's clock."""
    until = pool.now() + int(seconds * SECOND)
    await pool.until("time passes", lambda _: pool.now() >= until, within_s=2 * seconds + 60)


@pytest.mark.slow
@in_signed_pool
async def test_a_node_that_is_silent_for_a_minute_is_an_alarm_and_fails_the_doctor_until_it_reports(pool: SignedPool) -> None:
    pool.submit("train-1")
    await pool.until_running("train-1")
    await passes(pool, 70)
    assert [check["status"] for check in await nodes(pool)] == ["ok"]
    await pool.stop("agent-n1")
    died = pool.now()
    text = await pool.until_alarm("node-silent")
    last = max(message.time for message in pool.messages(topics.NODE_REPORTS.name))
    assert last <= died
    assert pool.now() - last < 65 * SECOND
    assert text.startswith(f"1 node sent no report for a minute: n1 since {time_text(last)[:16]}")
    assert "1 task." in text
    (silent, none_left) = await nodes(pool)
    assert (silent["check"], silent["status"]) == ("node n1", "wrong")
    assert f"no report since {time_text(last)[:16]}" in silent["found"]
    assert "1 task on it" in silent["found"]
    assert "does its agent run" in silent["advice"]
    assert (none_left["status"], none_left["found"]) == ("wrong", "no node agent is alive: no job can run")
    await passes(pool, 30)
    assert len(alarms(pool)) == 1
    shown = await PoolAlarms(pool.cluster.client("console")).read(pool.state)  # as the console does for its first page
    assert [(each.code, each.source, each.text) for each in shown or ()] == [("node-silent", "admission", text)]
    assert pool.state.nodes[0].state == "unreachable", "which its first page calls a silent node"
    pool.start_agent("n1")
    await passes(pool, 20)
    assert [check["status"] for check in await nodes(pool)] == ["ok"]
    await passes(pool, 120)
    assert len(alarms(pool)) == 1
    await pool.stop("agent-n1")
    await pool.until("a second silence is a second alarm", lambda _: len(alarms(pool)) == 2)


@in_signed_pool
async def test_what_a_node_cannot_remove_is_an_alarm_and_a_warning_until_it_is_gone(pool: SignedPool) -> None:
    await passes(pool, 15)
    agent = pool.agents["agent-n1"]._link._agents[POOL, "n1"]
    left = agent._scratch.unfinished.left
    left[Path("/state/unfinished/train-1-1-0-77")] = "Operation not permitted"
    text = await pool.until_alarm("files-left")
    assert text == ("n1 cannot remove what 1 task left, such as /state/unfinished/train-1-1-0-77: Operation not permitted")
    alive, warning = await nodes(pool)
    assert alive["status"] == "ok"
    assert (warning["check"], warning["status"]) == ("node n1", "warn")
    assert "train-1-1-0-77: Operation not permitted" in warning["found"]
    assert 'bailiff_left_folders{node="n1",pool="pool-a"} 1.0' in generate_latest(agent._metrics.registry).decode()
    (row,) = await listed(pool)
    assert (row["left_folders"], row["left_example"]) == (1, "/state/unfinished/train-1-1-0-77: Operation not permitted")
    assert "n1 cannot remove what 1 task left: /state/unfinished/train-1-1-0-77" in plainly(listed_table([row]))
    async with doctor(pool) as client:  # as the console does for the node's page
        shown = await leftovers(client, pool.state, "n1")
        assert shown == {"left_folders": 1, "left_example": row["left_example"]}
        assert (await leftovers(client, pool.state, "n2"))["left_folders"] is None, "nobody has heard of it"
    left.clear()
    await passes(pool, 15)
    (row,) = await listed(pool)
    assert (row["left_folders"], row["left_example"]) == (0, "")
    assert [check["status"] for check in await nodes(pool)] == ["ok"]


@in_virtual_time
async def test_what_jobs_of_a_node_can_reach_of_its_agent_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exposed = exposure("no user namespaces")
    monkeypatch.setattr(SimulatedRuntime, "capabilities", replace(SimulatedRuntime.capabilities, exposes=exposed))
    async with SignedPool(tmp_path) as pool:
        await passes(pool, 15)
        alive, warning = await nodes(pool)
        assert alive["status"] == "ok"
        assert (warning["check"], warning["status"], warning["found"]) == ("isolation of jobs", "warn", f"n1: {exposed}")
        assert "BAILIFF_RUN_AS=submitter" in warning["advice"]


def alarms(pool: SignedPool) -> list[object]:
    """The alarms of silent nodes."""
    return [message for message in pool.messages(topics.ALARMS.name) if b"node-silent" in message.value]


@in_signed_pool
async def test_a_kept_heartbeat_and_a_strangers_show_nobody_as_alive(pool: SignedPool) -> None:
    await passes(pool, 15)
    await pool.stop("agent-n1")
    kept = pool.messages(topics.NODE_REPORTS.name)[-1]
    await passes(pool, 90)
    pool.send(topics.NODE_REPORTS.name, kept.headers, kept.value)
    forger = replace(pool.credentials("nodes/n1"), private_key=new_private_key())  # it knows the certificate only
    heartbeat = unwrap(kept).body
    pool.send(topics.NODE_REPORTS.name, *pool.signed(forger, heartbeat))
    pool.send(topics.NODE_REPORTS.name, *pool.signed(None, heartbeat))
    pool.send(topics.NODE_REPORTS.name, *pool.signed(pool.certify("stranger", "node", "n1"), heartbeat))
    assert (await nodes(pool))[0]["check"] == "node n1"
    pool.send(topics.NODE_REPORTS.name, *pool.signed(pool.credentials("nodes/n1"), heartbeat))
    pool.send(topics.NODE_REPORTS.name, kept.headers, kept.value)
    assert [check["status"] for check in await nodes(pool)] == ["ok"]  # nor does a kept one hide that the node lives


@pytest.mark.slow
@in_signed_pool
async def test_a_lost_node_fails_the_doctor_until_it_is_drained(pool: SignedPool) -> None:
    await pool.stop("agent-n1")
    await pool.until("n1 is lost", lambda _: pool.facts(NodeLost), within_s=900)
    (silent, _) = await nodes(pool)
    assert "it is lost" in silent["found"]
    assert "bailiff drain NODE" in silent["advice"]
    pool.request(DrainNode(node="n1"), pool.root)
    await pool.until("n1 is drained", lambda state: state.nodes[state.node_numbers["n1"]].drain)
    (none_left,) = await nodes(pool)
    assert none_left["found"].endswith("1 drained and switched off")


class OwnRightsOnly(MemoryBus):
    """A user that may read the log and nothing of the nodes and groups."""

    async def spans(self, topic):  # type: ignore[no-untyped-def]
        if topic == topics.NODE_REPORTS.name:
            raise AccessDenied(topic)
        return await super().spans(topic)

    async def members(self, group):  # type: ignore[no-untyped-def]
        raise AccessDenied(group)


@in_signed_pool
async def test_without_the_right_to_read_reports_the_log_says_which_nodes_are_silent(pool: SignedPool) -> None:
    user = OwnRightsOnly(pool.cluster, "user")
    assert [check["status"] for check in await nodes(pool, user)] == ["ok"]
    await pool.stop("agent-n1")
    await pool.until("n1 is unreachable", lambda state: state.nodes[0].state == "unreachable")
    assert "nothing new is placed there" in (await nodes(pool, user))[0]["found"]
    async with doctor(pool, user) as client:
        assert {check["status"] async for check in service_checks(client)} == {"skipped"}


@pytest.mark.parametrize("role", ["admission", "victim-selection", "eviction-executor"])
@in_signed_pool
async def test_a_dead_service_fails_the_doctor_without_any_address(pool: SignedPool, role: str) -> None:
    assert {check["status"] for check in (await services(pool)).values()} == {"ok"}
    await pool.stop(role)
    await passes(pool, 10)
    found = await services(pool)
    dead = found.pop(role)
    assert (dead["status"], dead["found"].partition(":")[0]) == ("wrong", "no replica is alive")
    assert {check["status"] for check in found.values()} == {"ok"}
    async with doctor(pool) as client:
        assert any(check["check"] == f"service {role}" for check in await examine(client, ClientSettings()))
