"""The agents' link to Kafka: commands in, reports and heartbeats out, and the patience to lose it and come back.

One link serves all nodes of this process. While Kafka is away the agents go on; after a lease without it they stop
their jobs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import Unacceptable, unwrap, wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import ReportBody
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetGone, Parcel, Producer, Reader
from bailiff_bus.until_first import until_first

from .agent import Agent
from .reporting import read_report

LOOK_FOR_PARTITIONS_EVERY_S = 30.0
LOOK_AT_LEASES_EVERY_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0


class Link:
    """Connects agents with a bus, again and again."""

    def __init__(self, bus: Bus, ambient: Ambient, heartbeat_s: float) -> None:
        self._bus, self._ambient, self._heartbeat_s = bus, ambient, heartbeat_s
        self._agents: dict[tuple[str, str], Agent] = {}
        self._news = asyncio.Event()
        self._sent: dict[tuple[str, str], int] = {}
        self._read_to: dict[int, int] = {}
        self.waiting_for: str | None = "not connected yet"

    def add(self, agent: Agent) -> None:
        """Serve this agent, too."""
        node = agent.machine.node
        self._agents[(node.domain, node.name)] = agent

    def has_reports(self) -> None:
        """Some agent has something to send."""
        self._news.set()

    async def run(self) -> NoReturn:
        """Until cancelled. A lost connection is made anew; senders repeat the commands that were missed."""
        leases = asyncio.ensure_future(self._watch_leases())
        try:
            await self._keep_connected()
        finally:
            leases.cancel()

    async def _keep_connected(self) -> NoReturn:
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._connected()
            except BusUnavailable as error:
                self.waiting_for = str(error)
                logger().warning("no link to Kafka, trying again", why=str(error))
            await asyncio.sleep(pause)
            pause = FIRST_PAUSE_S if self.waiting_for is None else min(2 * pause, LONGEST_PAUSE_S)

    async def _connected(self) -> None:
        async with AsyncExitStack() as stack:
            producer = await self._bus.producer()
            stack.push_async_callback(producer.close, 1.0)
            reader = await self._bus.reader([])
            stack.push_async_callback(reader.close)
            await self._new_partitions()  # before anything is reported that is answered
            for partition, offset in self._read_to.items():
                reader.follow(topics.NODE_COMMANDS.name, partition, offset)
            self.waiting_for = None
            await until_first(self._read_commands(reader), self._send_reports(producer), self._send_heartbeats(producer))

    # --- commands

    async def _read_commands(self, reader: Reader) -> NoReturn:
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            if loop.time() - looked >= LOOK_FOR_PARTITIONS_EVERY_S:
                for partition in await self._new_partitions():
                    reader.follow(topics.NODE_COMMANDS.name, partition, self._read_to[partition])
                looked = loop.time()
            try:
                messages = await reader.read(wait=0.5)
            except OffsetGone as gone:
                reader.follow(gone.topic, gone.partition, gone.span.begin)
                continue
            for message in messages:
                await self._obey(message)
                self._read_to[message.partition] = message.offset + 1

    async def _new_partitions(self) -> list[int]:
        """Those not known yet. The first ones count from their end: what came before is repeated by whoever is owed an answer."""
        first, new = not self._read_to, []
        for partition, span in (await self._bus.spans(topics.NODE_COMMANDS.name)).items():
            if partition not in self._read_to:
                self._read_to[partition] = span.end if first else span.begin
                new.append(partition)
        return new

    async def _obey(self, message: Message) -> None:
        try:
            envelope = unwrap(message, accept=(CommandBody,))
        except Unacceptable as refusal:
            logger().warning("a command that cannot be read was skipped", why=str(refusal))
            return
        body = envelope.body
        assert isinstance(body, CommandBody)
        agent = self._agents.get((envelope.domain, body.node))
        if agent is not None:
            await agent.obey(body)

    # --- reports

    async def _send_reports(self, producer: Producer) -> NoReturn:
        while True:
            self._news.clear()
            at_boot, parcels, newest_of = self._ambient.boot(), [], {}
            for at, agent in self._agents.items():
                unsent = agent.machine.reports.unsent()
                if unsent:
                    parcels += [self._packed(agent, read_report(report)) for _, report in unsent]
                    newest_of[at] = unsent[-1][0]
            await self._send(producer, parcels)
            for at, newest in newest_of.items():
                agent = self._agents[at]
                self._sent[at] = newest
                agent.renew(at_boot)
                agent.received(newest)
            await self._news.wait()

    async def _send_heartbeats(self, producer: Producer) -> NoReturn:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            at_boot = self._ambient.boot()
            heard_of = {at: agent for at, agent in self._agents.items() if at in self._sent}
            await self._send(producer, [self._packed(agent, agent.heartbeat(self._sent[at])) for at, agent in heard_of.items()])
            for agent in heard_of.values():
                agent.renew(at_boot)

    async def _send(self, producer: Producer, parcels: Sequence[Parcel]) -> None:
        """Until Kafka has all of them."""
        for batch in await producer.send_many(topics.NODE_REPORTS.name, parcels) if parcels else ():
            await batch.first

    def _packed(self, agent: Agent, body: ReportBody) -> Parcel:
        node = agent.machine.node
        headers, value = wrap(
            body,
            source=f"/bailiff/{node.domain}/node/{node.name}",
            id=f"{body.incarnation}/{body.number}/{self._ambient.fresh().hex()[:8]}",
            domain=node.domain,
            time_us=self._ambient.wall(),
        )
        return node.domain.encode(), headers, value

    async def _watch_leases(self) -> NoReturn:
        """Beside the connection, which may hang for as long as a send may."""
        while True:
            await asyncio.sleep(LOOK_AT_LEASES_EVERY_S)
            for agent in self._agents.values():
                agent.check_lease()

    def readiness(self) -> Mapping[str, str | None]:
        """Ready while Kafka is reached."""
        return {"link": self.waiting_for}
