"""What is free or releasing in total: where that does not suffice, relocating jobs does not help."""

import pytest
from tests.builders import GIB, Sketch, group, requested_unit

from bailiff_core.model.demand import TaskGroup
from bailiff_core.placement import ClusterResources
from bailiff_core.victims.consolidation import FreeTotals

FOUR_OF_THREE = "needs 4 GPUs in total, 3 are free or releasing: relocating jobs does not change that"


def totals(sketch: Sketch) -> FreeTotals:
    return FreeTotals.of(ClusterResources.of(sketch.state))


@pytest.fixture
def sketch() -> Sketch:
    """Two nodes with 3 GPUs, 6 CPUs and 6 GiB free or releasing."""
    made = Sketch()
    made.node("a", gpus=4, cpu=4, gib=4)
    made.node("b", gpus=2, cpu=4, gib=4)
    made.at(made.job("runs", group(gpus=3, cpu=2, gib=2)), ("a", [0, 1, 2]))
    made.at(made.job("leaves", group(gpus=1, cpu=1, gib=1)), ("b", [0]), phase="evicting")
    return made


def test_they_count_what_is_free_or_releasing_on_all_nodes(sketch: Sketch) -> None:
    assert totals(sketch) == FreeTotals(gpus=3, cpu_milli=6000, memory_bytes=6 * GIB, shared=False)


def test_a_node_with_more_in_use_than_it_has_takes_nothing_from_the_others(sketch: Sketch) -> None:
    sketch.state.nodes[0].capacity.cpu_milli = 1000
    sketch.state.nodes[0].capacity.memory_bytes = GIB
    assert totals(sketch) == FreeTotals(gpus=3, cpu_milli=4000, memory_bytes=4 * GIB, shared=False)


def test_a_gpu_that_is_shared_on_any_node_may_be_freed_by_relocating_a_share(sketch: Sketch) -> None:
    sketch.at(sketch.job("half", group(gpu_share_milli=500)), ("b", [1]))
    free = totals(sketch)
    assert (free.gpus, free.shared) == (2, True)
    assert free.missing(requested_unit(sketch.job("wants", group(gpus=3)))) is None


@pytest.mark.parametrize(
    ("groups", "missing"),
    [
        ([group(3, gpus=1, cpu=2, gib=2)], None),
        ([group(gpus=1), group(gpus=2)], None),
        ([group(2, gpus=2)], FOUR_OF_THREE),
        (
            [group(gpus=1), group(3, gpus=1)],
            FOUR_OF_THREE,
        ),
        ([group(7, cpu=1)], "not enough CPU is free in total: relocating jobs does not change that"),
        ([group(7, gib=1)], "not enough memory is free in total: relocating jobs does not change that"),
    ],
)
def test_a_request_is_refused_for_what_it_lacks_in_total(sketch: Sketch, groups: list[TaskGroup], missing: str | None) -> None:
    assert totals(sketch).missing(requested_unit(sketch.job("wants", *groups))) == missing
