"""Placements as records have them: every placement is read as it was written, and nothing else is read."""

from itertools import combinations, product

import pytest
from tests.builders import Sketch, group

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.state import Job
from bailiff_core.placement import GangPlacement, TaskPlacement, decode_placement, encode_placement

PAIRS = [1 << one | 1 << other for one, other in combinations(range(5), 2)]


@pytest.fixture
def job() -> Job:
    """Two tasks of two GPUs, one without GPUs, and one of a part of a GPU."""
    return Sketch().job("asks", group(2, gpus=2), group(cpu=1), group(gpu_share_milli=500))


@pytest.mark.parametrize(("first", "second"), [pair for pair in product(PAIRS, PAIRS) if not pair[0] & pair[1]])
def test_what_is_written_is_read_again(job: Job, first: int, second: int) -> None:
    for nodes, part in product(product((0, 1), repeat=4), (0, 4)):
        if nodes[3] in [node for node, mask in zip(nodes, (first, second), strict=False) if mask >> part & 1]:
            continue  # that GPU is in use
        masks = (first, second, 0, 1 << part)
        place = GangPlacement(
            tuple(TaskPlacement(at, node, mask) for at, (node, mask) in enumerate(zip(nodes, masks, strict=True))), False
        )
        written = encode_placement(place)
        assert [share.node for share in written] == sorted(share.node for share in written)
        assert tuple(decode_placement(job, written)) == place.tasks


def test_one_task_and_none_are_written_as_well(job: Job) -> None:
    assert encode_placement(GangPlacement((TaskPlacement(1, 7, 0b101),), True)) == (NodeShare(node=7, tasks="1", devices="0,2"),)
    assert encode_placement(GangPlacement((), False)) == ()
    assert decode_placement(job, (), []) == []


def shares(*entries: tuple[int, str, str]) -> tuple[NodeShare, ...]:
    return tuple(NodeShare(node=node, tasks=tasks, devices=devices) for node, tasks, devices in entries)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(0, "", "")], "the entry for node 0 has no tasks"),
        ([(0, "0-4", "0-4")], "job asks has 4 tasks, but no task 4"),
        ([(0, "0", "0-2")], "tasks 0 need 2 devices on node 0, got 3"),
        ([(0, "0", "0-1"), (1, "0-3", "0-4")], "task 0 is placed twice"),
        ([(0, "0", "0-1"), (0, "1-3", "1-3")], "device 1 of node 0 is assigned twice"),
        ([(0, "0-2", "0-3"), (0, "3", "3")], "device 3 of node 0 is assigned twice"),
        ([(0, "3", "3"), (0, "0-2", "0-3")], "device 3 of node 0 is assigned twice"),
        ([(0, "0-2", "0-3")], "task 3 of job asks has no place"),
        ([(0, "0,2,1", "0-3")], "tasks '0,2,1' are not in ascending order"),
        ([(0, "0,0", "0-3")], "tasks '0,0' are not in ascending order"),
        ([(0, "0-1", "0-2,2")], "devices '0-2,2' are not in ascending order"),
        ([(0, "x", "")], "tasks 'x': invalid literal for int() with base 10: 'x'"),
    ],
)
def test_what_a_record_may_not_say(job: Job, entries: list[tuple[int, str, str]], why: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        decode_placement(job, shares(*entries))
    assert str(error.value) == why


def test_the_same_gpu_of_two_nodes_is_two_gpus_and_a_part_may_have_company() -> None:
    job = Sketch().job("asks", group(2, gpus=1), group(2, gpu_share_milli=500))
    found = decode_placement(job, shares((0, "0", "0"), (1, "1", "0"), (2, "2", "0"), (2, "3", "0")))
    assert [(task.node, task.devices) for task in found] == [(0, 1), (1, 1), (2, 1), (2, 1)]
