"""How busy GPUs are, as agents measure it: the newest look at each node, told at most once a second. Nothing is kept of it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from bailiff.present.times import moment
from bailiff_bus.envelope import Unacceptable, unwrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import NodeTelemetry
from bailiff_bus.messages.telemetry import DeviceMeasured
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetGone, Reader
from bailiff_bus.topics import TELEMETRY

from .follower import Followed

EVERY_S = 1.0
AGAIN_S = 10.0  # to look for a topic that is not there
READ = 2000


class Telemetry:
    """pools: those that are followed now, by name. What does not fit, and what is of no pool here, is passed over."""

    def __init__(self, bus: Bus, pools: Callable[[], Mapping[str, Followed]]) -> None:
        self._bus, self._pools = bus, pools

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                reader = await self._open()
                try:
                    await self._follow(reader)
                finally:
                    await reader.close()
            except KeyError:
                pass  # agents of an earlier release tell nothing of it
            except (BusUnavailable, OffsetGone) as away:
                logger().info("telemetry is not there", why=str(away))
            await asyncio.sleep(AGAIN_S)

    async def _open(self) -> Reader:
        """At its end: what was is of no use."""
        spans = await self._bus.spans(TELEMETRY.name)
        return await self._bus.reader([(TELEMETRY.name, partition, span.end) for partition, span in spans.items()])

    async def _follow(self, reader: Reader) -> None:
        loop = asyncio.get_running_loop()
        while True:
            until = loop.time() + EVERY_S
            fresh: dict[str, dict[str, Any]] = {}
            while (left := until - loop.time()) > 0:
                for message in await reader.read(limit=READ, wait=left):
                    self._take(message, fresh)
            for name, nodes in fresh.items():
                followed = self._pools().get(name)
                if followed is not None:
                    followed.measured(nodes)

    def _take(self, message: Message, fresh: dict[str, dict[str, Any]]) -> None:
        try:
            told = unwrap(message, accept=(NodeTelemetry,))
        except Unacceptable:
            return
        followed, body = self._pools().get(told.domain), told.body
        if followed is None or not isinstance(body, NodeTelemetry) or body.node not in followed.pool.node_numbers:
            return
        node = followed.pool.nodes[followed.pool.node_numbers[body.node]]
        measured = {each.device: each for each in body.devices}
        devices = [_figures(measured.get(device.id)) for device in node.devices]
        fresh.setdefault(followed.name, {})[node.name] = {"at": moment(message.time), "devices": devices}


def _figures(measured: DeviceMeasured | None) -> tuple[int | None, int | None, int | None]:
    """Percent of the time that it is busy, bytes of its memory in use and in all; of a GPU that nobody holds nothing is told."""
    return (None, None, None) if measured is None else (measured.busy_percent, measured.memory_used, measured.memory_bytes)
