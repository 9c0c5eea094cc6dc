"""Whether a gang fits the empty pool: the cached answer follows the nodes."""

import pytest
from tests.builders import Sketch, group

from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.state import PoolState
from bailiff_core.placement.feasibility import CACHE_SIZE, could_ever_fit
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.scheduling_snapshot import current_snapshot

BIG = JobDemand(job="big", tasks=(group(gpus=8),))


def folded(state: PoolState, fact: Fact) -> None:
    FOLDS[type(fact)](state, fact)


def joined(number: int, gpus: int) -> facts.NodeJoined:
    devices = tuple(facts.DeviceInfo(id=f"g-{number}-{n}", kind="gpu", model="h100", memory_bytes=80 << 30) for n in range(gpus))
    return facts.NodeJoined(
        node=f"node-{number}", number=number, incarnation="i", machine_id="m", boot_id="b", report_number=0, cpu_milli=8000,
        memory_bytes=1 << 40, max_tasks=10, labels={}, devices=devices,
    )  # fmt: skip


def test_a_node_that_joins_or_is_lost_changes_the_answer() -> None:
    state = Sketch().state
    folded(state, joined(0, gpus=4))
    assert could_ever_fit(state, BIG) is not None
    folded(state, joined(1, gpus=8))
    assert could_ever_fit(state, BIG) is None
    folded(state, facts.NodeLost(node="node-1", last_contact=0))
    assert could_ever_fit(state, BIG) is not None
    folded(state, joined(1, gpus=8))
    assert could_ever_fit(state, BIG) is None


def test_a_job_whose_tree_of_sub_groups_is_invalid_never_fits() -> None:
    state = Sketch().state
    folded(state, joined(0, gpus=4))
    demand = JobDemand(job="a", tasks=(group(sub_group="s"),), sub_groups=(SubGroup(name="s", min_tasks=2),))
    assert could_ever_fit(state, demand) == "sub-group 's' needs 2 tasks and has 1"


@pytest.mark.parametrize("gpus", [1, 8])
def test_the_cached_answer_equals_the_first(gpus: int) -> None:
    state = Sketch().state
    folded(state, joined(0, gpus=4))
    demand = JobDemand(job="a", tasks=(group(gpus=gpus),))
    assert could_ever_fit(state, demand) == could_ever_fit(state, demand)


def test_the_cache_of_many_shapes_is_bounded() -> None:
    state = Sketch().state
    folded(state, joined(0, gpus=4))
    for cpu in range(CACHE_SIZE + 10):
        could_ever_fit(state, JobDemand(job="a", tasks=(group(cpu=cpu),)))
    assert len(state.indices.infeasible) <= CACHE_SIZE


def test_an_unknown_topology_is_refused_whatever_the_pool_has() -> None:
    state = Sketch().state
    folded(state, joined(0, gpus=4))
    demand = JobDemand(job="a", tasks=(group(gpus=1),), topology=TopologyRule(topology="lan", required="rack"))
    expected = "the job refers to topology 'lan', which the policy does not define (defined: none)"
    assert could_ever_fit(state, demand) == expected


@pytest.mark.parametrize("first", [True, False])
def test_no_job_takes_from_the_empty_pool_what_the_next_one_needs(first: bool) -> None:
    """first: the pool is scheduled before, and not only after, the first question."""
    state = Sketch().state
    folded(state, joined(0, gpus=8))
    for number in range(4):
        if first or number:
            current_snapshot(state)
        assert could_ever_fit(state, JobDemand(job="a", tasks=(group(gpus=8, cpu=number),))) is None
