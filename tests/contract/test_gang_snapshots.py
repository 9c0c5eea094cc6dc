"""One task of a gang on a machine with CRIU stands still until its gang is so far. The test is the executor."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kits.criu import criu_program, kill_criu, needs_criu, paused_criu
from tests.kits.saving_node import SECOND, World
from tests.kits.waiting import until

from bailiff_bus.messages import reports
from bailiff_bus.messages.commands import SnapshotRef
from bailiff_node_agent.runtime import criu_requests

pytestmark = [pytest.mark.slow, needs_criu]
GANG = {"world_size": 2}
COUNTS = """
signal.signal(signal.SIGTERM, lambda *_: (print("had TERM", flush=True), os._exit(3)))
print("ready", flush=True)
while not os.path.exists("go"):
    open("moves", "a").write("x")
    time.sleep(0.01)
print("went on", os.getpid())
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.agent_starts()
    yield world
    runtime = world.agent.context.runtimes["process"]
    for task in world.agent.tasks.running():
        with suppress(Exception):
            await runtime.kill(task.key)
    await world.agent_dies()


async def until_stage(world: World, stage: str) -> None:
    await until(lambda: stage in world.stages())


async def frozen(world: World, grace: int = 300 * SECOND) -> None:
    await world.starts_and_is_ready(COUNTS, **GANG)
    await world.evict(together=True, grace=grace, term_after=grace)
    await until_stage(world, "frozen")


async def stored(world: World) -> SnapshotRef:
    await frozen(world)
    await world.step("dump")
    await until_stage(world, "stored")
    return ref(world)


def ref(world: World) -> SnapshotRef:
    [said] = [each for each in world.of(reports.EvictionStageReport) if each.stage == "stored"]
    return SnapshotRef(attempt=0, driver=said.driver, sha256=said.sha256, bytes=said.bytes)


def moves(world: World) -> int:
    return (world.folder / "work/moves").stat().st_size


async def test_it_stands_still_until_all_are_frozen_and_stays_until_all_are_stored(world: World) -> None:
    await frozen(world)
    before = moves(world)
    await world.step("dump")
    await until_stage(world, "stored")
    assert (world.of(reports.TaskExitedReport), moves(world)) == ([], before)
    await world.step("end")
    assert (await world.seen(reports.TaskExitedReport)).exit_code == -9
    assert (world.stages(), moves(world)) == (["noticed", "frozen", "dumped", "stored"], before)


@pytest.mark.parametrize("until_it_is", ["frozen", "stored"])
async def test_it_goes_on_to_term_where_another_task_is_not_saved(world: World, until_it_is: str) -> None:
    await (frozen(world) if until_it_is == "frozen" else stored(world))
    await world.step("thaw")
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 3
    assert world.stages()[-2:] == ["save_failed", "term_sent"]
    assert world.of(reports.EvictionStageReport)[-2].reason == "another task of its gang is not saved"
    assert "had TERM" in world.output(0)


async def test_nobody_waits_longer_than_half_of_the_time_for_a_gang_that_is_not_frozen(world: World) -> None:
    await frozen(world, grace=4 * SECOND)
    assert (await world.seen(reports.TaskExitedReport)).exit_code == 3, "it had TERM with what was left"
    assert world.of(reports.EvictionStageReport)[-2].reason == "not all tasks of its gang were frozen in time"


@pytest.mark.parametrize("until_it_is", ["frozen", "stored"])
async def test_an_agent_that_is_killed_meanwhile_goes_on_when_it_is_back(world: World, until_it_is: str) -> None:
    await (frozen(world) if until_it_is == "frozen" else stored(world))
    await world.agent_dies()
    before = moves(world)
    await world.agent_starts()
    if until_it_is == "frozen":
        await world.step("dump")
        await until_stage(world, "stored")
    await world.step("end")
    assert (await world.seen(reports.TaskExitedReport)).exit_code == -9
    assert moves(world) == before


async def test_an_agent_that_stays_away_leaves_nothing_frozen(world: World) -> None:
    await frozen(world, grace=4 * SECOND)
    await world.agent_dies()
    await until(lambda: any(world.folder.glob("tasks/*/exit.json")))
    assert "had TERM" not in world.output(0)
    await world.agent_starts()
    await until(lambda: not world.agent.tasks.running())


async def restored_and_waits(world: World) -> None:
    await stored(world)
    await world.step("end")
    await world.seen(reports.TaskReleasedReport)
    await world.starts("print('started anew')", 1, ref(world), **GANG)
    assert (await world.seen(reports.TaskRestoredReport)).waits
    world.go()


async def test_a_restored_task_stands_still_until_its_gang_continues(world: World) -> None:
    await restored_and_waits(world)
    before = moves(world)
    await world.agent_dies()
    await world.agent_starts()
    assert (await world.seen(reports.TaskRestoredReport, 2)).waits, "the next agent says it again"
    assert (world.output(1), moves(world)) == ("", before)
    for _ in range(2):
        await world.step("continue", 1)
    assert not (await world.seen(reports.TaskRestoredReport, 3)).waits
    await world.seen(reports.TaskExitedReport, 2)
    assert world.output(1) == "went on 2\n"


async def test_a_restored_task_never_runs_on_where_its_gang_starts_anew(world: World) -> None:
    await restored_and_waits(world)
    for _ in range(2):
        await world.step("anew", 1)
    failed = await world.seen(reports.TaskRestoreFailedReport)
    assert failed.reason == "another task of its gang was not restored"
    ended = await world.seen(reports.TaskExitedReport, 2)
    assert (ended.exit_code, world.output(1)) == (0, "started anew\n")
    assert len(world.of(reports.TaskStartedReport)) == 2


async def test_a_restored_task_that_is_evicted_before_its_gang_continues_ends_at_once(world: World) -> None:
    await restored_and_waits(world)
    await world.evict(1, save="job")
    assert (await world.seen(reports.TaskExitedReport, 2)).exit_code == -9
    assert world.output(1) == ""


async def test_a_restore_has_a_time_limit_of_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored(world)
    await world.step("end")
    await world.seen(reports.TaskReleasedReport)
    slow = world.folder / "slow-criu"
    slow.write_text(f'#!/bin/sh\n[ "$1" = restore ] && exec sleep 300\nexec {criu_program()} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(criu_requests, "RESTORED_WITHIN_S", 1)
    await world.agent_dies()
    world.criu = str(slow)
    await world.agent_starts()
    await world.starts("print('started anew')", 1, ref(world), **GANG)
    assert (await world.seen(reports.TaskRestoreFailedReport)).reason.startswith("it was not restored within")
    await world.seen(reports.TaskExitedReport, 2)
    assert world.output(1) == "started anew\n"


@pytest.mark.parametrize("when", ["frozen", "stored", "restored"])
async def test_with_its_supervisor_a_task_ends_however_far_its_gang_is(world: World, when: str) -> None:
    await {"frozen": frozen, "stored": stored, "restored": restored_and_waits}[when](world)
    before, ended = moves(world), len(world.of(reports.TaskExitedReport))
    [running] = (path for path in world.folder.glob("tasks/*/running.json") if not (path.parent / "exit.json").exists())
    os.kill(json.loads(running.read_text())["supervisor_pid"], signal.SIGKILL)
    exited = await world.seen(reports.TaskExitedReport, ended + 1)
    assert exited.unobserved
    assert (moves(world), world.output(1)) == (before, "")


async def test_a_killed_criu_ends_the_task_and_its_gang_is_told_so(world: World) -> None:
    world.criu = str(paused_criu(world.folder))
    await world.agent_dies()
    await world.agent_starts()
    await frozen(world)
    await world.step("dump")
    await until(lambda: (world.folder / "frozen").exists())
    kill_criu(world.images()[0])
    assert (await world.seen(reports.TaskExitedReport)).exit_code == -9
    assert world.stages()[-2:] == ["save_failed", "kill_sent"]
    assert "had TERM" not in world.output(0)


# --- while it runs


async def frozen_on_its_way(world: World) -> int:
    await world.starts_and_is_ready(COUNTS, **GANG)
    order = await world.save(together=True)
    await until(lambda: world.saving_stages(order) == ["frozen"])
    return order


async def test_a_task_that_goes_on_stands_still_only_until_it_is_dumped(world: World) -> None:
    order = await frozen_on_its_way(world)
    before = moves(world)
    await world.step("dump")
    await world.saved(order)
    await until(lambda: moves(world) > before)
    assert world.saving_stages(order) == ["frozen", "dumped", "stored"]


async def test_it_goes_on_where_another_task_of_its_gang_is_not_saved(world: World) -> None:
    order = await frozen_on_its_way(world)
    before = moves(world)
    await world.step("thaw")
    await world.saved(order, "save_failed")
    await until(lambda: moves(world) > before)
    assert world.why_not_saved() == "another task of its gang is not saved"


async def test_a_frozen_task_goes_on_with_the_next_agent(world: World) -> None:
    order = await frozen_on_its_way(world)
    await world.agent_dies()
    before = moves(world)
    await world.agent_starts()
    await world.save(again=True, together=True)
    await world.saved(order, "save_failed")
    await until(lambda: moves(world) > before)


async def test_an_eviction_ends_the_wait_of_a_frozen_task_and_saves_it_itself(world: World) -> None:
    order = await frozen_on_its_way(world)
    await world.evict(together=True)
    await world.saved(order, "save_failed")
    await until_stage(world, "frozen")
    before = moves(world)
    await world.step("dump")
    await until_stage(world, "stored")
    assert moves(world) == before
    await world.step("end")
    assert (await world.seen(reports.TaskExitedReport)).exit_code == -9
