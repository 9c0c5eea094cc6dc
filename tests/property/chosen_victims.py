"""The victims that the search chooses in worlds made from seeds."""

from hypothesis import strategies as st
from tests.property.victim_worlds import chain

from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import PoolState

SEEDS = st.integers(0, 2**48)


def chosen(state: PoolState, answer: Proposal) -> dict[str, int]:
    """Number of units that the proposal evicts, by job; always the first evictable units."""
    found = {}
    for victim in answer.victims:
        units = chain(state.jobs[victim.job])
        if not victim.tasks:
            found[victim.job] = len(units)
            continue
        tasks = numbers(victim.tasks)
        found[victim.job] = next(n for n in range(1, len(units)) if sorted(i for unit in units[:n] for i in unit) == tasks)
    return found


def units_moved(state: PoolState, answer: Proposal, name: str) -> list[list[int]]:
    """The job's evicted units that have a new place."""
    victim = next(victim for victim in answer.victims if victim.job == name)
    units = chain(state.jobs[name])[: chosen(state, answer)[name]]
    moved = [unit for unit in units if set(unit) <= set(victim.relocated_tasks)]
    assert sorted(index for unit in moved for index in unit) == sorted(victim.relocated_tasks), "a unit is relocated in part"
    if not victim.tasks:
        assert not moved or moved == units[-len(moved) :], "surplus is relocated without the core"
    return moved
