"""What the tasks of a job with several groups ask for, also those that a smaller size of the job no longer has."""

import pytest
from tests.builders import group
from tests.unit.core_queue.kit import Town, gpus, project

from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.quota.demand_vector import DeviceScale, of_members, of_task

SCALE = DeviceScale(80 << 30)


def test_each_task_counts_as_one_of_its_group() -> None:
    job = Town(project("team")).waits("job", "team", group(2, gpus=1), group(1, gpus=4))
    assert [of_members(job, [index], SCALE) for index in range(3)] == [gpus(1), gpus(1), gpus(4)]
    assert of_members(job, range(3), SCALE) == gpus(6)


def test_tasks_above_the_size_count_as_those_of_the_last_group() -> None:
    job = Town(project("team")).waits("job", "team", group(2, gpus=1), group(1, gpus=4))
    assert of_members(job, [3], SCALE) == gpus(4)
    assert of_members(job, [0, 3, 4], SCALE) == gpus(9)


@pytest.mark.parametrize(
    ("about", "milli"),
    [
        ({"gpu_share_milli": 300}, 300),
        ({"gpu_share_milli": 300, "gpu_devices": 2}, 600),
        ({"gpu_share_bytes": 20 << 30}, 250),
        ({"gpu_share_bytes": 20 << 30, "gpu_devices": 3}, 750),
    ],
)
def test_a_task_counts_the_parts_of_all_its_gpus(about: dict[str, int], milli: int) -> None:
    assert of_task(group(**about), SCALE) == ResourceVector(milli, 0, 0)
