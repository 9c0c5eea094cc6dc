"""Ships what tasks print to `bailiff.job-logs`, so that `bailiff logs` works from anywhere. Best effort, in whole lines."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from bailiff_bus import topics
from bailiff_bus.logs import logger
from bailiff_bus.port import Bus, BusUnavailable, Producer

from .agent import Agent
from .logfile import first_data, rotate
from .runtime import TaskKey, UnknownTask

LOOK_EVERY_S = 0.3
LARGEST_PIECE = 64 * 1024
AGAIN_AFTER_S = 2.0
ROTATE_EVERY_S = 5.0

Places = dict[tuple[str, TaskKey], tuple[Path, int]]


async def ship_logs(bus: Bus, agents: Sequence[Agent]) -> NoReturn:
    """Follow the log files of all tasks. After an outage of Kafka pieces may come twice: `ce_offset` tells."""
    places: Places = {}
    while True:
        try:
            producer = await bus.producer()
            try:
                while True:
                    for agent in agents:
                        _look(agent, places)
                    for at in list(places):
                        await _ship(producer, at, places)
                    await asyncio.sleep(LOOK_EVERY_S)
            finally:
                await producer.close(1.0)
        except BusUnavailable as error:
            logger().warning("job logs wait for Kafka", why=str(error))
            await asyncio.sleep(AGAIN_AFTER_S)


async def rotate_logs(agents: Sequence[Agent], largest: int) -> NoReturn:
    """Keep each task's log within `largest` bytes of disk, and as much again for its older part."""
    while True:
        await asyncio.sleep(ROTATE_EVERY_S)
        for agent in agents:
            with suppress(UnknownTask):
                for _, path in agent.logs():
                    if path.exists():
                        await asyncio.to_thread(rotate, path, largest)


def _look(agent: Agent, places: Places) -> None:
    try:
        for key, path in agent.logs():
            places.setdefault((agent.machine.node.name, key), (path, 0))
    except UnknownTask:
        return  # it was forgotten between two looks; what it printed is on its way already


async def _ship(producer: Producer, at: tuple[str, TaskKey], places: Places) -> None:
    """Send what is new, in whole lines; a file that is gone is followed no more."""
    path, offset = places[at]
    try:
        with path.open("rb") as file:
            at_data = first_data(file.fileno(), offset)
            file.seek(at_data)
            piece = file.read(LARGEST_PIECE)
    except FileNotFoundError:
        return
    end = len(piece) if len(piece) == LARGEST_PIECE else piece.rfind(b"\n") + 1
    if end == 0:
        return
    if at_data > offset:
        note = f"[{at_data - offset} bytes were rotated away before they could be sent; they are in {path.name}.1]\n"
        piece, end, offset = note.encode() + piece, end + len(note.encode()), at_data - len(note.encode())
    node, key = at
    headers = (
        ("ce_job", key.job.encode()),
        ("ce_attempt", str(key.attempt).encode()),
        ("ce_task", key.task.encode()),
        ("ce_node", node.encode()),
        ("ce_offset", str(offset).encode()),
    )
    await (await producer.send(topics.JOB_LOGS.name, piece[:end], key=key.job.encode(), headers=headers))
    places[at] = (path, offset + end)
