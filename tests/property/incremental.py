"""What a decision cycle decides from all that it remembers, and from the state alone."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from unittest.mock import patch

from tests.kits import log_builder

from bailiff_core.decision_cycle import decide
from bailiff_core.model.state import PoolState
from bailiff_core.records.payload import Decision

DecisionData = list[tuple[str, dict[str, object]]]


def afresh(state: PoolState) -> PoolState:
    """A copy without caches of earlier tries: every pending job is tried."""
    indices = state.indices
    built = (indices.snapshot, indices.node_resources, indices.timers, indices.completion_order, indices.project_tree)
    kept = (state.policy, *built, *(job.demand for job in state.jobs.values()))
    memo: dict[int, object] = {id(each): each for each in kept}
    found = copy.deepcopy(state, memo)
    found.indices.snapshot = found.indices.node_resources = found.indices.timers = None
    found.indices.completion_order = found.indices.project_tree = None
    found.indices.retry_unschedulable = True
    found.indices.withheld.clear()
    return found


def as_data(decisions: Iterable[Decision]) -> DecisionData:
    """The decisions without their reasons, which may be those of the first try."""
    return [(each.type_name(), each.model_dump(exclude={"reason"})) for each in decisions]


def against(other: Callable[[PoolState], PoolState]) -> Callable[[PoolState], Iterator[Decision]]:
    """`decide`, compared with itself on another form of the same state."""

    def compared(state: PoolState) -> Iterator[Decision]:
        twin = other(state)
        expected = as_data(decide(twin))
        found = []
        for decision in decide(state):
            found.append(decision)
            yield decision
        assert as_data(found) == expected

    return compared


def deciding(other: Callable[[PoolState], PoolState]) -> AbstractContextManager[object]:
    """Every cycle of a story is decided in both ways."""
    return patch.object(log_builder, "decide", against(other))
