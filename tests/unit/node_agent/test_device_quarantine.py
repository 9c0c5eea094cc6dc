"""Devices that an agent quarantines: leftover memory, foreign processes, faults."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.kits.agent import carry_out, context_on
from tests.kits.waiting import until

from bailiff_bus.messages.commands import Evict, Fence, RecordRef, StartTask, TaskAssignment
from bailiff_bus.messages.devices import (
    ClearDevice,
    DeviceClearedReport,
    DeviceHealthyReport,
    DeviceQuarantinedReport,
    DeviceUnhealthyReport,
    ShareExceededReport,
)
from bailiff_bus.messages.reports import NodeInventory, TaskReleasedReport, TaskStartedReport, TaskStartRefusedReport
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.simulated_node import SimulatedInventory, SimulatedMachine, SimulatedRuntime
from bailiff_devstack.simulated_node.__main__ import main as fault_command
from bailiff_devstack.simulated_node.devices import identity_of
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.device_quarantine import DeviceQuarantine, LastUser
from bailiff_node_agent.devices import DeviceUsage, prove_release, read_devices
from bailiff_node_agent.disk import MemoryStorage, new_incarnation
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime import Pod
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

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
        incarnation = self.agent.context.incarnation.incarnation
        return {"node": "n1", "incarnation": incarnation, "sender": "admission", "sender_epoch": 1}

    async def start(self, job: str, *devices: str, on_term: str = "exit", **share: Any) -> None:
        self.seq += 1
        at = TaskAssignment(task=0, devices=devices, **share)
        spec = JobSpec(command="train", runtime="simulated", env={"BAILIFF_SIM_ON_TERM": on_term})
        rest: dict[str, Any] = {"grace": 0, "master_node": "n1", "tasks": (at,), "spec": spec}
        ordered_by = RecordRef(epoch=1, seq=self.seq)
        await carry_out(self.agent, StartTask(**self.common, ordered_by=ordered_by, job=job, attempt=1, **rest))

    async def evict(self, job: str) -> None:
        self.seq += 1
        ordered_by = RecordRef(epoch=1, seq=self.seq)
        await carry_out(
            self.agent, Evict(**self.common, ordered_by=ordered_by, job=job, attempt=1, tasks=(0,), grace=0, cause="preemption")
        )

    def messages(self, *kinds: type) -> list[Any]:
        found = [decode_report(report) for _, report in self.agent.context.reports.unsent()]
        return [report for report in found if not kinds or isinstance(report, kinds)]

    async def says(self, kind: type, times: int = 1) -> Any:
        """Waits for this many reports of this kind; returns the newest."""
        await until(lambda: len(self.messages(kind)) >= times)
        return self.messages(kind)[-1]


def machine_of(host: SimulatedMachine, storage: MemoryStorage, faults: Path, boot: str) -> AgentContext:
    def identify(pid: int) -> int | None:
        return host.identify(pid) or identity_of(pid)

    inventory = SimulatedInventory("2xH100-80GB", "n1", identify, faults)
    host.attach_devices(inventory)
    return context_on(
        storage,
        inventory=inventory,
        runtimes={"simulated": SimulatedRuntime(host)},
        incarnation=replace(new_incarnation(storage, machine_id="m1"), boot_id=boot),
        release_poll_s=0.005,
        release_timeout_s=0.05,
        device_poll_s=0.01,
    )


@pytest.fixture
async def begin(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    hosts: list[Host] = []

    async def begin(before: Host | None = None, boot: str = "b1") -> Host:
        """An agent on a new machine, or the next one where there was one before."""
        faults = before.faults if before else tmp_path / "faults.json"
        machine, storage = (before.machine, before.storage) if before else (SimulatedMachine(), MemoryStorage())
        agent = Agent(machine_of(machine, storage, faults, boot), SYSTEM, Metrics(), lambda: None)
        await agent.adopt()
        host = Host(machine, storage, faults, agent, asyncio.ensure_future(agent.run()), before.seq if before else 10)
        hosts.append(host)
        await carry_out(agent, Fence(**host.common))
        return host

    yield begin
    for host in hosts:
        await stop(host)


async def stop(host: Host) -> None:
    host.running.cancel()
    await asyncio.gather(host.running, return_exceptions=True)


def test_what_a_pod_holds_as_the_agent_starts_is_no_foreign_memory() -> None:
    """It may be a task whose pod is bound, and whose GPUs the agent before had not read yet. `watch_foreign_pods` knows."""

    class Held(SimulatedInventory):
        def usage(self, device_id: str) -> DeviceUsage:
            return DeviceUsage(GIB, (), pods=(("team-a", "pod-1"),) if device_id == GPU else ())

    inventory = Held("2xH100-80GB", "n1")
    quarantine = DeviceQuarantine(inventory, MemoryStorage(), "boot", lambda *_, **__: None, dict)
    quarantine.start()
    assert {*quarantine.quarantined} == {OTHER}, "where no pod has it, its memory is of a process"
    assert GPU not in quarantine.baseline, "and is not what the driver keeps of an unused GPU"


async def test_a_device_with_memory_in_use_after_its_task_is_quarantined_until_it_is_free(begin: Any) -> None:
    host = await begin()
    await host.start("leaky", GPU)
    host.fault(f"leak={GIB}")
    await host.evict("leaky")
    dirty = await host.says(DeviceQuarantinedReport)
    found = dirty.quarantine
    assert (dirty.device, found.reason, found.job, found.reading.memory_used) == (GPU, "not-free", "leaky", GIB)
    assert dirty.quarantine.detail == "after its task 1024 MiB are in use"
    released = await host.says(TaskReleasedReport)  # its other resources are free: its processes are gone
    assert [reading.memory_used for reading in released.after] == [GIB]
    await host.start("next", GPU)
    assert "is quarantined" in (await host.says(TaskStartRefusedReport)).reason
    await host.start("elsewhere", OTHER)
    await host.says(TaskStartedReport, 2)
    host.fault("heal")
    assert (await host.says(DeviceClearedReport)).requested_by is None
    await host.start("after", GPU)
    await host.says(TaskStartedReport, 3)


async def test_only_the_last_user_keeps_a_shared_device_quarantined() -> None:
    """Between the quarantine and the end of its release a task is still on the device by name: that makes it no shared one."""
    inventory, sent = SimulatedInventory("2xH100-80GB", "n1"), list[type]()
    on_it: dict[str, set[Any]] = {GPU: {("leaky", 1, 0)}}
    quarantine = DeviceQuarantine(inventory, MemoryStorage(), "b1", lambda kind, **_: sent.append(kind), lambda: on_it)
    inventory.fail(GPU, leak_bytes=GIB)
    [reading] = read_devices(inventory, [GPU])
    quarantine.quarantine(reading, "not-free", "1024 MiB are in use", LastUser("leaky", 1, 0))
    await quarantine.check()
    assert sent == [DeviceQuarantinedReport]
    on_it[GPU].add(("sharer", 1, 0))
    await quarantine.check()
    assert sent == [DeviceQuarantinedReport, DeviceClearedReport], "what a sharer uses says nothing"


class HeldByPods(SimulatedInventory):
    """A kubelet gives them out. pods: those that have the first one."""

    pods: tuple[Pod, ...] = ()

    def usage(self, device_id: str) -> DeviceUsage:
        return replace(super().usage(device_id), pods=self.pods if device_id == GPU else ())


async def test_the_pod_that_keeps_a_shared_device_quarantined_is_still_known_to_the_next_agent() -> None:
    """Tasks share it with a pod of somebody else, or with one of their own whose end its kubelet does not see."""
    inventory, storage, sent = HeldByPods("1xH100-80GB", "n1"), MemoryStorage(), list[type]()
    foreign, own = ("team-a", "p"), ("jobs", "own")
    inventory.pods = (own, foreign)

    def agent() -> DeviceQuarantine:
        return DeviceQuarantine(inventory, storage, "b1", lambda kind, **_: sent.append(kind), lambda: {GPU: {("serve", 1, 0)}})

    [reading] = read_devices(inventory, [GPU])
    agent().quarantine(reading, "foreign", "the pod team-a/p has it", LastUser(pod=foreign))
    second = agent()
    await second.check()
    assert sent == [DeviceQuarantinedReport]
    inventory.pods = (own,)
    await second.check()
    assert sent == [DeviceQuarantinedReport, DeviceClearedReport]

    proof = await prove_release(inventory, [GPU], lambda: asyncio.sleep(0, ()), {}, 0.01, 0.001, shared=True, pod=own)
    second.not_free(proof, LastUser("other", 1, 0, pod=own))
    assert second.quarantined[GPU].detail == "after its task the kubelet still lists its pod"
    await second.check()
    inventory.pods = ()
    await second.check()
    assert sent[2:] == [DeviceQuarantinedReport, DeviceClearedReport]


async def test_a_device_that_hangs_with_its_task_is_quarantined(begin: Any) -> None:
    host = await begin()
    await host.start("job", GPU)
    host.fault("hang")
    await host.evict("job")
    dirty = await host.says(DeviceQuarantinedReport)
    assert dirty.quarantine.reading.processes == 1
    host.fault("heal")
    await host.says(DeviceClearedReport)


async def test_an_agent_that_starts_anew_knows_what_is_dirty(begin: Any) -> None:
    host = await begin()
    await host.start("leaky", GPU)
    host.fault(f"leak={GIB}")
    await host.evict("leaky")
    await host.says(TaskReleasedReport)
    await stop(host)
    after = await begin(host)
    [to_report] = after.messages(NodeInventory)[-1:]
    assert [(found.device, found.job) for found in to_report.quarantined] == [(GPU, "leaky")]
    await after.start("next", GPU)
    await after.says(TaskStartRefusedReport)
    after.fault("heal")
    await after.says(DeviceClearedReport)


async def test_a_foreign_process_on_a_device_is_found_at_agent_start_and_before_a_task_start(begin: Any) -> None:
    host = await begin()
    with subprocess.Popen(["sleep", "300"]) as stranger:  # noqa: ASYNC220 - it returns at once
        host.agent.context.inventory.attach(GPU, stranger.pid)
        await host.start("job", GPU)
        assert f"process {stranger.pid} (sleep)" in (await host.says(TaskStartRefusedReport)).reason
        assert (await host.says(DeviceQuarantinedReport)).quarantine.reason == "foreign"
        stranger.kill()
    await host.says(DeviceClearedReport)


async def test_memory_in_use_by_unknown_processes_prevents_a_start(begin: Any) -> None:
    host = await begin()
    host.fault(f"leak={GIB}")
    await host.start("job", GPU)
    assert "1024 MiB are in use" in (await host.says(TaskStartRefusedReport)).reason
    await host.says(DeviceQuarantinedReport)


async def test_an_operator_clears_a_device_as_it_is(begin: Any) -> None:
    host = await begin()
    await host.start("leaky", GPU)
    host.fault(f"leak={GIB}")
    await host.evict("leaky")
    await host.says(TaskReleasedReport)
    await carry_out(host.agent, ClearDevice(**host.common, device=GPU, requested_by=77))
    assert (await host.says(DeviceClearedReport)).requested_by == 77
    await host.start("next", GPU)
    await host.says(TaskStartedReport, 2)
    await host.evict("next")
    await host.says(TaskReleasedReport, 2)  # what was there is its baseline now
    assert len(host.messages(DeviceQuarantinedReport)) == 1
    await stop(host)
    after = await begin(host)
    assert after.messages(NodeInventory)[-1].quarantined == ()  # the next agent goes by that word, too


async def test_a_new_agent_does_not_take_leaked_memory_for_the_baseline(begin: Any) -> None:
    host = await begin()
    await stop(host)
    host.fault(f"leak={GIB}")
    after = await begin(host)
    [found] = after.messages(NodeInventory)[-1].quarantined
    assert (found.device, found.reason) == (GPU, "foreign")
    after.fault("heal")
    await after.says(DeviceClearedReport)


async def test_a_device_that_dies_is_broken_and_works_again_when_it_is_back(begin: Any) -> None:
    host = await begin()
    host.fault("dead")
    assert (await host.says(DeviceUnhealthyReport)).reason == "lost"
    await host.start("job", GPU)
    assert "unhealthy" in (await host.says(TaskStartRefusedReport)).reason
    host.fault("heal")
    await host.says(DeviceHealthyReport)


async def test_an_xid_holds_across_agents_until_a_reboot(begin: Any) -> None:
    host = await begin()
    host.fault("xid=79")
    assert (await host.says(DeviceUnhealthyReport)).code == 79
    host.fault("heal")
    await stop(host)
    after = await begin(host)
    facts = {each.id: (each.healthy, each.fault) for each in after.messages(NodeInventory)[-1].devices}
    assert facts == {GPU: (False, "Xid 79, simulated"), OTHER: (True, "")}
    await stop(after)
    booted = await begin(after, boot="b2")
    assert all(each.healthy for each in booted.messages(NodeInventory)[-1].devices)


async def test_an_operator_clears_an_unhealthy_device(begin: Any) -> None:
    host = await begin()
    host.fault("xid=79")
    await host.says(DeviceUnhealthyReport)
    await carry_out(host.agent, ClearDevice(**host.common, device=GPU, requested_by=5))
    await host.says(DeviceHealthyReport)
    host.fault("dead", 1)
    await host.says(DeviceUnhealthyReport, 2)
    await carry_out(host.agent, ClearDevice(**host.common, device=OTHER, requested_by=6))
    assert (await host.says(DeviceUnhealthyReport, 3)).device == OTHER  # it still is, and that is the answer
    await carry_out(host.agent, ClearDevice(**host.common, device="GPU-nobody", requested_by=7))
    assert (await host.says(DeviceUnhealthyReport, 4)).device == "GPU-nobody"


@pytest.mark.parametrize("arguments", [[], ["f", "0", "burn"], ["f", "x", "dead"], ["f", "0", "leak=much"]])
def test_a_malformed_fault_changes_nothing(arguments: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert fault_command(arguments) == 2
    assert not Path("f").exists()


def test_faults_of_several_devices_stand_in_one_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    for arguments in (["0", "hang"], ["1", "xid=48"], ["0", "heal"]):
        assert fault_command([str(file), *arguments]) == 0
    assert json.loads(file.read_text()) == {"0": {}, "1": {"xid": 48}}


async def test_a_task_over_its_share_is_reported(begin: Any) -> None:
    host = await begin()
    host.fault(f"use={50 * GIB}")
    await host.start("greedy", GPU, gpu_share_milli=500)
    over = await host.says(ShareExceededReport)
    assert (over.job, over.device, over.used_bytes, over.share_bytes) == ("greedy", GPU, 50 * GIB, 40 * GIB)


async def test_a_task_on_a_shared_device_is_released_alone(begin: Any) -> None:
    """One is released although the other uses memory; a quarantined device does not affect tasks already on it."""
    host = await begin()
    await host.start("stays", GPU, gpu_share_milli=500)
    await host.start("leaves", GPU, gpu_share_milli=500)
    await host.evict("leaves")
    released = await host.says(TaskReleasedReport)
    assert (released.job, host.messages(DeviceQuarantinedReport)) == ("leaves", [])
    assert released.after[0].processes == 1
    await host.start("hangs", GPU, gpu_share_milli=500)
    host.fault("hang")
    await host.evict("hangs")
    assert (await host.says(DeviceQuarantinedReport)).quarantine.job == "hangs"
    assert (await host.says(TaskReleasedReport, 2)).job == "hangs"
    await host.start("late", GPU, gpu_share_milli=500)
    assert "quarantined" in (await host.says(TaskStartRefusedReport)).reason
    host.fault("heal")
    await host.says(DeviceClearedReport)  # although the one that stays is on it still
