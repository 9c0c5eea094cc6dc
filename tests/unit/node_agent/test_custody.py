"""Devices that an agent gives to nobody: what its tasks leave behind, what strangers use, what breaks."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bailiff_bus.ambient import REAL
from bailiff_bus.messages import (
    ClearDevice,
    DeviceIsBroken,
    DeviceIsClean,
    DeviceIsDirty,
    DeviceWorks,
    Evict,
    Fence,
    JobSpec,
    NodeAnnounced,
    StartTask,
    TaskAt,
    TaskIsReleased,
    TaskIsRunning,
    TaskNotStarted,
    TaskOverShare,
)
from bailiff_bus.messages.commands import Order
from bailiff_bus.metrics import Metrics
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.custody import Custody, Left
from bailiff_node_agent.devices import SimulatedInventory, read_devices
from bailiff_node_agent.devices.__main__ import main as fault_command
from bailiff_node_agent.devices.simulated import start_of_process
from bailiff_node_agent.disk import Evictions, Fences, MemoryStorage, Reports, draw_incarnation
from bailiff_node_agent.machine import Machine
from bailiff_node_agent.reporting import read_report
from bailiff_node_agent.runtime import SimulatedMachine, SimulatedRuntime
from bailiff_node_agent.settings import NodeDeclaration

GPU, OTHER = "GPU-sim-n1-0", "GPU-sim-n1-1"
GIB = 1 << 30


@dataclass
class Host:
    """One machine with two simulated GPUs, which outlives its agents."""

    machine: SimulatedMachine
    storage: MemoryStorage
    faults: Path
    agent: Agent
    running: "asyncio.Task[None]"
    seq: int = 10

    def fault(self, text: str, device: int = 0) -> None:
        assert fault_command([str(self.faults), str(device), text]) == 0

    @property
    def common(self) -> dict[str, Any]:
        incarnation = self.agent.machine.incarnation.incarnation
        return {"node": "n1", "incarnation": incarnation, "sender": "admission", "sender_epoch": 1}

    async def start(self, job: str, *devices: str, on_term: str = "exit", **share: Any) -> None:
        self.seq += 1
        at = TaskAt(task=0, devices=devices, **share)
        spec = JobSpec(command="train", runtime="simulated", env={"BAILIFF_SIM_ON_TERM": on_term})
        rest: dict[str, Any] = {"grace": 0, "master_node": "n1", "tasks": (at,), "spec": spec}
        order = Order(epoch=1, seq=self.seq)
        await self.agent.obey(StartTask(**self.common, order=order, job=job, attempt=1, **rest))

    async def evict(self, job: str) -> None:
        self.seq += 1
        order = Order(epoch=1, seq=self.seq)
        await self.agent.obey(Evict(**self.common, order=order, job=job, attempt=1, tasks=(0,), grace=0, cause="preemption"))

    def said(self, *kinds: type) -> list[Any]:
        found = [read_report(report) for _, report in self.agent.machine.reports.unsent()]
        return [report for report in found if not kinds or isinstance(report, kinds)]

    async def says(self, kind: type, times: int = 1) -> Any:
        """The newest report of this kind, once there are so many."""
        async with asyncio.timeout(20):
            while len(self.said(kind)) < times:  # noqa: ASYNC110 - reports are a file, which nobody announces
                await asyncio.sleep(0.005)
        return self.said(kind)[-1]


def machine_of(host: SimulatedMachine, storage: MemoryStorage, faults: Path, boot: str) -> Machine:
    def identify(pid: int) -> int | None:
        return host.identify(pid) or start_of_process(pid)

    inventory = SimulatedInventory("2xH100-80GB", "n1", identify, faults)
    host.attach_devices(inventory)
    return Machine(
        node=NodeDeclaration(name="n1", domain="pool-a", gpus="2xH100-80GB"),
        inventory=inventory,
        runtimes={"simulated": SimulatedRuntime(host)},
        storage=storage,
        fences=Fences(storage),
        reports=Reports(storage),
        evictions=Evictions(storage),
        incarnation=replace(draw_incarnation(storage, machine_id="m1"), boot_id=boot),
        folder=Path("/nowhere"),
        release_poll_s=0.005,
        release_timeout_s=0.05,
        device_look_s=0.01,
    )


@pytest.fixture
async def begin(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    hosts: list[Host] = []

    async def begin(before: Host | None = None, boot: str = "b1") -> Host:
        """An agent on a new machine, or the next one where there was one before."""
        faults = before.faults if before else tmp_path / "faults.json"
        machine, storage = (before.machine, before.storage) if before else (SimulatedMachine(), MemoryStorage())
        agent = Agent(machine_of(machine, storage, faults, boot), REAL, Metrics(), lambda: None)
        await agent.adopt()
        host = Host(machine, storage, faults, agent, asyncio.ensure_future(agent.run()), before.seq if before else 10)
        hosts.append(host)
        await agent.obey(Fence(**host.common))
        return host

    yield begin
    for host in hosts:
        await stop(host)


async def stop(host: Host) -> None:
    host.running.cancel()
    await asyncio.gather(host.running, return_exceptions=True)


async def test_what_a_task_leaves_behind_is_quarantined_and_freed_once_it_is_gone(begin: Any) -> None:
    host = await begin()
    await host.start("leaky", GPU)
    host.fault(f"leak={GIB}")
    await host.evict("leaky")
    dirty = await host.says(DeviceIsDirty)
    assert (dirty.device, dirty.found.reason, dirty.found.job, dirty.found.reading.memory_used) == (GPU, "not-free", "leaky", GIB)
    assert dirty.found.detail == "after its task 1024 MiB of it are in use"
    released = await host.says(TaskIsReleased)  # the rest of its room is free: its processes are gone
    assert [reading.memory_used for reading in released.after] == [GIB]
    await host.start("next", GPU)
    assert "is quarantined" in (await host.says(TaskNotStarted)).reason
    await host.start("elsewhere", OTHER)
    await host.says(TaskIsRunning, 2)
    host.fault("heal")
    assert (await host.says(DeviceIsClean)).asked is None
    await host.start("after", GPU)
    await host.says(TaskIsRunning, 3)


async def test_who_left_a_device_dirty_is_nobody_else_on_it() -> None:
    """Between the quarantine and the end of its release a task is still on the device by name: that makes it no shared one."""
    inventory, said = SimulatedInventory("2xH100-80GB", "n1"), list[type]()
    on_it: dict[str, set[Any]] = {GPU: {("leaky", 1, 0)}}
    custody = Custody(inventory, MemoryStorage(), "b1", lambda kind, **_: said.append(kind), lambda: on_it)
    inventory.fail(GPU, leak_bytes=GIB)
    [reading] = read_devices(inventory, [GPU])
    custody.quarantine(reading, "not-free", "1024 MiB of it are in use", Left("leaky", 1, 0))
    await custody.look()
    assert said == [DeviceIsDirty]
    on_it[GPU].add(("sharer", 1, 0))
    await custody.look()
    assert said == [DeviceIsDirty, DeviceIsClean], "what a sharer uses says nothing"


async def test_a_device_that_hangs_with_its_task_is_quarantined(begin: Any) -> None:
    host = await begin()
    await host.start("job", GPU)
    host.fault("hang")
    await host.evict("job")
    dirty = await host.says(DeviceIsDirty)
    assert dirty.found.reading.processes == 1
    host.fault("heal")
    await host.says(DeviceIsClean)


async def test_an_agent_that_starts_anew_knows_what_is_dirty(begin: Any) -> None:
    host = await begin()
    await host.start("leaky", GPU)
    host.fault(f"leak={GIB}")
    await host.evict("leaky")
    await host.says(TaskIsReleased)
    await stop(host)
    after = await begin(host)
    [announced] = after.said(NodeAnnounced)[-1:]
    assert [(found.device, found.job) for found in announced.dirty] == [(GPU, "leaky")]
    await after.start("next", GPU)
    await after.says(TaskNotStarted)
    after.fault("heal")
    await after.says(DeviceIsClean)


async def test_a_stranger_on_a_device_is_found_at_the_start_and_before_a_start(begin: Any) -> None:
    host = await begin()
    with subprocess.Popen(["sleep", "300"]) as stranger:  # noqa: ASYNC220 - it returns at once
        host.agent.machine.inventory.hold(GPU, stranger.pid)
        await host.start("job", GPU)
        assert f"process {stranger.pid} (sleep)" in (await host.says(TaskNotStarted)).reason
        assert (await host.says(DeviceIsDirty)).found.reason == "foreign"
        stranger.kill()
    await host.says(DeviceIsClean)


async def test_memory_that_nobody_owns_up_to_keeps_a_task_from_starting(begin: Any) -> None:
    host = await begin()
    host.fault(f"leak={GIB}")
    await host.start("job", GPU)
    assert "1024 MiB of it are in use" in (await host.says(TaskNotStarted)).reason
    await host.says(DeviceIsDirty)


async def test_a_person_takes_a_device_back_as_it_is(begin: Any) -> None:
    host = await begin()
    await host.start("leaky", GPU)
    host.fault(f"leak={GIB}")
    await host.evict("leaky")
    await host.says(TaskIsReleased)
    await host.agent.obey(ClearDevice(**host.common, device=GPU, asked=77))
    assert (await host.says(DeviceIsClean)).asked == 77
    await host.start("next", GPU)
    await host.says(TaskIsRunning, 2)
    await host.evict("next")
    await host.says(TaskIsReleased, 2)  # what was there is its baseline now
    assert len(host.said(DeviceIsDirty)) == 1
    await stop(host)
    after = await begin(host)
    assert after.said(NodeAnnounced)[-1].dirty == ()  # the next agent goes by that word, too


async def test_an_agent_takes_no_stale_memory_for_what_is_normal(begin: Any) -> None:
    host = await begin()
    await stop(host)
    host.fault(f"leak={GIB}")
    after = await begin(host)
    [found] = after.said(NodeAnnounced)[-1].dirty
    assert (found.device, found.reason) == (GPU, "foreign")
    after.fault("heal")
    await after.says(DeviceIsClean)


async def test_a_device_that_dies_is_broken_and_works_again_when_it_is_back(begin: Any) -> None:
    host = await begin()
    host.fault("dead")
    assert (await host.says(DeviceIsBroken)).reason == "lost"
    await host.start("job", GPU)
    assert "broken" in (await host.says(TaskNotStarted)).reason
    host.fault("heal")
    await host.says(DeviceWorks)


async def test_an_xid_stands_over_agents_until_the_machine_boots(begin: Any) -> None:
    host = await begin()
    host.fault("xid=79")
    assert (await host.says(DeviceIsBroken)).code == 79
    host.fault("heal")
    await stop(host)
    after = await begin(host)
    facts = {each.id: (each.healthy, each.trouble) for each in after.said(NodeAnnounced)[-1].devices}
    assert facts == {GPU: (False, "Xid 79, simulated"), OTHER: (True, "")}
    await stop(after)
    booted = await begin(after, boot="b2")
    assert all(each.healthy for each in booted.said(NodeAnnounced)[-1].devices)


async def test_a_person_says_that_a_broken_device_was_looked_after(begin: Any) -> None:
    host = await begin()
    host.fault("xid=79")
    await host.says(DeviceIsBroken)
    await host.agent.obey(ClearDevice(**host.common, device=GPU, asked=5))
    await host.says(DeviceWorks)
    host.fault("dead", 1)
    await host.says(DeviceIsBroken, 2)
    await host.agent.obey(ClearDevice(**host.common, device=OTHER, asked=6))
    assert (await host.says(DeviceIsBroken, 3)).device == OTHER  # it still is, and that is the answer
    await host.agent.obey(ClearDevice(**host.common, device="GPU-nobody", asked=7))
    assert (await host.says(DeviceIsBroken, 4)).device == "GPU-nobody"


@pytest.mark.parametrize("arguments", [[], ["f", "0", "burn"], ["f", "x", "dead"], ["f", "0", "leak=much"]])
def test_a_fault_that_says_nothing_clear_changes_nothing(arguments: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert fault_command(arguments) == 2
    assert not Path("f").exists()


def test_faults_of_several_devices_stand_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    for arguments in (["0", "hang"], ["1", "xid=48"], ["0", "heal"]):
        assert fault_command([str(file), *arguments]) == 0
    assert json.loads(file.read_text()) == {"0": {}, "1": {"xid": 48}}


async def test_a_task_over_its_share_is_told_of(begin: Any) -> None:
    host = await begin()
    host.fault(f"use={50 * GIB}")
    await host.start("greedy", GPU, gpu_share_milli=500)
    over = await host.says(TaskOverShare)
    assert (over.job, over.device, over.used_bytes, over.share_bytes) == ("greedy", GPU, 50 * GIB, 40 * GIB)


async def test_the_release_of_a_sharer_is_its_own(begin: Any) -> None:
    """One leaves, the other one's memory says nothing about it; a dirty device is in nobody's way who is on it already."""
    host = await begin()
    await host.start("stays", GPU, gpu_share_milli=500)
    await host.start("leaves", GPU, gpu_share_milli=500)
    await host.evict("leaves")
    released = await host.says(TaskIsReleased)
    assert (released.job, host.said(DeviceIsDirty)) == ("leaves", [])
    assert released.after[0].processes == 1
    await host.start("hangs", GPU, gpu_share_milli=500)
    host.fault("hang")
    await host.evict("hangs")
    assert (await host.says(DeviceIsDirty)).found.job == "hangs"
    assert (await host.says(TaskIsReleased, 2)).job == "hangs"
    await host.start("late", GPU, gpu_share_milli=500)
    assert "quarantined" in (await host.says(TaskNotStarted)).reason
    host.fault("heal")
    await host.says(DeviceIsClean)  # although the one that stays is on it still
