"""Accounting followed cycle by cycle equals that of the whole state, and both equal what the nodes and the records say."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.kits.accounting import gpus_on_nodes, models_on_nodes, summed, used_by, waited_for_by
from tests.kits.history_files import from_lines
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, steps

from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.mig import profile_of
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import PoolState
from bailiff_core.records import Wire, decode
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_log.accounting_rows import JOB_USAGE, LOST_WORK, Accounting, budget_of, capacity_of, usage_of

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))


def check(wires: list[Wire], *, restart: int | None = None) -> Accounting:
    """restart: after so many records the follower is replaced by one that starts from a snapshot, as the auditor's is."""
    state, follower = PoolState(), Accounting()
    for wire in wires:
        record = decode(wire)
        apply(state, record)
        follower.at(state, record, stored=False)
        if not record.cycle_end:
            continue
        whole = usage_of(state)
        assert {key: row.values for rows in follower.usage.open.values() for key, row in rows.items()} == whole, record
        capacity = {node.name: capacity_of(node, state.policy) for node in state.nodes.values()}
        kept = {key[0]: row.values[0] for rows in follower.capacity.open.values() for key, row in rows.items()}
        assert kept == {name: gpus for name, gpus in capacity.items() if gpus}, record
        rows = {name: budget_of(state, name) for name in state.budgets}
        assert {key[0]: row.values for open_rows in follower.budgets.open.values() for key, row in open_rows.items()} == rows
        _check_state(state, whole)
        if restart is not None and record.seq >= restart:
            restart, later = None, Accounting()
            later.begin(from_snapshot(to_snapshot(state)))
            assert (later.usage.begun, later.capacity.begun, later.budgets.begun) == ([], [], [])
            follower.usage.open, follower.capacity.open = later.usage.open, later.capacity.open
            follower.budgets.open = later.budgets.open
            follower._jobs, follower._leaves = later._jobs, later._leaves
    return follower


def _check_state(state: PoolState, whole: dict) -> None:
    jobs = {(job.id, job.seq): job for job in state.jobs.values()}
    plain = not any(profile_of(device) for node in state.nodes.values() for device in node.devices)
    plain = plain and all(group.gpu_share_bytes is None for job in jobs.values() for group in job.demand.tasks)
    by_leaf: dict[str, list[tuple[int, int]]] = {}
    for key, (cls, used, borrowed, waiting, models) in whole.items():
        job = jobs[key]
        assert cls == job.class_name
        assert 0 <= borrowed <= used
        assert sum(json.loads(models).values()) == used
        if plain:
            assert json.loads(models) == models_on_nodes(state, job)
        assert not (used and waiting)
        if plain:
            assert (used, waiting) == (used_by(state, job), waited_for_by(job)), job
        by_leaf.setdefault(tree_of(state).leaf_of(job.project), []).append((used, borrowed))
    if plain:
        assert sum(values[1] for values in whole.values()) == gpus_on_nodes(state)
    for leaf, pairs in by_leaf.items():
        quota, used = tree_of(state).branches[leaf].quota.gpu_milli, sum(used for used, _ in pairs)
        assert sum(borrowed for _, borrowed in pairs) == (0 if quota < 0 else max(0, used - quota)), leaf


def totals(follower: Accounting, begin: int, end: int) -> dict:
    """From the rows: GPU-milli-µs used and waited for, and GPU-ms lost, in the window, by submission."""
    found: dict = {}
    first, last = (EPOCH_START + moment * MICROSECOND for moment in (begin, end))
    for row in follower.usage.begun:
        lasted = (min(row.end[1] or last, last) - max(row.begin[1], first)) // timedelta(microseconds=1)
        if lasted > 0:
            sums = found.setdefault(row.key, {"used": 0, "waiting": 0, "lost": 0})
            values = dict(zip(JOB_USAGE.values, row.values, strict=True))
            sums["used"] += values["used_gpu_milli"] * lasted
            sums["waiting"] += values["waiting_gpu_milli"] * lasted
    for row in follower.lost.begun:
        if first <= row.begin[1] < last:
            values = dict(zip(LOST_WORK.values, row.values, strict=True))
            lost = values["work_gpu_ms"] + values["restart_gpu_ms"]
            found.setdefault(row.key, {"used": 0, "waiting": 0, "lost": 0})["lost"] += lost
    return found


def check_sums(wires: list[Wire]) -> None:
    follower = check(wires)
    begin, end = decode(wires[0]).time, decode(wires[-1]).time + 1_000_000
    middle = (begin + end) // 2
    windows = {bounds: totals(follower, *bounds) for bounds in ((begin, end), (begin, middle), (middle, end))}
    for bounds, found in windows.items():
        expected = {key: sums for key, sums in summed(wires, *bounds).items() if any(sums.values())}
        assert {key: sums for key, sums in found.items() if any(sums.values())} == expected, bounds
    for key, sums in windows[begin, end].items():  # each moment is in exactly one of two adjoining windows
        halves = [windows[bounds].get(key, {}) for bounds in ((begin, middle), (middle, end))]
        assert sums == {name: sum(half.get(name, 0) for half in halves) for name in sums}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_in_recorded_histories(path: Path) -> None:
    wires = from_lines(path.read_text())
    check(wires, restart=len(wires) // 2)


@settings(max_examples=10, deadline=None)
@given(busy_steps(40))
def test_in_busy_pools(story: list) -> None:
    check_sums(Busy().play(story).wires)


@pytest.mark.parametrize("shared", [False, True])
@settings(max_examples=10, deadline=None)
@given(cycles=steps(40))
def test_in_random_pools(shared: bool, cycles: list) -> None:
    wires = Chance(shared=shared).play(cycles).wires
    check(wires, restart=len(wires) // 3)
