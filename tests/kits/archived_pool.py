"""A running pool whose log is archived, and what is read of it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import asyncpg
from tests.kits.archive import head, query
from tests.kits.system import PATIENCE_S

from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import Message
from bailiff_core.records import Wire
from bailiff_devstack.stack import Stack

SLICE = 50


async def until_row(stack: Stack, sql: str, *arguments: object) -> None:
    """Wait until the query returns a row."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while not await query(stack.postgres.dsn, sql, *arguments):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)


async def grow(bus: KafkaBus, wires: Sequence[Wire]) -> None:
    """Append the log, some records at a time."""
    producer = await bus.producer()
    for begin in range(0, len(wires), SLICE):
        sent = [
            await producer.send(topics.AUDIT.name, wire.value, key=b"pool-a", headers=wire.headers, partition=0)
            for wire in wires[begin : begin + SLICE]
        ]
        await asyncio.gather(*sent)


async def until_archived(stack: Stack, seq: int) -> None:
    """Wait until this record is in the archive, written by any replica."""
    async with asyncio.timeout(PATIENCE_S * 2):
        while True:
            try:
                if await head(stack.postgres.dsn) >= seq:
                    return
            except (OSError, asyncpg.PostgresError):
                pass  # PostgreSQL was just killed
            await asyncio.sleep(0.02)


async def everything(bus: KafkaBus) -> list[Message]:
    """All messages of the log in Kafka."""
    span = (await bus.spans(topics.AUDIT.name))[0]
    reader = await bus.reader([(topics.AUDIT.name, 0, span.begin)])
    found: list[Message] = []
    while reader.position(topics.AUDIT.name, 0) < span.end:
        found += await reader.read()
    return found


def command(stack: Stack | None, *arguments: str, code: int | None = 0) -> str:
    """The output of `bailiff`, which must end with this exit code; None: with any."""
    env = stack.kafka_environment("operator") if stack is not None else {"BAILIFF_KAFKA__BOOTSTRAP": "127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-m", "bailiff", *arguments],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert code in (done.returncode, None), f"bailiff {' '.join(arguments)}: {done.stdout}{done.stderr}"
    assert "[error" not in done.stderr, done.stderr  # as the event loop says of what was not closed
    return done.stdout


def bailiff(stack: Stack | None, *arguments: str, code: int | None = 0) -> dict:
    """The output of `bailiff` as JSON."""
    return json.loads(command(stack, *arguments, "-o", "json", code=code))
