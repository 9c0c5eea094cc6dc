"""Telemetry of allocated GPUs, and that nothing blocks where it cannot be sent."""

import asyncio
import contextlib
import itertools
from types import SimpleNamespace
from typing import Any

from tests.kits.memory_bus import MemoryCluster

from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.telemetry import NodeTelemetry
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.report_signer import ReportSigner
from bailiff_node_agent.settings import NodeDeclaration
from bailiff_node_agent.telemetry import measure, send_telemetry
from bailiff_service.clock_and_ids import ClockAndIds

ONE, TWO, THREE = (f"GPU-sim-n1-{number}" for number in range(3))


def inventory() -> SimulatedInventory:
    found = SimulatedInventory("3xH100-80GB", "n1", identify=lambda pid: pid)
    found.fail(ONE, busy_percent=73, use_bytes=5 << 30)
    found.attach(ONE, 11)
    return found


def test_devices_that_tasks_hold_are_measured_and_no_others() -> None:
    devices = inventory()
    devices.fail(THREE, dead=True)
    found = {each.device: each for each in measure(devices, {ONE: ["train-1"], TWO: ["train-2", "train-3"], THREE: ["train-4"]})}
    assert (found[ONE].busy_percent, found[ONE].memory_used, found[ONE].memory_bytes) == (73, 5 << 30, 80 << 30)
    assert (found[TWO].jobs, found[TWO].busy_percent) == (("train-2", "train-3"), None)
    assert THREE not in found  # it cannot be read
    assert set(measure(devices, {})) == set()


async def test_samples_are_sent_with_the_time_that_they_cover() -> None:
    cluster, boots = MemoryCluster(clock=lambda: 0), itertools.count(0, 20_000)
    cluster.create_topics(pools=1)
    node = NodeDeclaration(name="n1", pool="pool-a", gpus="3xH100-80GB")
    signer = ReportSigner(MemoryStorage(), None, node.pool, node.name)
    context = SimpleNamespace(node=node, inventory=inventory(), signer=signer)
    holding: dict[str, list[str]] = {}
    agent: Any = SimpleNamespace(context=context, tasks=SimpleNamespace(jobs_by_device=lambda: holding))
    clock_and_ids = ClockAndIds(wall=lambda: 1_800_000_000_000_000, boot=lambda: next(boots))

    def sent() -> list[NodeTelemetry]:
        partitions = range(topics.TELEMETRY.partition_count(1))
        found = [unwrap(message).body for part in partitions for message in cluster.messages(topics.TELEMETRY.name, part)]
        return [body for body in found if isinstance(body, NodeTelemetry)]

    work = asyncio.create_task(send_telemetry(cluster.client("agent"), [agent], 0.01, clock_and_ids))
    try:
        async with asyncio.timeout(60):
            while next(boots) < 200_000:  # noqa: ASYNC110 - it looks at an empty node meanwhile
                await asyncio.sleep(0.001)
            assert sent() == []
            holding[ONE] = ["train-1"]
            while len(sent()) < 2:  # noqa: ASYNC110 - the in-memory bus has no notification
                await asyncio.sleep(0.001)
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
    assert {body.node for body in sent()} == {"n1"}
    assert {each.device for body in sent() for each in body.devices} == {ONE}
    assert all(body.interval_ms == 20 for body in sent())  # at most twice the distance: what lay between is not known
