"""Ships the output of tasks to `bailiff.job-logs`, for `bailiff logs`. Best effort, in whole lines."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, Producer, open_producer
from bailiff_service.logs import logger

from .agent import Agent
from .log_rotation import first_data, rotate
from .runtime import TaskKey, job_files
from .runtime.supervisor import safe_open

POLL_S = 0.3
MAX_CHUNK_BYTES = 64 * 1024
RETRY_S = 2.0
ROTATE_EVERY_S = 5.0
REMOVE_EVERY_S = 600.0

At = tuple[str, str, TaskKey]
Offsets = dict[At, tuple[Path, int]]


async def ship_logs(bus: Bus, agents: Sequence[Agent]) -> NoReturn:
    """Follow the log files of all tasks. After an outage of Kafka chunks may be repeated: see `ce_offset`."""
    offsets: Offsets = {}
    while True:
        try:
            async with open_producer(bus) as producer:
                while True:
                    await _ship_new(producer, agents, offsets)
                    await asyncio.sleep(POLL_S)
        except BusUnavailable as error:
            logger().warning("job logs: Kafka unavailable, trying again", why=str(error))
            await asyncio.sleep(RETRY_S)


async def rotate_logs(agents: Sequence[Agent], max_bytes: int) -> NoReturn:
    """Keep each task's log within `max_bytes` of disk, and as much again for the rotated part."""
    while True:
        await asyncio.sleep(ROTATE_EVERY_S)
        for agent in agents:
            for _, path in agent.logs():
                await job_files.reading(rotate, path, max_bytes)


async def remove_ended_logs(agents: Sequence[Agent], days: float, most_bytes: int) -> NoReturn:
    """Keep the logs of ended tasks for so many days, within so many bytes for each node; 0: no limit."""
    while True:
        for agent in agents:
            await agent.remove_ended_logs(days, most_bytes)
        await asyncio.sleep(REMOVE_EVERY_S)


async def _ship_new(producer: Producer, agents: Sequence[Agent], offsets: Offsets) -> None:
    """Send what is new in each log, and drop the offsets of tasks that are gone, once there is nothing new.

    Also of a task that came and went since the last time. The last line of a task that is gone may lack its end.
    """
    present = set[At]()
    for agent in agents:
        node = agent.context.node
        for key, path in agent.logs():
            present.add(at := (node.pool, node.name, key))
            if at not in offsets:  # of a task that was parked, an earlier attempt has the same log
                earlier = next((other for other, (its, _) in offsets.items() if its == path), None)
                offsets[at] = (path, 0) if earlier is None else offsets.pop(earlier)
        for key, path in agent.take_ended_logs():
            offsets.setdefault((node.pool, node.name, key), (path, 0))
    grown = await job_files.reading(_grown, dict(offsets))
    sent = [at for at in grown if await _ship(producer, at, offsets, is_gone=at not in present)]
    for at in offsets.keys() - present - {*sent}:
        del offsets[at]


async def _ship(producer: Producer, at: At, offsets: Offsets, *, is_gone: bool = False) -> bool:
    """Send the new whole lines of one log, or all of its rest once its task is gone; whether there was anything."""
    path, offset = offsets[at]
    try:
        at_data, chunk = await job_files.reading(_read, path, offset)
    except OSError:
        return False
    end = len(chunk) if is_gone or len(chunk) == MAX_CHUNK_BYTES else chunk.rfind(b"\n") + 1
    if end == 0:
        return False
    if at_data > offset:
        note = (
            f"[{at_data - offset} bytes were rotated away before they could be sent; the newest of them are in {path.name}.1]\n"
        )
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
    return True


def _grown(offsets: Offsets) -> list[At]:
    """The logs that have something new."""
    found = []
    for at, (path, offset) in offsets.items():
        with suppress(OSError):
            if path.lstat().st_size > offset:
                found.append(at)
    return found


def _read(path: Path, offset: int) -> tuple[int, bytes]:
    """The next part that the task has written, and where it begins. Raises `OSError`."""
    with os.fdopen(safe_open.open_file(str(path.parent), path.name), "rb") as file:
        at_data = first_data(file.fileno(), offset)
        file.seek(at_data)
        return at_data, file.read(MAX_CHUNK_BYTES)
