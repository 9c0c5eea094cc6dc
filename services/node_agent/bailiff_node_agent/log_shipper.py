"""Ships the output of tasks to `bailiff.job-logs`, for `bailiff logs`. Best effort, in whole lines."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Producer
from bailiff_service.logs import logger

from .agent import Agent
from .log_rotation import first_data, rotate
from .runtime import TaskKey, UnknownTask

POLL_S = 0.3
MAX_CHUNK_BYTES = 64 * 1024
RETRY_S = 2.0
ROTATE_EVERY_S = 5.0

Offsets = dict[tuple[str, str, TaskKey], tuple[Path, int]]


async def ship_logs(bus: Bus, agents: Sequence[Agent]) -> NoReturn:
    """Follow the log files of all tasks. After an outage of Kafka chunks may be repeated: see `ce_offset`."""
    offsets: Offsets = {}
    while True:
        try:
            producer = await bus.producer()
            try:
                while True:
                    for agent in agents:
                        _find_logs(agent, offsets)
                    for at in list(offsets):
                        await _ship(producer, at, offsets)
                    await asyncio.sleep(POLL_S)
            finally:
                await producer.close(1.0)
        except BusUnavailable as error:
            logger().warning("job logs: Kafka unavailable, trying again", why=str(error))
            await asyncio.sleep(RETRY_S)


async def rotate_logs(agents: Sequence[Agent], max_bytes: int) -> NoReturn:
    """Keep each task's log within `max_bytes` of disk, and as much again for the rotated part."""
    while True:
        await asyncio.sleep(ROTATE_EVERY_S)
        for agent in agents:
            with suppress(UnknownTask):
                for _, path in agent.logs():
                    if path.exists():
                        await asyncio.to_thread(rotate, path, max_bytes)


def _find_logs(agent: Agent, offsets: Offsets) -> None:
    node = agent.context.node
    try:
        for key, path in agent.logs():
            offsets.setdefault((node.pool, node.name, key), (path, 0))
    except UnknownTask:
        return  # it was forgotten meanwhile, so its output was sent


async def _ship(producer: Producer, at: tuple[str, str, TaskKey], offsets: Offsets) -> None:
    """Send the new whole lines of one log."""
    path, offset = offsets[at]
    try:
        with path.open("rb") as file:
            at_data = first_data(file.fileno(), offset)
            file.seek(at_data)
            chunk = file.read(MAX_CHUNK_BYTES)
    except FileNotFoundError:
        return
    end = len(chunk) if len(chunk) == MAX_CHUNK_BYTES else chunk.rfind(b"\n") + 1
    if end == 0:
        return
    if at_data > offset:
        note = f"[{at_data - offset} bytes were rotated away before they could be sent; they are in {path.name}.1]\n"
        chunk, end, offset = note.encode() + chunk, end + len(note.encode()), at_data - len(note.encode())
    pool, node, key = at
    headers = (
        ("ce_pool", pool.encode()),
        ("ce_job", key.job.encode()),
        ("ce_attempt", str(key.attempt).encode()),
        ("ce_task", key.task.encode()),
        ("ce_node", node.encode()),
        ("ce_offset", str(offset).encode()),
    )
    await (await producer.send(topics.JOB_LOGS.name, chunk[:end], key=key.job.encode(), headers=headers))
    offsets[at] = (path, offset + end)
