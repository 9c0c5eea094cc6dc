"""A gang on one machine with CRIU whose tasks exchange numbers over TCP is saved and goes on. The test is the executor."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.kits.agent import carry_out
from tests.kits.criu import kill_criu, locked_connections, needs_criu, needs_nft, paused_criu
from tests.kits.saved_programs import EXCHANGES, PRELUDE
from tests.kits.saving_node import LONG, SECOND, World
from tests.kits.waiting import until

from bailiff_bus.messages.commands import (
    Evict,
    RemoveSnapshots,
    SnapshotRef,
    SnapshotStep,
    StartTask,
    TaskAssignment,
    TaskSnapshot,
)
from bailiff_bus.messages.reports import (
    EvictionStageReport,
    TaskExitedReport,
    TaskReleasedReport,
    TaskRestoredReport,
    TaskRestoreFailedReport,
)
from bailiff_core.model.job_spec import JobSpec
from bailiff_node_agent.runtime import Image
from bailiff_node_agent.snapshots import DiskImages

pytestmark = [pytest.mark.slow, needs_criu, needs_nft]
BOTH = (0, 1)


class Gang(World):
    """Two tasks of one job on one machine."""

    async def both_start(self, attempt: int = 0, restores: tuple[SnapshotRef | None, ...] = (None, None)) -> None:
        command = (sys.executable, "-I", "-S", "-c", PRELUDE + EXCHANGES)
        spec = JobSpec(command=command, working_dir=str(self.folder / "work"))
        tasks = tuple(TaskAssignment(task=each, rank=each, restore=restores[each]) for each in BOTH)
        about: dict[str, Any] = {"spec": spec, "grace": SECOND, "master_node": "n1", "checkpoint": "snapshot", "world_size": 2}
        await carry_out(self.agent, StartTask(sender="admission", **self._about(attempt), tasks=tasks, **about))

    async def told(self, step: str, attempt: int = 0, tasks: tuple[int, ...] = BOTH) -> None:
        about = {**self._about(attempt), "tasks": tasks, "step": step}
        await carry_out(self.agent, SnapshotStep(sender="executor", **about))

    async def frozen(self) -> None:
        await self.both_start()
        await until(lambda: all("ready" in self.log(each) for each in BOTH))
        about: dict[str, Any] = {
            "tasks": BOTH,
            "grace": LONG,
            "term_after": LONG,
            "cause": "preemption",
            "save": "snapshot",
            "together": True,
        }
        await carry_out(self.agent, Evict(sender="executor", **self._about(0), **about))
        await until(lambda: self.stages().count("frozen") == 2)

    async def both_stored(self) -> tuple[SnapshotRef, ...]:
        await self.frozen()
        await self.told("dump")
        await until(lambda: self.stages().count("stored") == 2)
        return self.refs()

    def refs(self) -> tuple[SnapshotRef, ...]:
        said = {each.task: each for each in self.of(EvictionStageReport) if each.stage == "stored"}
        return tuple(SnapshotRef(attempt=0, driver=said[i].driver, sha256=said[i].sha256, bytes=said[i].bytes) for i in BOTH)

    async def ended(self) -> tuple[SnapshotRef, ...]:
        refs = await self.both_stored()
        await self.told("end")
        await self.seen(TaskReleasedReport, 2)
        return refs

    def log(self, task: int, attempt: int = 0) -> str:
        path = self.folder / f"logs/job-{attempt}-{task}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
async def gang(tmp_path: Path) -> AsyncIterator[Gang]:
    before, gang = locked_connections(), Gang(tmp_path)
    await gang.agent_starts()
    yield gang
    runtime = gang.agent.context.runtimes["process"]
    for task in gang.agent.tasks.running():
        with suppress(Exception):
            await runtime.kill(task.key)
    await gang.agent_dies()
    assert locked_connections() - before == set(), "no connection of this machine stays locked"


async def test_both_ends_of_a_connection_are_restored_and_go_on(gang: Gang) -> None:
    refs = await gang.ended()
    assert not any("had TERM" in gang.log(each) for each in BOTH)
    await gang.both_start(1, refs)
    await until(lambda: sum(each.waits for each in gang.of(TaskRestoredReport)) == 2)
    gang.go()
    await gang.told("continue", 1)
    assert [(await gang.seen(TaskExitedReport, each)).exit_code for each in (3, 4)] == [0, 0]
    assert [gang.log(each, 1) for each in BOTH] == ["went on True\n"] * 2
    totals = [(gang.folder / f"work/total-{each}").read_text() for each in BOTH]
    rounds, total = map(int, totals[0].split())
    values = [1, 2]
    for _ in range(rounds):
        values = [(values[0] + 3 * values[1]) % 1_000_003] * 2
    assert totals == [f"{rounds} {values[0]}"] * 2, "as if nothing had happened"
    assert total == values[0]


@pytest.mark.parametrize("until_it_is", ["frozen", "stored"])
async def test_they_go_on_together_where_they_are_not_saved(gang: Gang, until_it_is: str) -> None:
    await (gang.frozen() if until_it_is == "frozen" else gang.both_stored())
    await gang.told("thaw")
    codes = {(await gang.seen(TaskExitedReport, each)).exit_code for each in (1, 2)}
    assert codes == {3}, [gang.log(each) for each in BOTH]
    assert all("had TERM" in gang.log(each) for each in BOTH), "no connection broke before"


async def test_where_one_is_not_restored_both_start_anew_and_nothing_stays_locked(gang: Gang) -> None:
    refs = await gang.ended()
    (gang.folder / "work/port").unlink()
    gang.go()
    damaged = refs[1].model_copy(update={"sha256": "0" * 64})
    await gang.both_start(1, (refs[0], damaged))
    await gang.seen(TaskRestoreFailedReport)
    await gang.told("anew", 1, (0,))
    assert [(await gang.seen(TaskExitedReport, each)).exit_code for each in (3, 4)] == [0, 0]
    assert [gang.log(each, 1) for each in BOTH] == ["went on False\n"] * 2
    await removed(gang, refs)


async def test_the_locks_of_a_job_that_never_comes_back_end_with_its_snapshots(gang: Gang) -> None:
    before = locked_connections()
    refs = await gang.ended()
    assert len(locked_connections() - before) == 2
    await removed(gang, refs)


async def test_after_a_restart_of_the_machine_its_connections_are_gone(gang: Gang) -> None:
    refs = await gang.ended()
    await gang.agent_dies()
    (gang.folder / "work/port").unlink()
    gang.go()
    await gang.agent_starts()
    object.__setattr__(gang.agent.context.incarnation, "boot_id", "another")
    await gang.both_start(1, refs)
    failed = await gang.seen(TaskRestoreFailedReport)
    assert "its TCP connections are gone" in failed.reason
    await gang.seen(TaskExitedReport, 4)
    await removed(gang, refs)


class Stops(DiskImages):
    """Comes to an end where the agent is killed: before an image is sealed, or before its digest is on record."""

    def __init__(self, staging: Path, *, seals: bool) -> None:
        super().__init__(staging)
        self.seals, self.reached = seals, 0

    async def seal(self, image: Image, facts: Mapping[str, Any]) -> tuple[str, int]:
        if self.seals:
            await super().seal(image, facts)
        self.reached += 1
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("ends", [True, False], ids=["they end meanwhile", "they are saved by the next agent"])
@pytest.mark.parametrize("seals", [False, True], ids=["dumped", "sealed"])
async def test_an_agent_that_is_killed_before_a_snapshot_is_on_record_leaves_no_lock(gang: Gang, seals: bool, ends: bool) -> None:
    await gang.agent_dies()
    images = Stops(gang.folder / "staging", seals=seals)
    await gang.agent_starts(images=images)
    await gang.frozen()
    await gang.told("dump")
    await until(lambda: images.reached == 2)
    await gang.agent_dies()
    assert len(gang.images()) == 2
    if ends:
        for task in gang.agent.tasks.running():
            await gang.agent.context.runtimes["process"].kill(task.key)
    await gang.agent_starts()
    if not ends:
        await until(lambda: gang.stages().count("stored") == 2)
        await gang.told("end")
    await gang.seen(TaskReleasedReport, 2)
    if ends:
        assert gang.images() == []
    else:
        gang.go()
        await gang.both_start(1, gang.refs())
        await until(lambda: sum(each.waits for each in gang.of(TaskRestoredReport)) == 2)
        await gang.told("continue", 1)
        assert [(await gang.seen(TaskExitedReport, each)).exit_code for each in (3, 4)] == [0, 0]


async def removed(gang: Gang, refs: tuple[SnapshotRef, ...]) -> None:
    """The job has ended."""
    kept = tuple(TaskSnapshot(job="job", attempt=0, task=each, sha256=refs[each].sha256) for each in BOTH)
    await carry_out(gang.agent, RemoveSnapshots(sender="admission", **gang._common(), snapshots=kept))
    await until(lambda: not gang.images())


@pytest.mark.parametrize("when", ["frozen", "stored", "restored"])
@pytest.mark.parametrize("who", ["agent", "supervisor"])
async def test_whoever_is_killed_no_end_runs_on_with_half_a_connection(gang: Gang, when: str, who: str) -> None:
    refs: tuple[SnapshotRef, ...] = ()
    if when == "restored":
        refs = await gang.ended()
        await gang.both_start(1, refs)
        await until(lambda: sum(each.waits for each in gang.of(TaskRestoredReport)) == 2)
    else:
        refs = await gang.both_stored() if when == "stored" else refs
        if when == "frozen":
            await gang.frozen()
    if who == "agent":
        await gang.agent_dies()
        await gang.agent_starts()
        if when == "restored":
            gang.go()
            await gang.told("continue", 1)
            assert [(await gang.seen(TaskExitedReport, each)).exit_code for each in (3, 4)] == [0, 0]
        else:
            await gang.told("thaw")
            assert {(await gang.seen(TaskExitedReport, each)).exit_code for each in (1, 2)} == {3}
    else:
        ended = len(gang.of(TaskExitedReport))
        running = [path for path in gang.folder.glob("tasks/*/running.json") if not (path.parent / "exit.json").exists()]
        os.kill(json.loads(running[0].read_text())["supervisor_pid"], signal.SIGKILL)
        assert (await gang.seen(TaskExitedReport, ended + 1)).unobserved
        await gang.told("anew" if when == "restored" else "thaw", int(when == "restored"))
    if refs:
        await removed(gang, refs)


async def test_a_killed_criu_leaves_no_lock(gang: Gang) -> None:
    gang.criu = str(paused_criu(gang.folder))
    await gang.agent_dies()
    await gang.agent_starts()
    await gang.frozen()
    await gang.told("dump")
    await until(lambda: (gang.folder / "frozen").exists())
    for image in gang.images():
        kill_criu(image)
    await gang.seen(TaskExitedReport)
    (gang.folder / "gate").touch()
    await gang.told("thaw")
    await gang.seen(TaskReleasedReport, 2)
    gang.agent.received(len(gang.sent) - 1)
    await until(lambda: not any(gang.folder.glob("tasks/*/task.json")))
