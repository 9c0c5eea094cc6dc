"""A whole agent with CRIU that keeps snapshots compressed and encrypted: what is on disk, who restores it, and who cannot."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.kits.criu import needs_criu
from tests.kits.saving_node import WAITS, World
from tests.kits.waiting import until

from bailiff_bus.messages import reports
from bailiff_bus.messages.commands import SnapshotForm
from bailiff_log.credentials import encryption_key_id
from bailiff_node_agent.runtime import Image
from bailiff_node_agent.snapshots import DiskImages

pytestmark = [pytest.mark.slow, needs_criu]
KEY = os.urandom(32)
FORM = SnapshotForm(compressed=True, readers=(encryption_key_id(KEY),))
SECRET = "what nobody else is to read"
PROGRAM = f"kept = '{SECRET}' * 100_000\n{WAITS}"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.agent_starts(images=images(world))
    yield world
    runtime = world.agent.context.runtimes["process"]
    for task in world.agent.tasks.running():
        with suppress(Exception):
            await runtime.kill(task.key)
    await world.agent_dies()


def images(world: World, key: bytes = KEY) -> DiskImages:
    return DiskImages(world.folder / "staging", key)


def staged(world: World) -> list[Path]:
    return [each for each in (world.folder / "staging").rglob("*") if each.is_file()]


async def next_agent(world: World, images: DiskImages) -> None:
    await world.agent_dies()
    await world.agent_starts(images=images)


async def test_it_goes_on_and_nobody_can_read_it_meanwhile(world: World) -> None:
    await world.starts_and_is_ready(PROGRAM)
    await world.evict(form=FORM)
    snapshot = await world.stored()
    [image] = world.images()
    files = [*image.iterdir()]
    assert [each.name for each in files if SECRET.encode() in each.read_bytes()] == []
    [dumped] = [each for each in world.of(reports.EvictionStageReport) if each.stage == "dumped"]
    assert snapshot.bytes < dumped.bytes // 2
    assert staged(world) == []
    await world.starts("print('started anew')", 1, snapshot)
    restored = await world.seen(reports.TaskRestoredReport)
    assert (restored.from_attempt, restored.driver) == (0, "criu")
    world.go()
    ended = await world.seen(reports.TaskExitedReport, 2)
    assert (ended.exit_code, world.output(1)) == (0, "went on 2\n")
    await world.seen(reports.TaskReleasedReport, 2)
    assert (world.images(), staged(world)) == ([], [])


async def test_a_node_that_it_is_not_for_says_so_and_starts_the_job_anew(world: World) -> None:
    await world.starts_and_is_ready(PROGRAM)
    await world.evict(form=FORM)
    snapshot = await world.stored()
    await next_agent(world, images(world, os.urandom(32)))
    await world.starts("print('started anew')", 1, snapshot)
    failed = await world.seen(reports.TaskRestoreFailedReport)
    assert failed.reason == "it was encrypted for other nodes than this one"
    await until(lambda: world.output(1) == "started anew\n")
    assert staged(world) == []


async def test_one_that_runs_goes_on_after_it_and_a_failure_leaves_nothing(world: World) -> None:
    await world.starts_and_is_ready(PROGRAM)
    await world.saved(await world.save(form=FORM))
    assert len(world.images()) == 1
    assert staged(world) == []
    without_key = SnapshotForm(readers=())
    await world.saved(await world.save(form=without_key), "save_failed")
    assert world.why_not_saved() == "the policy wants it encrypted, and this node has no key"
    assert (len(world.images()), staged(world)) == (1, [])
    world.go()
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 0
    assert world.output(0) == "ready\nwent on 2\n"


class Stops(DiskImages):
    """Comes to an end where the agent is killed: once the task is saved."""

    reached = False

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        self.reached = True
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("ends", [False, True], ids=["the next agent stores it", "it ends meanwhile"])
async def test_an_agent_that_is_killed_between_leaves_nothing_readable(world: World, ends: bool) -> None:
    stops = Stops(world.folder / "staging", KEY)
    await next_agent(world, stops)
    await world.starts_and_is_ready(PROGRAM)
    await world.evict(form=FORM)
    await until(lambda: stops.reached)
    assert staged(world)
    await world.agent_dies()
    if ends:
        [task] = world.agent.tasks
        await world.agent.context.runtimes["process"].kill(task.key)
    await world.agent_starts(images=images(world))
    await world.seen(reports.TaskReleasedReport)
    assert (staged(world), len(world.images())) == ([], 0 if ends else 1)
