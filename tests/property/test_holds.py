"""Who holds what, followed record by record, is what looking at the whole pool after each record finds; and so are its rows."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.history_files import from_lines
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, steps

from bailiff_bus.holds_rows import Held, Spans, places_of, states_of
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Wire, decode

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))


def check(wires: list[Wire]) -> None:
    pool, holds = Pool(), Held()
    moments: list[dict] = []
    for wire in wires:
        record = decode(wire)
        apply(pool, record)
        holds.at(pool, record, stored=False)
        places = [places_of(pool, job) for job in pool.jobs.values()]
        states = [states_of(node) for node in pool.nodes.values()]
        for spans, found in ((holds.places, places), (holds.states, states)):
            whole = {key: what for part in found for key, what in part.items()}
            kept = {key: row.what for rows in spans.open.values() for key, row in rows.items()}
            assert kept == whole, record
        moments.append({key: what for part in places for key, what in part.items()})
    for seq, expected in enumerate(moments):
        assert as_of(holds.places, seq) == expected, seq


def as_of(spans: Spans, seq: int) -> dict:
    """What the rows say of the moment after this record."""
    return {row.key: row.what for row in spans.begun if row.begin[0] <= seq and (row.end[0] is None or row.end[0] > seq)}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_in_recorded_histories(path: Path) -> None:
    check(from_lines(path.read_text()))


@settings(max_examples=10, deadline=None)
@given(busy_steps(40))
def test_in_busy_pools(story: list) -> None:
    check(Busy().tell(story).wires)


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=10, deadline=None)
@given(turns=steps(40))
def test_in_random_pools(shared: bool, turns: list) -> None:
    check(Chance(shared=shared).tell(turns).wires)
