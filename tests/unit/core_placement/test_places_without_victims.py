"""The place of a preemptor whose victims may stay: reserved, until allocate places it in the same cycle."""

import pytest
from tests.builders import Sketch, group, requested_unit

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.units import whole_job
from bailiff_core.placement import StepBudget
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.scheduling_snapshot import SchedulingSnapshot, current_snapshot
from bailiff_core.victims.unneeded_victims import _fits_elsewhere


def place(snapshot: SchedulingSnapshot, sketch: Sketch, node: int, *victims: str, gpus: int = 2) -> GangPlacement | None:
    """The place of a job that the answer of its own places on the node, on the GPUs of its victims."""
    unit = requested_unit(sketch.job("asks", group(gpus=gpus), priority=75))
    snapshot.place(unit, GangPlacement((TaskPlacement(0, node, (1 << gpus) - 1),), future=True))
    proposal = Proposal(request=1, job="asks", placement=(NodeShare(node=node, tasks="0", devices=f"0-{gpus - 1}"),))
    return _fits_elsewhere(snapshot, unit, proposal, [sketch.state.jobs[name] for name in victims], StepBudget(1000))


@pytest.fixture
def sketch() -> Sketch:
    """On a, `low` is the victim. On b two GPUs are being released; on c four are free."""
    made = Sketch()
    for name, gpus in (("a", 2), ("b", 2), ("c", 4)):
        made.node(name, gpus=gpus)
    made.running("low", "a", range(2))
    made.running("leaves", "b", range(2), phase="evicting")
    return made


def test_it_is_reserved_beside_the_victims_that_have_their_own_places_again(sketch: Sketch) -> None:
    snapshot = current_snapshot(sketch.state)
    snapshot.evict(whole_job(sketch.state.jobs["low"]))
    found = place(snapshot, sketch, 0, "low")
    assert found is not None
    assert ([task.node for task in found.tasks], found.future) == ([2], True)
    nodes = {node.name: (node.unallocated.devices, node.future.devices) for node in snapshot.cluster.nodes.values()}
    assert nodes == {"a": (0, 0), "b": (0, 0b11), "c": (0b1111, 0b1100)}


def test_what_is_being_released_is_a_place_as_well(sketch: Sketch) -> None:
    sketch.running("firm", "c", range(4))
    snapshot = current_snapshot(sketch.state)
    snapshot.evict(whole_job(sketch.state.jobs["low"]))
    found = place(snapshot, sketch, 0, "low")
    assert found is not None
    assert [task.node for task in found.tasks] == [1]


def test_without_such_a_place_the_pool_is_as_before(sketch: Sketch) -> None:
    sketch.running("firm", "c", range(4))
    snapshot = current_snapshot(sketch.state)
    snapshot.evict(whole_job(sketch.state.jobs["low"]))
    snapshot.cluster.close(snapshot.cluster.nodes[1])
    before = [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()]
    assert place(snapshot, sketch, 0, "low") is None
    after = [(node.unallocated, node.future) for node in snapshot.cluster.nodes.values()]
    assert after[1:] == before[1:]
    assert after[0][1].devices == 0, "its own place is kept"
