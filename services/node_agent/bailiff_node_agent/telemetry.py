"""How busy the GPUs are that tasks hold, told on `bailiff.telemetry` now and then. Best effort; no decision depends on it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import DeviceMeasured, NodeTelemetry
from bailiff_bus.port import Bus, BusUnavailable, Parcel

from .agent import Agent
from .devices import DeviceInventory, DeviceUnavailable, looked

SECOND = 1_000_000


async def send_telemetry(bus: Bus, agents: Sequence[Agent], every_s: float, ambient: Ambient) -> NoReturn:
    """Look at all nodes every so many seconds. What cannot be sent is lost."""
    looked_at = ambient.boot()
    while True:
        try:
            await bus.spans(topics.TELEMETRY.name)
            producer = await bus.producer()
            try:
                while True:
                    await asyncio.sleep(every_s)
                    now = ambient.boot()
                    lasted_ms = min(now - looked_at, round(2 * every_s * SECOND)) // 1_000  # nobody knows about an outage
                    looked_at = now
                    parcels = [parcel for agent in agents if (parcel := await _told(agent, lasted_ms, ambient)) is not None]
                    for batch in await producer.send_many(topics.TELEMETRY.name, parcels) if parcels else ():
                        await batch.first
            finally:
                await producer.close(1.0)
        except BusUnavailable as error:
            logger().warning("telemetry waits for Kafka", why=str(error))
        except KeyError:
            logger().warning(f"there is no topic {topics.TELEMETRY.name}: run `bailiff topics create`")
        await asyncio.sleep(every_s)


async def _told(agent: Agent, lasted_ms: int, ambient: Ambient) -> Parcel | None:
    node, inventory = agent.machine.node, agent.machine.inventory
    jobs = agent.tasks.jobs_by_device()
    devices = await looked(inventory, measure, inventory, jobs) if jobs else ()
    if not devices:
        return None
    headers, value = wrap(
        NodeTelemetry(node=node.name, lasted_ms=lasted_ms, devices=devices), source=f"/bailiff/{node.domain}/node/{node.name}",
        id=ambient.fresh().hex(), domain=node.domain, time_us=ambient.wall(),
    )  # fmt: skip
    return node.domain.encode(), headers, value


def measure(inventory: DeviceInventory, jobs: Mapping[str, Sequence[str]]) -> tuple[DeviceMeasured, ...]:
    """The devices that these jobs are on, by device. One that cannot be read is left out."""
    found = []
    for device in inventory.list():
        if device.id in jobs:
            try:
                used = inventory.usage(device.id).memory_used
            except DeviceUnavailable:
                continue
            found.append(DeviceMeasured(
                device=device.id, jobs=tuple(jobs[device.id]), busy_percent=inventory.busy(device.id), memory_used=used,
                memory_bytes=device.memory,
            ))  # fmt: skip
    return tuple(found)
