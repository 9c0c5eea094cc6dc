"""A whole agent on a machine with a freezer, of cgroup v2 and of v1: evicted tasks stay in memory, and resume."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from tests.kits.agent import carry_out
from tests.kits.criu import needs_criu
from tests.kits.saving_node import LONG, World
from tests.kits.waiting import until

from bailiff_bus.messages import reports
from bailiff_bus.messages.commands import RemoveSnapshots, SendInventory, SnapshotRef, TaskSnapshot
from bailiff_node_agent.runtime import TaskKey
from bailiff_node_agent.runtime.freezer import GroupFreezer, OldFreezer
from bailiff_node_agent.runtime.process import cgroups_of
from bailiff_node_agent.settings import NodeDeclaration

pytestmark = pytest.mark.slow
COUNTS = """
signal.signal(signal.SIGCONT, lambda *_: print("had CONT", flush=True))
n = 0
print("ready", flush=True)
while True:
    n += 1
    Path_new = "counted.new"
    with open(Path_new, "w") as out:
        out.write(str(n))
    os.rename(Path_new, "counted")
    time.sleep(0.005)
"""
GROWS = """
print("ready", flush=True)
kept = []
while True:
    kept.append(bytearray(100_000))
"""
GIB, KEY = 1 << 30, TaskKey("job", 0, "0")


class Parking(World):
    """A node that keeps memory for parked tasks."""

    def __init__(self, folder: Path, freezer: str) -> None:
        super().__init__(folder)
        if freezer == "v2":
            self.cgroups = cgroups_of(folder)
            self.freezer = GroupFreezer(self.cgroups) if self.cgroups is not None else None
        else:
            self.freezer = OldFreezer.on_this_host(folder.name + str(os.getpid()))
        self.node = NodeDeclaration(name="n1", pool="pool-a", gpus="2xH100-80GB", parking_bytes=GIB)

    async def comes(self) -> None:
        await self.agent_starts(node=self.node)

    def counted(self) -> int:
        path = self.folder / "work/counted"
        return int(path.read_text()) if path.exists() else 0

    async def counts(self) -> None:
        """It goes on from here."""
        at = self.counted()
        await until(lambda: self.counted() > at + 2)

    async def stands_still(self) -> None:
        """It has no processor time any more."""
        pids = self.pids()
        assert pids
        before, at = [*map(_cpu, pids)], self.counted()
        await asyncio.sleep(0)
        for _ in range(20):
            await self._command(SendInventory(sender="admission", **self._common()))
        assert ([*map(_cpu, pids)], self.counted()) == (before, at)

    def pids(self, attempt: int = 0) -> tuple[int, ...]:
        key = next(task.key for task in self.agent.tasks)
        runtime = self.agent.context.runtimes["process"]
        return tuple(process.pid for process in runtime._tree(key))  # type: ignore[attr-defined]

    async def _command(self, command: SendInventory) -> None:
        await carry_out(self.agent, command)

    async def parked(self, count: int = 1) -> SnapshotRef:
        await self.seen(reports.TaskReleasedReport, count)
        said = [each for each in self.of(reports.EvictionStageReport) if each.stage == "parked"][-1]
        return SnapshotRef(attempt=said.attempt, driver=said.driver, sha256=said.sha256, bytes=said.bytes)

    async def is_parked(self, program: str = COUNTS) -> SnapshotRef:
        await self.starts_and_is_ready(program)
        await self.evict(park=True)
        return await self.parked()

    async def is_gone(self) -> None:
        """Nothing of it is left, and the log knows it."""
        await until(lambda: all(task.state == "released" for task in self.agent.tasks))
        self.agent.received(self.agent.context.reports.next_number - 1)
        await until(lambda: not [*(self.folder / "tasks").iterdir()])

    def inventory(self) -> reports.NodeInventory:
        found: reports.NodeInventory = self.of(reports.NodeInventory)[-1]
        return found


def _cpu(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.fixture(params=["v2", "v1"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Parking]:
    world = Parking(tmp_path, request.param)
    if world.freezer is None:
        pytest.skip(f"this host has no freezer of cgroup {request.param} that this user may use")
    await world.comes()
    yield world
    runtime = world.agent.context.runtimes["process"]
    for task in world.agent.tasks:
        with suppress(Exception):
            await runtime.kill(task.key)
    await until(lambda: all(task.state in ("exited", "released") for task in world.agent.tasks))
    await world.agent_dies()
    for key in [task.key for task in world.agent.tasks]:  # its cgroups stay while nobody forgets it
        for each in (world.freezer, world.cgroups):
            if each is not None:
                each.remove(key)


async def test_an_evicted_task_stays_in_memory_and_goes_on_in_its_next_attempt(world: Parking) -> None:
    parked = await world.is_parked()
    assert world.stages() == ["noticed", "frozen", "parked"]
    assert world.of(reports.TaskExitedReport) == []
    await world.stands_still()
    assert parked.driver == "park"
    assert parked.bytes > 1 << 20
    at, pids = world.counted(), world.pids()
    await world.starts("print('started anew')", 1, parked)
    restored = await world.seen(reports.TaskRestoredReport)
    assert (restored.attempt, restored.from_attempt, restored.driver, restored.bytes) == (1, 0, "park", parked.bytes)
    await world.counts()
    assert (world.counted() > at, world.pids()) == (True, pids)
    assert world.output(0) == "ready\n"  # it has noticed nothing


async def test_what_it_takes_until_it_stands_still_counts(world: Parking) -> None:
    parked = await world.is_parked(GROWS)
    runtime, key = world.agent.context.runtimes["process"], next(task.key for task in world.agent.tasks)
    assert parked.bytes == runtime.memory(key) == world.agent.context.parking.held_bytes


async def test_it_is_parked_again_and_ends_as_its_newest_attempt(world: Parking) -> None:
    await world.starts("print('x')", 1, await world.is_parked())
    await world.counts()
    await world.evict(1, park=True)
    again = await world.parked(2)
    assert again.attempt == 1
    await world.stands_still()
    await world.starts("print('x')", 2, again)
    await world.counts()
    os.kill(world.pids()[-1], signal.SIGKILL)
    released = await world.seen(reports.TaskReleasedReport, 3)
    assert (released.attempt, world.of(reports.TaskExitedReport)[-1].attempt) == (2, 2)
    await world.is_gone()
    assert world.agent.context.parking.get("job-0-0") is None


async def test_the_next_agent_keeps_it_parked_and_resumes_it(world: Parking) -> None:
    parked = await world.is_parked()
    await world.agent_dies()
    await world.comes()
    [tracked] = world.inventory().tasks
    assert (tracked.state, tracked.parked, [each.stage for each in tracked.stages][-1]) == ("released", True, "parked")
    await world.stands_still()
    await world.starts("print('x')", 1, parked)
    await world.counts()
    await world.agent_dies()
    await world.comes()
    [tracked] = world.inventory().tasks
    assert (tracked.state, tracked.parked, tracked.attempt) == ("running", False, 1)
    assert (await world.seen(reports.TaskRestoredReport, 2)).attempt == 1
    await world.counts()


async def test_an_agent_that_dies_while_it_resumes_it_is_followed_by_one_that_does(world: Parking) -> None:
    await world.is_parked()
    world.agent.context.parking.resume("job-0-0", 1, 99)
    await world.agent_dies()
    await world.comes()
    await world.counts()
    assert (await world.seen(reports.TaskRestoredReport)).attempt == 1


async def test_a_parked_task_that_ends_is_on_record(world: Parking) -> None:
    await world.is_parked()
    await world.agent.context.runtimes["process"].kill(next(task.key for task in world.agent.tasks))
    lost = await world.seen(reports.SnapshotStageReport)
    assert (lost.stage, lost.driver, lost.attempt, lost.reason) == ("park_lost", "park", 0, "its processes have ended")
    assert world.of(reports.TaskExitedReport) == []


async def test_one_that_ended_without_the_agent_is_not_in_its_inventory(world: Parking) -> None:
    parked = await world.is_parked()
    runtime, key = world.agent.context.runtimes["process"], next(task.key for task in world.agent.tasks)
    await world.agent_dies()
    await runtime.kill(key)
    await until(lambda: (world.folder / "tasks/job-0-0/exit.json").exists())
    await world.comes()
    assert not any(each.parked for each in world.inventory().tasks)
    await world.starts("print('started anew')", 1, parked)
    failed = await world.seen(reports.TaskRestoreFailedReport)
    assert failed.reason == "its parked processes are not here any more"
    await until(lambda: "started anew" in world.output(1))


async def test_one_that_nobody_needs_ends(world: Parking) -> None:
    parked = await world.is_parked()
    for sha256 in ("0" * 64, parked.sha256):
        snapshots = (TaskSnapshot(job="job", attempt=0, task=0, sha256=sha256),)
        await carry_out(world.agent, RemoveSnapshots(sender="admission", **world._common(), snapshots=snapshots))
    await world.is_gone()
    assert world.of(reports.SnapshotStageReport) == []
    assert world.agent.context.parking.held_bytes == 0


async def test_where_the_memory_for_parked_tasks_is_in_use_it_goes_on_to_term(world: Parking) -> None:
    await world.agent_dies()
    world.node = world.node.model_copy(update={"parking_bytes": 1 << 20})
    await world.comes()
    await world.starts_and_is_ready(COUNTS)
    await world.evict(park=True, save="job")
    await world.seen(reports.TaskExitedReport)
    assert world.stages()[:3] == ["noticed", "park_failed", "term_sent"]
    [failed] = [each for each in world.of(reports.EvictionStageReport) if each.stage == "park_failed"]
    assert failed.reason.endswith("and 1MiB of the memory for parked tasks are free")


@needs_criu
async def test_a_parked_task_is_saved_to_disk_and_goes_on_from_there(world: Parking) -> None:
    await world.is_parked()
    at = world.counted()
    order = await world.save()
    stored = await world.saved(order)
    assert world.saving_stages(order) == ["frozen", "dumped", "stored"]
    assert (stored.driver, world.counted()) == ("criu", at)  # it has not run in between
    await world.stands_still()
    await world.starts("print('started anew')", 1, stored)
    await until(lambda: all(task.state != "parked" for task in world.agent.tasks))
    assert world.of(reports.TaskExitedReport) == []
    await until(lambda: world.of(reports.TaskRestoredReport) or world.of(reports.TaskRestoreFailedReport))
    assert world.of(reports.TaskRestoreFailedReport) == []
    assert (await world.seen(reports.TaskRestoredReport)).waits  # as all that was frozen, until the log says that it is
    assert world.counted() == at
    await world.step("continue", 1)
    await world.counts()
    assert world.counted() > at


@needs_criu
async def test_who_starts_while_it_is_saved_goes_on_from_memory(world: Parking) -> None:
    parked = await world.is_parked()
    order = await world.save()
    await world.saved(order, "frozen")
    await world.starts("print('started anew')", 1, parked)
    restored = await world.seen(reports.TaskRestoredReport)
    assert restored.driver == "park"
    await world.counts()
    assert world.saving_stages(order) == ["frozen", "dumped", "stored"]


@needs_criu
async def test_one_that_cannot_be_saved_stays_parked(world: Parking) -> None:
    held = "server = socket.create_server(('127.0.0.1', 0))\nheld = socket.create_connection(server.getsockname())\n"
    parked = await world.is_parked(held + COUNTS)
    order = await world.save()
    await world.saved(order, "save_failed")
    assert "open TCP connection" in world.why_not_saved()
    await world.stands_still()
    await world.starts("print('x')", 1, parked)
    await world.counts()


async def test_the_lease_of_a_node_ends_parked_tasks_too(world: Parking) -> None:
    await world.is_parked()
    world.agent._evictions.evict_all(LONG, "the lease expired")
    await world.is_gone()


def test_a_task_that_starts_processes_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff_node_agent.runtime.freezer.WITHIN_S", 0.01)
    freezer = OldFreezer(tmp_path, tmp_path)
    folder = tmp_path / str(KEY)
    folder.mkdir()
    (folder / "cgroup.procs").touch()
    started = count(1)
    with pytest.raises(TimeoutError, match="start others faster"):
        freezer.freeze(KEY, lambda: [next(started)])
    assert not (folder / "freezer.state").exists()
