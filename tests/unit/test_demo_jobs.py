"""The demo's jobs fit the machine: any number of GPUs, and as few CPUs and as little memory as it has."""

import pytest

from bailiff_core.model.resources import Resources
from bailiff_core.model.state import Device, Node
from bailiff_devstack.demo_jobs import DemoJobs, NoUsableGpu, jobs_for
from bailiff_devstack.demo_story import _of

GIB = 1 << 30


def node(gpus: int, cpus: int = 64, memory: int = 512 * GIB, *, quarantined: int = 0, unhealthy: int = 0) -> Node:
    devices = [Device(number, f"GPU-{number}", "H100", 80 * GIB, "gpu", None, True, {}, "", None) for number in range(gpus)]
    usable = (1 << gpus) - 1 & ~unhealthy
    made = Node(
        number=0,
        name="node-1",
        incarnation="i",
        machine_id="m",
        boot_id="b",
        joined_seq=1,
        capacity=Resources(usable, cpus * 1000, memory, 1000),
        devices=devices,
        labels={},
    )
    made.quarantined = quarantined
    return made


def test_a_large_machine_gets_one_job_per_gpu_of_a_whole_cpu_each() -> None:
    assert jobs_for(node(8)) == DemoJobs(gpus=(1,) * 8, cpu_milli=1000, memory_bytes=GIB)


@pytest.mark.parametrize("gpus", [1, 2, 3, 7, 8, 9, 10, 16, 63, 64])
def test_any_number_of_gpus_is_filled_by_at_most_eight_jobs_that_fit_together(gpus: int) -> None:
    jobs = jobs_for(node(gpus, cpus=2, memory=4 * GIB))
    assert jobs.total_gpus == gpus
    assert len(jobs.gpus) == min(8, gpus)
    assert max(jobs.gpus) - min(jobs.gpus) <= 1
    assert 0 < jobs.cpu_milli * len(jobs.gpus) <= 2000
    assert 0 < jobs.memory_bytes * len(jobs.gpus) <= 4 * GIB


def test_gpus_that_cannot_be_allocated_are_left_out() -> None:
    assert jobs_for(node(8, quarantined=0b1, unhealthy=0b110)).total_gpus == 5


def test_a_machine_without_a_usable_gpu_is_named_with_the_reason() -> None:
    broken = node(1, quarantined=0b1)
    broken.devices[0].fault = "process 7 (python) not started by this node"
    with pytest.raises(NoUsableGpu, match=r"node-1 has no GPU that can be allocated \(GPU-0: process 7 \(python\)"):
        jobs_for(broken)


def test_one_is_not_several() -> None:
    assert [_of(1, 1), _of(1, 8), _of(4, 8)] == ["the only job is", "1 of 8 jobs is", "4 of 8 jobs are"]
