"""Tasks that share a GPU: how shares are enforced, and which excess is reported."""

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.mps import mps_daemon

from bailiff_bus.messages.commands import TaskAssignment
from bailiff_devstack.simulated_node import SimulatedInventory
from bailiff_node_agent import mps
from bailiff_node_agent.devices import DeviceUsage
from bailiff_node_agent.runtime import TaskKey
from bailiff_node_agent.share_monitor import ShareExceeded, ShareMonitor, SharingTask

GIB = 1 << 30
GPU = "GPU-sim-n1-0"
GREEDY, MODEST = TaskKey("greedy", 1, "0"), TaskKey("modest", 1, "0")


def test_a_task_that_exceeds_its_share_is_reported_once_each_time() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1", identify=lambda pid: pid)
    for pid in (7, 8, 9):
        inventory.attach(GPU, pid)
    inventory.fail(GPU, use_bytes=25 * GIB)
    both = [SharingTask(GREEDY, (GPU,), Fraction(1, 2), (7, 8)), SharingTask(MODEST, (GPU,), Fraction(1, 2), (9,))]
    monitor = ShareMonitor(inventory)
    assert monitor.check(both) == [ShareExceeded(GREEDY, GPU, 50 * GIB, 40 * GIB)]
    assert monitor.check(both) == []
    inventory.fail(GPU, use_bytes=20 * GIB)
    assert monitor.check(both) == []
    inventory.fail(GPU, use_bytes=25 * GIB)
    assert [over.key for over in monitor.check(both)] == [GREEDY]


def test_a_device_without_usage_by_process_reports_no_task() -> None:
    inventory = SimulatedInventory("1xH100-80GB", "n1", identify=lambda pid: pid)
    inventory.attach(GPU, 7)
    one = [SharingTask(GREEDY, (GPU, "GPU-gone"), Fraction(1, 100), (7,))]
    assert ShareMonitor(inventory).check(one) == []
    inventory.fail(GPU, dead=True)
    assert ShareMonitor(inventory).check(one) == []


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Path]:
    with mps_daemon(tmp_path / "pipes") as pipes:
        yield pipes


def test_a_killed_daemon_or_another_program_under_its_pid_is_none(tmp_path: Path) -> None:
    with mps_daemon(tmp_path) as pipes:
        assert mps.daemon_runs(pipes)
    assert (pipes / "control").exists()
    assert not mps.daemon_runs(pipes)
    (pipes / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    assert not mps.daemon_runs(pipes)


class Listed(SimulatedInventory):
    """Through MPS: the pids in `clients`."""

    clients: tuple[int, ...] | None = None

    def usage(self, device_id: str) -> DeviceUsage:
        return replace(super().usage(device_id), mps_clients=self.clients)


def test_a_task_that_goes_around_mps_is_named_once() -> None:
    inventory = Listed("1xH100-80GB", "n1", identify=lambda pid: pid)
    inventory.attach(GPU, 7)
    inventory.attach(GPU, 9)
    both = [SharingTask(GREEDY, (GPU,), Fraction(1, 2), (6, 7)), SharingTask(MODEST, (GPU,), Fraction(1, 2), (9,))]
    monitor = ShareMonitor(inventory)
    assert monitor.outside_of_mps(both) == [], "a driver that does not list clients accuses nobody"
    inventory.clients = (9,)
    assert monitor.outside_of_mps(both) == [GREEDY]
    assert monitor.outside_of_mps(both) == []
    inventory.fail(GPU, dead=True)
    assert ShareMonitor(inventory).outside_of_mps(both) == []


def test_where_mps_runs_it_enforces_shares(pipes: Path) -> None:
    half = TaskAssignment(task=0, devices=("a", "b"), gpu_share_milli=500)
    assert mps.limits(half, 80 * GIB, pipes) == {
        "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=40960M,1=40960M",
    }
    memory = TaskAssignment(task=0, devices=("a",), gpu_share_bytes=10 * GIB)
    assert mps.limits(memory, 80 * GIB, pipes)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=10240M"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in mps.limits(memory, 80 * GIB, pipes)


def test_whole_devices_and_machines_without_mps_know_nothing_of_it(pipes: Path, tmp_path: Path) -> None:
    assert mps.limits(TaskAssignment(task=0, devices=("a",)), 80 * GIB, pipes) == {}
    assert mps.limits(TaskAssignment(task=0, devices=("a",), gpu_share_milli=500), 80 * GIB, tmp_path / "none") == {}
