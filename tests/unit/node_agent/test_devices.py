"""GPUs: inventory, processes on them, and when one may be allocated again."""

import asyncio
import ctypes
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.kits.mps import named_process
from tests.kits.nvml_cards import Card, FunctionNotFound, Machine, NotSupported, NVMLError

from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent.devices import (
    Device,
    DeviceProblem,
    DeviceReading,
    DeviceUnavailable,
    DeviceUsage,
    NoDriver,
    NvmlInventory,
    prove_release,
    system_programs,
)

MIB = 1 << 20
GIB = 1 << 30

# --- simulated


def test_the_setting_names_the_simulated_devices() -> None:
    devices = SimulatedInventory("4xA100-40GB", "rack1-n7").list()
    assert [device.id for device in devices] == [f"GPU-sim-rack1-n7-{index}" for index in range(4)]
    assert devices[2] == Device(
        index=2,
        id="GPU-sim-rack1-n7-2",
        kind="gpu",
        model="A100-40GB",
        memory=40 * GIB,
        parent=None,
        healthy=True,
        labels={"simulated": "true"},
    )
    assert SimulatedInventory("0", "n1").list() == []


@pytest.mark.parametrize("name", ["", "0xH100-80GB", "8xH100", "H100-80GB", "8xH100-80", "8xH100-80GB ", "-1xA-1GB"])
def test_a_malformed_setting_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="8xH100-80GB"):
        SimulatedInventory(name, "n1")


def test_an_attached_process_uses_its_device_until_it_is_detached() -> None:
    inventory = SimulatedInventory("2xH100-80GB", "n1")
    gpu = "GPU-sim-n1-0"
    inventory.attach(gpu, os.getpid())
    assert inventory.usage(gpu) == DeviceUsage(80 * GIB, (os.getpid(),))
    assert inventory.usage("GPU-sim-n1-1") == DeviceUsage(0, ())
    inventory.detach(gpu, os.getpid())
    inventory.detach(gpu, os.getpid())
    assert inventory.usage(gpu) == DeviceUsage(0, ())


def test_an_exited_process_uses_no_device() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1")
    with subprocess.Popen(["sleep", "300"]) as holder:
        inventory.attach("GPU-sim-n1-0", holder.pid)
        assert inventory.usage("GPU-sim-n1-0").pids == (holder.pid,)
        holder.kill()
    assert inventory.usage("GPU-sim-n1-0").pids == ()


def test_a_pid_that_is_used_again_holds_nothing() -> None:
    identity = {7: 100}
    inventory = SimulatedInventory("1xH100-80GB", "n1", identify=identity.get)
    inventory.attach("GPU-sim-n1-0", 7)
    identity[7] = 200
    assert inventory.usage("GPU-sim-n1-0").pids == ()


def test_a_simulated_device_can_break_and_be_repaired() -> None:
    inventory = SimulatedInventory("2xH100-80GB", "n1")
    inventory.set_health("GPU-sim-n1-1", healthy=False)
    assert [device.healthy for device in inventory.list()] == [True, False]
    inventory.set_health("GPU-sim-n1-1", healthy=True)
    assert [device.healthy for device in inventory.list()] == [True, True]


def test_an_unknown_device_is_an_error_and_not_a_free_one() -> None:
    with pytest.raises(DeviceUnavailable, match="GPU-9"):
        SimulatedInventory("2xH100-80GB", "n1").usage("GPU-9")


# --- release


class Scripted:
    """An inventory whose readings are given one after the other; the last one stays."""

    def __init__(self, *readings: DeviceUsage | DeviceUnavailable) -> None:
        self.readings = list(readings)
        self.blocking = False

    def list(self) -> list[Device]:
        return []

    def usage(self, device_id: str) -> DeviceUsage:
        reading = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        if isinstance(reading, DeviceUnavailable):
            raise reading
        return reading


async def nobody() -> tuple[int, ...]:
    return ()


async def test_a_shared_device_is_released_when_the_kubelet_lists_the_tasks_own_pod_no_more() -> None:
    """Others go on: their memory, their processes and their pods say nothing."""
    own, other = ("jobs", "own"), ("jobs", "other")
    both, left = DeviceUsage(60 * GIB, (9,), pods=(other, own)), DeviceUsage(60 * GIB, (9,), pods=(other,))
    proof = await prove_release(Scripted(both, both, left), ["g"], nobody, {}, 10, 0.001, shared=True, pod=own)
    assert proof.free
    assert [reading.pods for reading in (*proof.before, *proof.after)] == [both.pods, left.pods]

    stays = await prove_release(Scripted(both), ["g"], nobody, {}, 0.01, 0.001, shared=True, pod=own)
    assert (stays.free, [reading.device_id for reading in stays.not_free]) == (False, ["g"])


@pytest.mark.parametrize(
    ("readings", "task", "free", "blockers"),
    [
        pytest.param([DeviceUsage(60 * GIB, (7,)), DeviceUsage(0, ())], {}, True, (), id="process and memory are gone"),
        pytest.param([DeviceUsage(60 * GIB, (9,))], {}, False, (9,), id="a process that stays is named"),
        pytest.param([DeviceUsage(115 * GIB, ())], {}, False, (), id="memory of unknown processes"),
        pytest.param([DeviceUsage(0, ())], {"living": (7,)}, False, (7,), id="a living process of the task, and an empty device"),
        pytest.param([DeviceUsage(0, (7,))], {"seen_pids": [7]}, False, (7,), id="its process is on the device without memory"),
        pytest.param([DeviceUsage(200 * MIB, (3,))], {"baseline": 190 * MIB}, True, (), id="a process that was there before"),
        pytest.param([DeviceUsage(600 * MIB, ())], {"baseline": 580 * MIB}, True, (), id="memory as before, but for some"),
        pytest.param([DeviceUnavailable("off the bus")], {}, False, (), id="a device that cannot be read"),
    ],
)
async def test_a_device_is_free_when_nothing_of_its_task_is_left(
    readings: list[Any], task: dict[str, Any], free: bool, blockers: tuple[int, ...]
) -> None:
    living, baseline = task.pop("living", ()), task.pop("baseline", 0)
    proof = await prove_release(
        Scripted(*readings), ["g"], lambda: asyncio.sleep(0, living), {"g": baseline}, 0.05, 0.001, **task
    )
    assert (proof.free, proof.blockers) == (free, blockers)


async def test_the_proof_has_the_readings_from_before_the_exit_and_from_its_end() -> None:
    before, busy = (DeviceReading("g", 60 * GIB, (7,)),), DeviceUsage(3 * GIB, ())
    proof = await prove_release(Scripted(busy, DeviceUsage(0, ())), ["g"], nobody, {}, 5, 0.001)
    assert (proof.before, proof.after) == ((DeviceReading("g", 3 * GIB, ()),), (DeviceReading("g", 0, ()),))
    assert (await prove_release(Scripted(busy), ["g"], nobody, {}, 0, 0.001, before=before)).before == before
    lost = await prove_release(Scripted(DeviceUnavailable("off the bus")), ["g"], nobody, {}, 0, 0.001)
    assert lost.after == (DeviceReading("g", None, (), "off the bus"),)


async def test_memory_of_the_mps_server_is_of_no_task_and_its_name_alone_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    with named_process("nvidia-cuda-mps-server") as server, named_process("nvidia-cuda-mps-control") as daemon:
        left = Scripted(DeviceUsage(500 * MIB, (server,), {server: 480 * MIB}))

        async def is_free(server_of: int, daemon_of: int, parent: int) -> bool:
            monkeypatch.setattr(system_programs, "_owner", {server: server_of, daemon: daemon_of, os.getpid(): 0}.get)
            monkeypatch.setattr(system_programs, "_parent", {server: parent}.get)
            proof = await prove_release(left, ["g"], nobody, {}, 0, 0.001)
            assert proof.after[0].memory_used == 500 * MIB, "the record has what the driver says"
            return proof.free

        assert await is_free(server_of=0, daemon_of=0, parent=daemon)
        assert await is_free(server_of=1000, daemon_of=0, parent=daemon), "it runs as its clients' user"
        assert not await is_free(server_of=1000, daemon_of=1000, parent=daemon), "any user's job can take these names"
        assert not await is_free(server_of=1000, daemon_of=0, parent=os.getpid())


async def test_one_of_several_devices_is_enough_to_hold_back_all() -> None:
    inventory = SimulatedInventory("2xH100-80GB", "n1")
    devices = ["GPU-sim-n1-0", "GPU-sim-n1-1"]
    inventory.attach(devices[1], os.getpid())
    proof = await prove_release(inventory, devices, nobody, {}, 0, 0.001)
    assert (proof.free, proof.blockers) == (False, (os.getpid(),))
    inventory.detach(devices[1], os.getpid())
    assert (await prove_release(inventory, devices, nobody, {}, 0, 0.001)).free


async def test_the_deadline_holds_whatever_the_poll() -> None:
    async with asyncio.timeout(60):
        proof = await prove_release(Scripted(DeviceUsage(GIB, ())), ["g"], nobody, {}, 0.01, poll=3_600)
    assert not proof.free


# --- NVML, with a library that only answers as the driver would


def driver(**answers: Any) -> ModuleType:
    """One card with processes; answers: what the library says instead."""
    nvml: Any = Machine([Card("GPU-1234", bus="0000:17:00.0")]).module()
    nvml.nvmlDeviceGetHandleByIndex = lambda index: index
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: uuid
    nvml.nvmlDeviceGetUUID = lambda handle: "GPU-1234"
    nvml.nvmlDeviceGetName = lambda handle: "NVIDIA H100 80GB HBM3"
    nvml.nvmlDeviceGetMemoryInfo = lambda handle, version=1: SimpleNamespace(total=80 * GIB, used=GIB // version)
    nvml.nvmlDeviceGetPciInfo = lambda handle: SimpleNamespace(busId="0000:17:00.0")
    nvml.nvmlDeviceGetRemappedRows = lambda handle: (0, 0, 0, 0)
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: [SimpleNamespace(pid=9), SimpleNamespace(pid=7)]
    nvml.nvmlDeviceGetGraphicsRunningProcesses = lambda handle: [SimpleNamespace(pid=9), SimpleNamespace(pid=3)]
    for name, answer in answers.items():
        setattr(nvml, name, answer)
    assert isinstance(nvml, ModuleType)
    return nvml


def fails(error: Exception) -> Any:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


def inventory_over(monkeypatch: pytest.MonkeyPatch, **proposals: Any) -> NvmlInventory:
    monkeypatch.setitem(sys.modules, "pynvml", driver(**proposals))
    return NvmlInventory()


def test_nvml_lists_devices_and_their_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = inventory_over(monkeypatch)
    [device] = inventory.list()
    assert (device.id, device.model, device.memory, device.healthy) == ("GPU-1234", "NVIDIA H100 80GB HBM3", 80 * GIB, True)
    assert device.labels == {"driver": "580.1", "pci": "0000:17:00.0"}
    assert inventory.usage("GPU-1234") == DeviceUsage(GIB // 2, (3, 7, 9))
    inventory.close()


@pytest.mark.parametrize("reason", [NotSupported(), FunctionNotFound()])
def test_an_old_card_or_driver_that_lacks_some_answers_will_do(monkeypatch: pytest.MonkeyPatch, reason: NVMLError) -> None:
    def first_version_only(handle: object, version: int = 1) -> SimpleNamespace:
        if version != 1:
            raise reason
        return SimpleNamespace(total=16 * GIB, used=GIB)

    inventory = inventory_over(monkeypatch, nvmlDeviceGetMemoryInfo=first_version_only, nvmlDeviceGetRemappedRows=fails(reason))
    [device] = inventory.list()
    assert (device.memory, device.healthy) == (16 * GIB, True)
    assert inventory.usage("GPU-1234").memory_used == GIB


@pytest.mark.parametrize("rows", [(0, 0, 1, 0), (0, 0, 0, 1)])
def test_a_card_whose_memory_waits_for_repair_is_not_healthy(monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...]) -> None:
    [device] = inventory_over(monkeypatch, nvmlDeviceGetRemappedRows=lambda handle: rows).list()
    assert not device.healthy


def test_a_card_that_falls_off_the_bus_stays_in_the_list_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = inventory_over(monkeypatch)
    inventory.list()
    for call in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID"):
        monkeypatch.setattr(f"pynvml.{call}", fails(NVMLError("GPU is lost")))
    [device] = inventory.list()
    assert (device.id, device.healthy) == ("GPU-1234", False)
    with pytest.raises(DeviceUnavailable, match="GPU is lost"):
        inventory.usage("GPU-1234")


def test_a_card_without_optional_answers_is_listed_and_its_processes_prove_that_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = (
        *("nvmlSystemGetDriverVersion", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo", "nvmlDeviceGetMemoryInfo"),
        *("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetUtilizationRates"),
    )
    inventory = inventory_over(monkeypatch, **dict.fromkeys(silent, fails(NotSupported())))
    [device] = inventory.list()
    assert (device.id, device.model, device.memory, device.healthy) == ("GPU-1234", "unknown", 0, True)
    assert device.labels == {"driver": "unknown", "pci": "unknown"}
    assert inventory.usage("GPU-1234") == DeviceUsage(0, (7, 9))
    assert inventory.utilization("GPU-1234") is None
    assert inventory.problems() == {}


def test_a_card_that_reports_neither_processes_nor_memory_is_never_free(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
    inventory = inventory_over(monkeypatch, **dict.fromkeys(silent, fails(NotSupported())))
    with pytest.raises(DeviceUnavailable, match="neither its processes nor its memory"):
        inventory.usage("GPU-1234")


@pytest.mark.parametrize("uuid", [fails(NotSupported()), lambda handle: ""])
def test_a_card_without_a_uuid_is_listed_and_given_to_no_job(monkeypatch: pytest.MonkeyPatch, uuid: Any) -> None:
    inventory = inventory_over(monkeypatch, nvmlDeviceGetUUID=uuid)
    [device] = inventory.list()
    assert (device.id, device.healthy) == ("GPU-index-0", False)
    assert inventory.problems()["GPU-index-0"].detail == "the driver gives it no UUID, so no job can be bound to it"


def test_a_card_that_is_lost_when_the_agent_starts_is_listed_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = inventory_over(monkeypatch, nvmlDeviceGetHandleByIndex=fails(NVMLError("GPU is lost")))
    assert [(device.id, device.healthy) for device in inventory.list()] == [("GPU-index-0", False)]
    assert inventory.problems() == {"GPU-index-0": DeviceProblem("lost", "the driver cannot reach it: GPU is lost")}
    monkeypatch.setattr("pynvml.nvmlDeviceGetHandleByIndex", lambda index: index)
    assert [device.id for device in inventory.list()] == ["GPU-index-0"], "the pool does not know the other id"
    assert "restart the node agent" in inventory.problems()["GPU-index-0"].detail


def test_the_card_that_vanishes_from_the_list_is_the_lost_one_although_indices_move(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = ["GPU-a", "GPU-b", "GPU-c"]
    inventory = inventory_over(monkeypatch, nvmlDeviceGetCount=lambda: len(cards), nvmlDeviceGetUUID=lambda handle: cards[handle])
    inventory.list()
    cards.remove("GPU-b")
    assert {device.id: device.healthy for device in inventory.list()} == {"GPU-a": True, "GPU-b": False, "GPU-c": True}
    assert inventory.problems() == {"GPU-b": DeviceProblem("lost", "the driver no longer lists it")}
    cards.insert(1, "GPU-b")
    assert inventory.problems() == {}


def test_a_driver_that_stops_answering_loses_all_its_cards_and_they_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = inventory_over(monkeypatch)
    monkeypatch.setattr("pynvml.nvmlDeviceGetCount", fails(NVMLError("Driver/library version mismatch")))
    assert [device.healthy for device in inventory.list()] == [False]
    assert "version mismatch" in inventory.problems()["GPU-1234"].detail
    monkeypatch.setattr("pynvml.nvmlDeviceGetCount", lambda: 1)
    assert inventory.problems() == {}


class ProcessInfo(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


@pytest.mark.parametrize("count", [0, 3, 200])
def test_processes_are_read_into_a_buffer_that_grows(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Also from a library that answers a question for their number alone with success."""

    def into(handle: object, number: Any, buffer: Any) -> int:
        size, number._obj.value = number._obj.value, count
        for at in range(min(count, size)):
            buffer[at].pid, buffer[at].usedGpuMemory = 1000 + at, (1 << 64) - 1 if at else GIB
        return 0 if count <= size else 7

    inventory = inventory_over(
        monkeypatch,
        _nvmlGetFunctionPointer=lambda name: into,
        c_nvmlProcessInfo_v3_t=ProcessInfo,
        NVML_ERROR_INSUFFICIENT_SIZE=7,
        _nvmlCheckReturn=lambda code: None if code == 0 else fails(NVMLError(code))(),
    )
    usage = inventory.usage("GPU-1234")
    assert usage.pids == tuple(range(1000, 1000 + count))
    assert usage.by_pid == ({1000: GIB} if count else {})


def test_two_cards_of_one_uuid_are_one_usable_card(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = inventory_over(monkeypatch, nvmlDeviceGetCount=lambda: 2)
    assert [(device.id, device.healthy) for device in inventory.list()] == [("GPU-1234", True), ("GPU-index-1", False)]


@pytest.mark.parametrize("percent", [-1, 101, 4_294_967_295])
def test_a_utilization_that_is_no_percentage_is_unknown(monkeypatch: pytest.MonkeyPatch, percent: int) -> None:
    inventory = inventory_over(monkeypatch, nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=percent))
    assert inventory.utilization("GPU-1234") is None


def test_the_xid_of_a_card_that_cannot_be_read_hides_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [SimpleNamespace(device="lost", eventData=79), SimpleNamespace(device="fine", eventData=74)]

    def uuid(handle: object) -> str:
        if handle == "lost":
            raise NVMLError("GPU is lost")
        return "GPU-1234"

    inventory = inventory_over(
        monkeypatch,
        nvmlEventSetCreate=lambda: object(),
        nvmlDeviceRegisterEvents=lambda *_: None,
        nvmlEventTypeXidCriticalError=8,
        nvmlDeviceGetUUID=uuid,
        nvmlEventSetWait_v2=lambda *_: events.pop(0) if events else fails(NVMLError("Timeout"))(),
    )
    assert inventory.problems() == {"GPU-1234": DeviceProblem("xid", "NVLink error", 74, lasts=True)}


def test_a_machine_without_a_driver_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoDriver, match="no NVIDIA driver"):
        inventory_over(monkeypatch, nvmlInit=fails(NVMLError("Driver Not Loaded")))


def test_a_machine_without_the_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NoDriver, match="nvidia-ml-py"):
        NvmlInventory()


@pytest.mark.slow
def test_nvml_is_loaded_on_construction_only() -> None:
    look = "import sys, bailiff_node_agent.devices; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look]).returncode == 0


@pytest.mark.gpu
async def test_a_real_gpu_is_listed_and_idle() -> None:
    try:
        inventory = NvmlInventory()
    except NoDriver as reason:
        pytest.skip(str(reason))
    devices = inventory.list()
    assert devices
    baseline = {device.id: inventory.usage(device.id).memory_used for device in devices}
    assert (await prove_release(inventory, [*baseline], nobody, baseline, 5, 0.2)).free
