"""Utilization of the GPUs in use, published on `bailiff.telemetry`. Best effort; no decision depends on it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.messages.telemetry import DeviceTelemetry, NodeTelemetry
from bailiff_bus.port import Bus, BusUnavailable, OutgoingMessage, open_producer
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger

from .agent import Agent
from .devices import DeviceInventory, DeviceUnavailable, query

SECOND = 1_000_000


async def send_telemetry(bus: Bus, agents: Sequence[Agent], every_s: float, clock_and_ids: ClockAndIds) -> NoReturn:
    """Measure and publish at this interval. Measurements that cannot be sent are lost."""
    measured_at = clock_and_ids.boot()
    while True:
        try:
            await bus.spans(topics.TELEMETRY.name)
            async with open_producer(bus) as producer:
                while True:
                    await asyncio.sleep(every_s)
                    now = clock_and_ids.boot()
                    interval_ms = min(now - measured_at, round(2 * every_s * SECOND)) // 1_000  # an outage is not measured
                    measured_at = now
                    messages = [
                        message
                        for agent in agents
                        if (message := await _measurement(agent, interval_ms, clock_and_ids)) is not None
                    ]
                    for batch in await producer.send_many(topics.TELEMETRY.name, messages) if messages else ():
                        await batch.first
        except BusUnavailable as error:
            logger().warning("telemetry: Kafka unavailable, trying again", why=str(error))
        await asyncio.sleep(every_s)


async def _measurement(agent: Agent, interval_ms: int, clock_and_ids: ClockAndIds) -> OutgoingMessage | None:
    node, inventory = agent.context.node, agent.context.inventory
    jobs = agent.tasks.jobs_by_device()
    devices = await query(inventory, measure, inventory, jobs) if jobs else ()
    if not devices:
        return None
    body = NodeTelemetry(node=node.name, interval_ms=interval_ms, devices=devices)
    headers, value = agent.context.signer.wrap(body, clock_and_ids.random_bytes().hex(), clock_and_ids.wall())
    return node.pool.encode(), headers, value


def measure(inventory: DeviceInventory, jobs: Mapping[str, Sequence[str]]) -> tuple[DeviceTelemetry, ...]:
    """The devices in use. jobs: by device. A device that cannot be read is left out."""
    measured = []
    for device in inventory.list():
        if device.id in jobs:
            try:
                used = inventory.usage(device.id).memory_used
            except DeviceUnavailable:
                continue
            measured.append(
                DeviceTelemetry(
                    device=device.id,
                    jobs=tuple(jobs[device.id]),
                    busy_percent=inventory.utilization(device.id),
                    memory_used=used,
                    memory_bytes=device.memory,
                )
            )
    return tuple(measured)
