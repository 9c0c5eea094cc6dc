"""Budgets on random histories: what they have used is what accounting says, and nobody is evicted for them unless asked."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from tests.kits.log_builder import DAY, Story, folded, policy
from tests.property import busy_stories, random_stories
from tests.property.busy_stories import Busy, busy_steps
from tests.property.random_stories import Chance, steps

from bailiff_core.budgets.months import month_begins
from bailiff_core.budgets.use import GPU_HOUR, hours_of, level_changes, level_of, next_change, use_now
from bailiff_core.fold import apply
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.state import PoolState
from bailiff_core.records import Wire, decisions, decode
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_log.accounting_rows import JOB_USAGE, Accounting

KINDS = ("lowest-class", "borrow-only", "stop-admitting", "evict")


def rows(at_limit: str, hours: int) -> list[dict[str, Any]]:
    """Budgets of a project and those below it, of one of these, of a class, and of all."""
    limits = {"at_limit": at_limit if at_limit != "borrow-only" else "lowest-class"}
    return [
        {"name": "red", "project": "red", "gpu_hours": hours, "at_limit": at_limit},
        {"name": "red-day", "project": "red-day", "gpu_hours": hours, "at_limit": at_limit},
        {"name": "train", "priority_class": "train", "gpu_hours": 4 * hours, **limits},
        {"name": "blue-train", "project": "blue", "priority_class": "train", "gpu_hours": hours, **limits},
        {"name": "all", "gpu_hours": 8 * hours, "warn_at": 50, **limits},
    ]


class Budgeted(Chance):
    """Random histories in which the policies have such budgets."""

    def __init__(self, at_limit: str, hours: int) -> None:
        policies = tuple(
            policy(**{**each.model_dump(mode="json", exclude={"budgets"}), "budgets": rows(at_limit, hours)})
            for each in random_stories.SHARED
        )
        with patch.object(random_stories, "SHARED", policies):
            super().__init__(lambda story: check_next(story.state), shared=True)
        self.story.time += 28 * DAY  # so that some histories go on in the next month


def check_next(state: PoolState) -> None:
    """What is kept of when levels change is what looking at every budget says."""
    times = []
    for row in state.rules.budgets:
        use = use_now(state, row)
        assert level_of(row, use) == use.level, "a cycle ends when no level is due"
        times.append(month_begins(use.month + 1))
        total = hours_of(row, use) * GPU_HOUR
        bounds = (-(-total * row.warn_at // 100), total)
        times += [state.now - (use.used - bound) // use.held for bound in bounds if use.held and bound > use.used]
    assert level_changes(state).due(state) == []
    assert next_change(state) == min(times, default=None)


def check_use(wires: Sequence[Wire]) -> PoolState:
    """After every cycle, each budget has used of this month what the rows of accounting say of its jobs."""
    state, follower = PoolState(), Accounting()
    jobs: dict[tuple[str, int], Any] = {}
    for wire in wires:
        record = decode(wire)
        apply(state, record)
        follower.at(state, record, stored=False)
        if not record.cycle_end:
            continue
        jobs |= {(job.id, job.seq): job for job in state.jobs.values()}
    now = EPOCH_START + state.now * MICROSECOND
    for row in state.rules.budgets:
        use = use_now(state, row)
        first = max(_month_of(now), EPOCH_START + use.counted_since * MICROSECOND)
        total = 0
        for begun in follower.usage.begun:
            job, values = jobs[begun.key], dict(zip(JOB_USAGE.values, begun.values, strict=True))
            lasted = (min(begun.end[1] or now, now) - max(begun.begin[1], first)) // timedelta(microseconds=1)
            under = row.project is None or job.project == row.project or job.project.startswith(f"{row.project}-")
            if lasted > 0 and under and row.priority_class in (None, values["priority_class"]):
                total += values["used_gpu_milli"] * lasted
        assert use.used == total, row
    return state


def _month_of(now: datetime) -> datetime:
    return datetime(now.year, now.month, 1, tzinfo=UTC)


def check_evictions(story: Story, at_limit: str) -> None:
    evicted = [record.data for record in story.records if getattr(record.data, "cause", None) == "budget"]
    if at_limit != "evict":
        assert not evicted


def check_levels(story: Story) -> None:
    """Within a month, without top-ups and changes of policy, a budget is at its warning once and exhausted once."""
    seen: set[tuple[str, str, int]] = set()
    for record in story.records:
        if type(record.data).__name__ == "PolicyApplied":
            seen.clear()
        if isinstance(record.data, decisions.BudgetLevelChanged) and record.data.level != "within":
            key = (record.data.budget, record.data.level, record.data.month)
            assert key not in seen, record
            seen.add(key)


@pytest.mark.parametrize("at_limit", KINDS)
@settings(max_examples=12, deadline=None)
@given(cycles=steps(40))
def test_in_random_pools(at_limit: str, cycles: list) -> None:
    story = Budgeted(at_limit, 1).play(cycles)
    state = check_use(story.wires)
    assert state_digest(state) == state_digest(from_snapshot(to_snapshot(state))) == state_digest(folded(story.wires))
    check_evictions(story, at_limit)
    check_levels(story)
    story.holds()


@settings(max_examples=10, deadline=None)
@given(busy_steps(60))
def test_in_busy_pools_over_the_end_of_a_month(story_steps: list) -> None:
    rules = policy(
        **{
            **busy_stories.RULES.model_dump(mode="json", exclude={"budgets"}),
            "budgets": [{"name": "train", "priority_class": "train", "gpu_hours": 200, "at_limit": "stop-admitting"}],
        }
    )
    with patch.object(busy_stories, "RULES", rules):
        busy = Busy()
    busy.story.time += 31 * DAY - 3_600_000_000
    story = busy.play(story_steps)
    check_use(story.wires)
    check_evictions(story, "stop-admitting")
    story.holds()


@settings(max_examples=10, deadline=None)
@given(busy_steps(60))
def test_a_budget_that_nobody_uses_up_changes_no_decision(story_steps: list) -> None:
    plain = Busy().play(story_steps)
    data = busy_stories.RULES.model_dump(mode="json", exclude={"budgets"})
    rules = policy(**{**data, "budgets": [{"name": "all", "gpu_hours": 1_000_000, "at_limit": "evict"}]})
    with patch.object(busy_stories, "RULES", rules):
        budgeted = Busy().play(story_steps)
    assert [each.data for each in budgeted.records[2:]] == [each.data for each in plain.records[2:]]


def test_the_histories_use_up_budgets() -> None:
    """So that the properties above are about something."""
    from random import Random

    found: dict[str, int] = {}
    for seed in range(8):
        chance, random = Budgeted(KINDS[seed % 4], 1), Random(seed)
        chance.play([[(random.randrange(60), random.randrange(12), random.randrange(24))] for _ in range(60)])
        for record in chance.story.records:
            if isinstance(record.data, decisions.BudgetLevelChanged):
                found[record.data.level] = found.get(record.data.level, 0) + 1
    assert min(found[level] for level in ("within", "warning", "exhausted")) > 0, found
