"""GPU utilization as measured by agents: the newest sample of each node, published once a second; older ones in memory."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from typing_extensions import TypedDict

from bailiff.render.serializers.times import moment
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.telemetry import DeviceTelemetry, NodeTelemetry
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetOutOfRange, Reader, TopicMissing
from bailiff_bus.topics import TELEMETRY
from bailiff_core.model.mig import listed_devices
from bailiff_core.views import Moment
from bailiff_log.node_messages import NodeMessages
from bailiff_service.logs import logger
from bailiff_service.pool_ownership import IDLE_WAIT_S

from .follower import PoolFollower

EVERY_S = 1.0
RETRY_S = 10.0  # when the topic does not exist
READ = 2000
BACKLOG = 5000  # messages of each partition that are read at the start, for the history
POOLS_WITHIN_S = 30.0


class NodeTelemetryRow(TypedDict):
    """Measurements of a node's devices: busy percent, memory used and in total in bytes; null: unknown."""

    at: Moment | None
    devices: list[tuple[int | None, int | None, int | None]]


class TelemetryByNode(TypedDict):
    """The nodes measured since the last event."""

    nodes: dict[str, NodeTelemetryRow]


class Telemetry:
    """pools: the followed pools by name. Messages that are invalid, of another pool, or not signed by their node are skipped."""

    def __init__(self, bus: Bus, pools: Callable[[], Mapping[str, PoolFollower]]) -> None:
        self._bus, self._pools = bus, pools
        self._signed: dict[str, NodeMessages] = {}

    async def run(self) -> None:
        """Follow the topic until cancelled."""
        while True:
            try:
                reader = await self._open()
                try:
                    await self._follow(reader)
                finally:
                    await reader.close()
            except TopicMissing:
                pass  # nobody has made the topic yet
            except (BusUnavailable, OffsetOutOfRange) as error:
                logger().info("telemetry is unavailable", why=str(error))
            await asyncio.sleep(RETRY_S)

    async def _open(self) -> Reader:
        """A reader near the end of the topic, once the pools are followed: samples of unknown nodes are skipped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POOLS_WITHIN_S):
                while not self._pools() or not all(each.ready for each in self._pools().values()):  # noqa: ASYNC110 - followers have no event for it
                    await asyncio.sleep(EVERY_S)
        spans = await self._bus.spans(TELEMETRY.name)
        return await self._bus.reader(
            [(TELEMETRY.name, partition, max(span.begin, span.end - BACKLOG)) for partition, span in spans.items()]
        )

    async def _follow(self, reader: Reader) -> None:
        loop = asyncio.get_running_loop()
        while True:
            fresh: dict[str, dict[str, Any]] = {}
            messages = await reader.read(limit=READ, wait=IDLE_WAIT_S)
            until = loop.time() + EVERY_S
            while True:
                for message in messages:
                    self._take(message, fresh)
                if not fresh or (left := until - loop.time()) <= 0:
                    break
                messages = await reader.read(limit=READ, wait=left)
            for name, nodes in fresh.items():
                followed = self._pools().get(name)
                if followed is not None:
                    followed.update_telemetry(nodes)

    def _take(self, message: Message, fresh: dict[str, dict[str, Any]]) -> None:
        try:
            envelope = unwrap(message, accept=(NodeTelemetry,))
        except InvalidMessage:
            return
        followed, body = self._pools().get(envelope.pool), envelope.body
        if followed is None or not isinstance(body, NodeTelemetry) or body.node not in followed.state.node_numbers:
            return
        try:
            self._signed.setdefault(envelope.pool, NodeMessages()).check(envelope, followed.state, body.node)
        except InvalidMessage:
            return
        node = followed.state.nodes[followed.state.node_numbers[body.node]]
        measured = {each.device: each for each in body.devices}
        devices = [_sample(measured.get(device.id)) for device in listed_devices(node)]
        at = min(message.time, time.time_ns() // 1000)  # the sender's clock does not reach into the future
        followed.telemetry_history.take(node.name, at // 1_000_000, devices)
        fresh.setdefault(followed.name, {})[node.name] = {"at": moment(message.time), "devices": devices}


def _sample(measured: DeviceTelemetry | None) -> tuple[int | None, int | None, int | None]:
    """Busy percent, memory used and total in bytes; None for a GPU without a sample."""
    return (None, None, None) if measured is None else (measured.busy_percent, measured.memory_used, measured.memory_bytes)
