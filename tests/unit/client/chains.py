"""Logs as messages on a topic."""

import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from tests.unit.client.kit import LogWriter

from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.records import Wire


def log(log_writer: LogWriter) -> list[Message]:
    return log_writer.cluster.messages(AUDIT.name, log_writer.partition)


async def stream(messages: list[Message]) -> AsyncIterator[Message]:
    """Yields the messages as a topic does: every offset once."""
    offset = -1
    for message in messages:
        offset = max(offset + 1, message.offset)
        yield dataclasses.replace(message, offset=offset)


def message(wire: Wire, offset: int = 999) -> Message:
    return Message(AUDIT.name, 0, offset, 0, None, wire.headers, wire.value)


async def messages(wires: Sequence[Wire]) -> AsyncGenerator[Message, None]:
    """The records as the topic has them."""
    for offset, wire in enumerate(wires):
        yield Message(AUDIT.name, 0, offset, 1_800_000_000_000_000, b"pool-a", wire.headers, wire.value)
