"""For any events in any order the invariants hold after every decision cycle, and every cycle ends."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from operator import attrgetter
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kits.core_invariants import check_pool
from tests.kits.examples import examples
from tests.kits.log_builder import Story, folded
from tests.property.random_stories import Chance, Step, checked, steps

from bailiff_core.decision_cycle import RULES, decide
from bailiff_core.model.state import PoolState
from bailiff_core.records.payload import Decision

KEPT = (
    "indices.touched",
    "indices.retry_unschedulable",
    "indices.unschedulable",
    "indices.to_schedule",
    "indices.backfill_blocked",
    "selection",
    "preemptions",
)
QUICK = examples(40)
DEEP = settings(QUICK, max_examples=3000)
PARTS = 20
LIMIT = 600  # s


def check_history(cycles: list[list[Step]], *, shared: bool = False) -> None:
    """One history, checked after every cycle, replayed at the end. shared: projects, elastic gangs, parts of GPUs."""
    Chance(checked, shared=shared).play(cycles).holds()


@given(steps(40))
@QUICK
def test_any_history_keeps_the_invariants(cycles):
    check_history(cycles)


@given(steps(40))
@examples(100)
def test_any_history_of_shared_pools_keeps_the_invariants(cycles):
    check_history(cycles, shared=True)


@pytest.mark.long
@pytest.mark.timeout(LIMIT)
@given(steps(120))
@DEEP
def test_any_longer_history_keeps_the_invariants(cycles):
    check_history(cycles)


@pytest.mark.long
@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("part", range(PARTS))
@given(cycles=steps(80))
@settings(DEEP, max_examples=10_000 // PARTS)
def test_ten_thousand_longer_histories_of_shared_pools_keep_the_invariants(part, cycles):
    check_history(cycles, shared=True)


def settling(state: PoolState) -> Iterator[Decision]:
    """Decide, then run each rule again, also rules that the cycle skips."""
    yield from decide(state)
    before = deepcopy(_kept(state))
    for rule, _ in RULES if state.policy is not None else ():
        due = next(rule(state), None)
        assert due is None, f"the cycle ended, and {rule.__name__} yields {due}"
    assert _kept(state) == before


def _kept(state: PoolState) -> list[object]:
    """What the next cycle builds on. Of the head's reservation not the position in the journal of usage, which trials move."""
    reserved = state.indices.head_reservation
    return [attrgetter(name)(state) for name in KEPT] + [reserved[1] if isinstance(reserved, tuple) else None]


NO_LONGER_WITHHELD = [
    *([(0, 0, 12)], [(0, 0, 0), (12, 0, 0), (12, 0, 0)], [(0, 0, 0), (47, 0, 0)], [(0, 2, 0), (12, 0, 0)]),
    *([(0, 0, 0), (0, 1, 5), (47, 1, 0)], [(0, 0, 0), (0, 1, 3)], [(0, 0, 0), (0, 5, 1)]),
]
"""The second pass finds that a job does not fit any more that the first one withheld: it requests preemption in this cycle."""

BLOCKED_BEHIND_AN_EVICTION = [
    [(0, 0, 0)],
    [(0, 0, 0), (0, 0, 0), (0, 0, 1)],
    [(0, 0, 1)],
    [(0, 0, 0), (0, 0, 0), (0, 0, 0)],
    [(0, 0, 0), (0, 0, 0), (0, 3, 1)],
    [(0, 0, 0), (0, 0, 5), (49, 0, 0)],
    [(0, 0, 0), (54, 7, 2)],
]
"""A job stays blocked by backfill while returns of an evicted job are tried, and rolled back."""


@given(steps(40), st.booleans())
@example(NO_LONGER_WITHHELD, True)
@example(BLOCKED_BEHIND_AN_EVICTION, False)
@QUICK
def test_a_cycle_ends_when_no_rule_yields_a_decision(cycles, shared):
    """A cycle skips the rules whose inputs have not changed, and ends without running all of them a last time."""
    with patch("tests.kits.log_builder.decide", settling):
        Chance(lambda _: None, shared=shared).play(cycles)


@pytest.mark.long
@pytest.mark.timeout(LIMIT)
@given(steps(80), st.booleans())
@settings(DEEP, max_examples=1000)
def test_a_cycle_of_a_longer_history_ends_when_no_rule_yields_a_decision(cycles, shared):
    with patch("tests.kits.log_builder.decide", settling):
        Chance(lambda _: None, shared=shared).play(cycles)


def cut_everywhere(cycles: list[list[Step]]) -> None:
    """The last cycle with decisions, interrupted at every point: the next writer completes it, and the log replays."""
    story = Chance().play(cycles)
    ends = [at + 1 for at, record in enumerate(story.records) if record.cycle_end]
    whole = [(begin, end) for begin, end in pairwise(ends) if _decides(story, begin, end)]
    if not whole:
        return
    begin, end = whole[-1]
    facts = sum(record.data.KIND == "fact" for record in story.records[begin:end])
    uncut = story.resumed(end)
    for cut in range(begin + 1, end):
        again = story.resumed(cut)
        assert again.state.cycle_open
        again.restart()
        check_pool(again.state)
        again.holds()
        if cut - begin >= facts:  # only decisions are missing: the next writer adds them
            # Jobs placed before the cut are possible victims now: a request may come before the missing placements, and the
            # jobs that it might evict are tried again in the next cycle.
            later = again.state.indices.to_schedule
            assert {job: phase for job, phase in again.phases().items() if job not in later} == {
                job: phase for job, phase in uncut.phases().items() if job not in later
            }


def _decides(story: Story, begin: int, end: int) -> bool:
    records = story.records[begin:end]
    return end - begin > 1 and records[-1].data.KIND == "decision" and records[0].data.NAME != "WriterStarted"


REQUEST_BEFORE_PLACEMENT = [
    [(0, 0, 0)],
    [(0, 0, 0), (0, 3, 4), (12, 0, 0)],
    [(58, 6, 0)],
    [(0, 0, 1), (12, 0, 0)],
    [(0, 5, 4), (12, 0, 0)],
]
"""Cut between two placements: the next writer requests preemption first, which might evict the job that is not placed yet."""


@given(steps(25))
@example(REQUEST_BEFORE_PLACEMENT)
@QUICK
def test_a_cycle_interrupted_at_any_point_is_closed_and_completed(cycles):
    cut_everywhere(cycles)


@pytest.mark.long
@pytest.mark.timeout(LIMIT)
@given(steps(80))
@DEEP
def test_a_cycle_of_a_longer_history_interrupted_at_any_point(cycles):
    cut_everywhere(cycles)


@given(steps(30))
@examples(15)
def test_the_state_folded_from_bytes_equals_the_state_decided_on(cycles):
    story = Chance().play(cycles)
    assert folded(story.wires).jobs == story.state.jobs
    assert folded(story.wires).nodes == story.state.nodes
