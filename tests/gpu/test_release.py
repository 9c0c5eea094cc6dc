"""On a real GPU: NVML sees leftovers of its processes, and the device is not allocated before they are gone.

    make test-gpu

The programs use CUDA's driver library alone, so the machine needs a driver and nothing else.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.waiting import until

from bailiff_bus.messages.devices import DeviceClearedReport, DeviceQuarantinedReport
from bailiff_node_agent.device_quarantine import DeviceQuarantine
from bailiff_node_agent.devices import NoDriver, NvmlInventory, prove_release, read_devices
from bailiff_node_agent.disk import MemoryStorage
from bailiff_node_agent.runtime import Launch, Running, TaskKey, pids_of
from bailiff_node_agent.runtime.process import ProcessRuntime

pytestmark = pytest.mark.gpu

KEY = TaskKey("train-7", 1, "0")
GIB = 1 << 30
HOLDS = """
import ctypes, os, signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "orphan" in sys.argv and os.fork():
    while not os.path.exists("holds"):
        time.sleep(0.02)
    os._exit(0)
if "orphan" in sys.argv:
    os.setsid()
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(2 << 30)) == 0
open("holds", "w").close()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def inventory() -> Iterator[NvmlInventory]:
    try:
        made = NvmlInventory()
    except NoDriver as reason:
        pytest.skip(f"no GPU here: {reason}")
    yield made
    made.close()


@pytest.fixture
def gpu(inventory: NvmlInventory) -> str:
    return inventory.list()[0].id


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    made = ProcessRuntime(tmp_path / "state")
    yield made
    if made.folders.task(KEY).exists():
        await made.kill(KEY)
    await made.close()


async def holds(agent: ProcessRuntime, gpu: str, folder: Path, *how: str) -> None:
    """A task that has 2 GiB of the device."""
    env = {"CUDA_VISIBLE_DEVICES": gpu}
    launch = Launch(KEY, [sys.executable, "-c", HOLDS, *how], env=env, working_dir=str(folder), device_ids=(gpu,))
    assert isinstance(await agent.start(launch), Running)
    await until(lambda: (folder / "holds").exists())


def baseline(inventory: NvmlInventory, gpu: str) -> dict[str, int]:
    [reading] = read_devices(inventory, [gpu])
    assert reading.memory_used is not None
    return {gpu: reading.memory_used}


async def test_memory_of_a_killed_process_comes_back(
    agent: ProcessRuntime, inventory: NvmlInventory, gpu: str, tmp_path: Path
) -> None:
    before = baseline(inventory, gpu)
    await holds(agent, gpu, tmp_path)
    [held] = read_devices(inventory, [gpu])
    assert (held.memory_used or 0) > before[gpu] + 2 * GIB
    proof = await prove_release(inventory, [gpu], lambda: pids_of(agent, KEY), before, 0.2, 0.05)
    assert not proof.free
    await agent.kill(KEY)
    await asyncio.wait_for(agent.wait_exit(), 60)
    assert (await prove_release(inventory, [gpu], lambda: pids_of(agent, KEY), before, 60, 0.05)).free


async def test_a_process_that_ignores_term_is_seen_until_it_is_killed(
    agent: ProcessRuntime, inventory: NvmlInventory, gpu: str, tmp_path: Path
) -> None:
    before = baseline(inventory, gpu)
    await holds(agent, gpu, tmp_path, "deaf")
    await agent.terminate(KEY, 60.0)
    proof = await prove_release(inventory, [gpu], lambda: pids_of(agent, KEY), before, 1, 0.05)
    assert (proof.free, len(proof.living)) == (False, 1)
    await agent.kill(KEY)
    assert (await asyncio.wait_for(agent.wait_exit(), 60)).code == -9
    assert (await prove_release(inventory, [gpu], lambda: pids_of(agent, KEY), before, 60, 0.05)).free


async def test_an_orphan_is_ended_before_its_task_counts_as_gone(
    agent: ProcessRuntime, inventory: NvmlInventory, gpu: str, tmp_path: Path
) -> None:
    before = baseline(inventory, gpu)
    await holds(agent, gpu, tmp_path, "orphan")
    ended = await asyncio.wait_for(agent.wait_exit(), 60)
    assert (ended.code, ended.leftovers) == (0, 1)
    assert (await prove_release(inventory, [gpu], lambda: pids_of(agent, KEY), before, 60, 0.05)).free


async def test_a_foreign_process_blocks_the_device_until_it_exits(inventory: NvmlInventory, gpu: str, tmp_path: Path) -> None:
    reports: list[Any] = []

    def report(kind: type, **_: Any) -> None:
        reports.append(kind)

    quarantine = DeviceQuarantine(inventory, MemoryStorage(), "boot", report, holders=dict)
    quarantine.start()
    assert quarantine.refusal([gpu], exclusive=True) is None
    with subprocess.Popen([sys.executable, "-c", HOLDS], cwd=tmp_path) as stranger:  # noqa: ASYNC220 - it returns at once
        try:
            await until(lambda: (tmp_path / "holds").exists())
            assert "quarantined" in (quarantine.refusal([gpu], exclusive=True) or "")
            await quarantine.check()
            assert reports == [DeviceQuarantinedReport]
        finally:
            stranger.kill()
    async with asyncio.timeout(60):
        while DeviceClearedReport not in reports:
            await quarantine.check()
            await asyncio.sleep(0.05)
    assert quarantine.refusal([gpu], exclusive=True) is None
