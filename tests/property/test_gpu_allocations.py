"""GPU allocations followed record by record equal those computed from the whole pool after each record; so do their rows."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.kits.history_files import from_lines
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, steps

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Wire, decode
from bailiff_log.gpu_allocation_rows import GpuAllocations, IntervalRows, allocations_of, gpu_states_of

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))


def check(wires: list[Wire]) -> None:
    state, holds = PoolState(), GpuAllocations()
    moments: list[dict] = []
    for wire in wires:
        record = decode(wire)
        apply(state, record)
        holds.at(state, record, stored=False)
        places = [allocations_of(state, job) for job in state.jobs.values()]
        states = [gpu_states_of(node) for node in state.nodes.values()]
        for spans, found in ((holds.allocations, places), (holds.states, states)):
            whole = {key: what for part in found for key, what in part.items()}
            kept = {key: row.values for rows in spans.open.values() for key, row in rows.items()}
            assert kept == whole, record
        moments.append({key: what for part in places for key, what in part.items()})
    for seq, expected in enumerate(moments):
        assert as_of(holds.allocations, seq) == expected, seq


def as_of(spans: IntervalRows, seq: int) -> dict:
    """The allocations after this record, from the rows."""
    return {row.key: row.values for row in spans.begun if row.begin[0] <= seq and (row.end[0] is None or row.end[0] > seq)}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_in_recorded_histories(path: Path) -> None:
    check(from_lines(path.read_text()))


@settings(max_examples=10, deadline=None)
@given(busy_steps(40))
def test_in_busy_pools(story: list) -> None:
    check(Busy().play(story).wires)


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=10, deadline=None)
@given(cycles=steps(40))
def test_in_random_pools(shared: bool, cycles: list) -> None:
    check(Chance(shared=shared).play(cycles).wires)
