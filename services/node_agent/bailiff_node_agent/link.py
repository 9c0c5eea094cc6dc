"""The agents' link to Kafka: commands in, reports and heartbeats out; it reconnects when the connection is lost.

One link serves all nodes of this process. While Kafka is unavailable the agents continue; when their lease expires they stop
their tasks.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.messages.reports import ReportBody
from bailiff_bus.port import Bus, BusUnavailable, Message, OffsetOutOfRange, OutgoingMessage, Producer, Reader
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.race import race

from .agent import Agent
from .reporter import decode_report

PARTITION_POLL_S = 30.0
LEASE_POLL_S = 1.0
FIRST_RETRY_S, MAX_RETRY_S = 0.2, 5.0


class Link:
    """Connects the agents with the bus."""

    def __init__(self, bus: Bus, clock_and_ids: ClockAndIds, heartbeat_s: float) -> None:
        self._bus, self._clock_and_ids, self._heartbeat_s = bus, clock_and_ids, heartbeat_s
        self._agents: dict[tuple[str, str], Agent] = {}
        self._unsent, self._sending = asyncio.Event(), asyncio.Lock()
        self._with_reports: set[tuple[str, str]] = set()
        self._sent: dict[tuple[str, str], int] = {}
        self._topic_id, self._read_to = "", dict[int, int]()
        self._obeying: asyncio.Task[None] | None = None
        self.waiting_for: str | None = "not connected yet"

    def add(self, agent: Agent) -> None:
        """Serve this agent."""
        node = agent.context.node
        self._agents[(node.pool, node.name)] = agent
        self.has_reports(node.pool, node.name)

    def has_reports(self, pool: str, node: str) -> None:
        """The agent of this node has spooled a report."""
        self._with_reports.add((pool, node))
        self._unsent.set()

    async def run(self) -> NoReturn:
        """Until cancelled. After a lost connection, senders repeat the commands that were missed."""
        leases = asyncio.ensure_future(self._watch_leases())
        try:
            await self._keep_connected()
        finally:
            leases.cancel()
            if self._obeying is not None:
                self._obeying.cancel()

    async def _keep_connected(self) -> NoReturn:
        pause = FIRST_RETRY_S
        while True:
            try:
                await self._connected()
            except BusUnavailable as error:
                self.waiting_for = str(error)
                logger().warning("Kafka unavailable, trying again", why=str(error))
            await asyncio.sleep(pause)
            pause = FIRST_RETRY_S if self.waiting_for is None else min(2 * pause, MAX_RETRY_S)

    async def _connected(self) -> None:
        async with AsyncExitStack() as stack:
            producer = await self._bus.producer()
            stack.push_async_callback(producer.close, 1.0)
            reader = await self._bus.reader([])
            stack.push_async_callback(reader.close)
            await self._new_partitions()  # before any report that is answered
            for partition, offset in self._read_to.items():
                reader.follow(topics.NODE_COMMANDS.name, partition, offset)
            self.waiting_for = None
            await race(self._read_commands(reader), self._send_reports(producer), self._send_heartbeats(producer))

    # --- commands

    async def _read_commands(self, reader: Reader) -> NoReturn:
        if self._obeying is not None:
            await asyncio.shield(self._obeying)
        loop = asyncio.get_running_loop()
        query = loop.time()
        while True:
            if loop.time() - query >= PARTITION_POLL_S:
                for partition in await self._new_partitions():
                    reader.follow(topics.NODE_COMMANDS.name, partition, self._read_to[partition])
                query = loop.time()
            try:
                messages = await reader.read(wait=PARTITION_POLL_S)
            except OffsetOutOfRange as gone:
                reader.follow(gone.topic, gone.partition, gone.span.begin)
                continue
            for message in messages:
                # Carried out to its end even if the connection is lost meanwhile: half a start leaves a task that nobody watches.
                self._obeying = asyncio.create_task(self._dispatch(message))
                await asyncio.shield(self._obeying)
                self._read_to[message.partition] = message.offset + 1

    async def _new_partitions(self) -> list[int]:
        """Partitions that are new, all if the topic was made anew.

        Those of the first topic are read from their end: senders repeat commands that are not answered.
        """
        spans = await self._bus.spans(topics.NODE_COMMANDS.name)
        before, self._topic_id = self._topic_id, next(iter(spans.values())).topic_id
        if before != self._topic_id:
            self._read_to.clear()
        first, new = not before, []
        for partition, span in spans.items():
            if partition not in self._read_to:
                self._read_to[partition] = span.end if first else span.begin
                new.append(partition)
        return new

    async def _dispatch(self, message: Message) -> None:
        try:
            envelope = unwrap(message, accept=(CommandBody,))
        except InvalidMessage as refusal:
            logger().warning("an unreadable command was skipped", why=str(refusal))
            return
        body = envelope.body
        assert isinstance(body, CommandBody)
        agent = self._agents.get((envelope.pool, body.node))
        if agent is not None:
            await agent.receive(envelope, message.time)

    # --- reports

    async def _send_reports(self, producer: Producer) -> NoReturn:
        self._with_reports.update(self._agents)  # of an earlier agent, or of a connection that was lost
        while True:
            self._unsent.clear()
            at_boot, reports, newest_of = self._clock_and_ids.boot(), list[tuple[Agent, ReportBody]](), {}
            of_nodes, self._with_reports = self._with_reports, set()
            for at in of_nodes:
                agent = self._agents.get(at)
                unsent = agent.context.reports.unsent() if agent is not None else []
                if agent is not None and unsent:
                    reports += [(agent, decode_report(report)) for _, report in unsent]
                    newest_of[at] = unsent[-1][0]
            await self._send(producer, reports)
            for at, newest in newest_of.items():
                agent = self._agents[at]
                self._sent[at] = newest
                agent.renew(at_boot)
                agent.received(newest)
            await self._unsent.wait()

    async def _send_heartbeats(self, producer: Producer) -> NoReturn:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            at_boot = self._clock_and_ids.boot()
            joined = {at: agent for at, agent in self._agents.items() if at in self._sent and not agent.is_waiting}
            await self._send(producer, [(agent, agent.heartbeat(self._sent[at])) for at, agent in joined.items()])
            for agent in joined.values():
                agent.renew(at_boot)

    async def _send(self, producer: Producer, reports: Sequence[tuple[Agent, ReportBody]]) -> None:
        """Returns once Kafka has all of them. They are stored in the order of their times: an older one would not count."""
        if not reports:
            return
        async with self._sending:
            messages = [self._outgoing(agent, body) for agent, body in reports]
            batches = await producer.send_many(topics.NODE_REPORTS.name, messages)
        for batch in batches:
            await batch.first

    def _outgoing(self, agent: Agent, body: ReportBody) -> OutgoingMessage:
        node = agent.context.node
        message_id = f"{body.incarnation}/{body.number}/{self._clock_and_ids.random_bytes().hex()[:8]}"
        headers, value = agent.context.signer.wrap(body, message_id, self._clock_and_ids.wall())
        return node.pool.encode(), headers, value

    async def _watch_leases(self) -> NoReturn:
        """Independent of the connection, on which a send may hang."""
        while True:
            await asyncio.sleep(LEASE_POLL_S)
            for agent in self._agents.values():
                agent.check_lease()
                agent.announce_again()

    def readiness(self) -> Mapping[str, str | None]:
        """Ready while Kafka is connected."""
        return {"link": self.waiting_for}
