"""Mutation tests of the simulation: each sabotage of a service must make some early seed fail."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bailiff_admission import truncation
from bailiff_bus.messages.reports import TaskReleasedReport
from bailiff_core.lifecycle import reservations
from bailiff_eviction_executor import pending_messages
from bailiff_log.writer import AuditWriter, Committed
from bailiff_node_agent.disk import Fences
from bailiff_node_agent.tasks.stages import EvictionStages

from .faults import Event
from .plan import Plan, plan_of
from .shrink import fewest, kind_of, shrink
from .world import run

SEEDS = range(20)

Sabotage = Callable[[pytest.MonkeyPatch], None]


def agent_without_fences(patch: pytest.MonkeyPatch) -> None:
    """Agents carry out every command, also outdated ones."""
    patch.setattr(Fences, "obey", lambda _fences, _job, _attempt, tasks, *_: dict.fromkeys(tasks, "new"))
    patch.setattr(Fences, "admission_epoch_ok", lambda *_: True)


def commands_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Admission treats a sent record as committed."""
    append = AuditWriter.append

    async def append_early(self: AuditWriter, records: Any) -> Any:
        await append(self, records)
        now: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        now.set_result(Committed(self.next_head, self.offset, self.last_append_time or 0, ()))
        return now

    patch.setattr(AuditWriter, "append", append_early)
    patch.setattr("bailiff_admission.clock.LogClock.differs_from", lambda *_: None)


def released_before_proved(patch: pytest.MonkeyPatch) -> None:
    """A notice counts as the release of the GPUs."""
    reach = EvictionStages.reach

    def reach_and_release(self: EvictionStages, task: Any, eviction: Any, name: Any, **facts: Any) -> None:
        reach(self, task, eviction, name, **facts)
        self.reporter.report_task(task.key, task.ordered_by, TaskReleasedReport)

    patch.setattr(EvictionStages, "reach", reach_and_release)


def eviction_before_it_has_started(patch: pytest.MonkeyPatch) -> None:
    """The executor sends commands for evictions that are decided and not started."""

    def commands_too_early(pool: Any) -> Any:
        for entry in pending_messages.active_evictions(pool):
            eviction = entry.eviction
            if eviction.cancel_seq is None:
                tasks = [task for task in entry.tasks if task.state in ("starting", "running")]
                for node, numbers in pending_messages._by_node(tasks):
                    common = pending_messages._common(pool, entry.job, node, eviction.decided_seq)
                    yield pending_messages.Evict(**common, tasks=numbers, grace=eviction.grace, cause=eviction.cause)

    patch.setattr("bailiff_eviction_executor.executor.pending_commands", commands_too_early)


def start_before_resources_are_free(patch: pytest.MonkeyPatch) -> None:
    """A reserved job starts while its victims still run."""
    patch.setattr(reservations, "_resources_free", lambda *_: True)


def log_continues_after_a_truncation(patch: pytest.MonkeyPatch) -> None:
    """Admission does not check whether agents have obeyed records that the log lacks."""
    patch.setattr(truncation, "beyond_log_end", lambda *_: False)


def reconciled_before_unknown_tasks_are_gone(patch: pytest.MonkeyPatch) -> None:
    """After a truncation admission waits for no inventory."""
    patch.setattr(truncation.TruncationReconciliation, "is_over", lambda *_: True)


def unknown_agents_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """After a truncation admission waits only for agents that are still in the log."""

    async def never(*_: object) -> int:
        return 0

    patch.setattr(truncation, "oldest_append_time", never)
    patch.setattr(truncation.TruncationReconciliation, "_note", lambda *_: None)


def a_failed_decision_rejects_its_input(patch: pytest.MonkeyPatch) -> None:
    """A report that frees resources for a job on which deciding fails is rejected, instead of the job being blocked."""
    patch.setattr("bailiff_admission.cycle._failed_job", lambda *_: None)


@pytest.mark.parametrize(
    "sabotage",
    [
        agent_without_fences,
        commands_before_commit,
        released_before_proved,
        eviction_before_it_has_started,
        start_before_resources_are_free,
    ],
)
def test_sabotage_is_detected(sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch)
    found = next(((seed, violation) for seed in SEEDS if (violation := run(seed).violation) is not None), None)
    assert found is not None, f"{sabotage.__name__} was not detected by {len(SEEDS)} seeds"
    print(sabotage.__name__, *found)


def without_truncations(plan: Plan) -> Plan:
    return replace(plan, events=tuple(event for event in plan.events if event.kind != "log-truncation"))


def without_failures(plan: Plan) -> Plan:
    return replace(plan, undecidable=())


@pytest.mark.long
@pytest.mark.parametrize(
    ("sabotage", "without_fault"),
    [
        (log_continues_after_a_truncation, without_truncations),
        (reconciled_before_unknown_tasks_are_gone, without_truncations),
        (a_failed_decision_rejects_its_input, without_failures),
    ],
)
def test_sabotage_that_needs_a_certain_fault_is_detected(
    sabotage: Sabotage, without_fault: Callable[[Plan], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is the cause: the same run without it does not fail in this way."""
    sabotage(monkeypatch)
    seeds = [seed for seed in range(400) if without_fault(plan_of(seed)) != plan_of(seed)][:30]
    found = next((outcome for outcome in map(run, seeds) if outcome.violation is not None), None)
    assert found is not None, f"{sabotage.__name__} was not detected by {len(seeds)} seeds"
    assert found.violation is not None
    print(sabotage.__name__, found.violation)
    assert kind_of(run(without_fault(found.plan)).violation or "") != kind_of(found.violation)


def plan_that_loses_its_agents(seed: int) -> Plan:
    """The reports are deleted, then the log is truncated to its first records, so that it does not contain the agents."""
    gone, cut = Event(20.0, "inputs-deleted", "all", 1.0), Event(21.0, "log-truncation", "all", 3.0, messages=100)
    return replace(plan_of(seed), events=(gone, cut))


@pytest.mark.long
def test_a_log_that_lost_its_agents_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        unknown_agents_are_not_waited_for(patch)
        early = [outcome for outcome in map(run, map(plan_that_loses_its_agents, range(6))) if outcome.violation is not None]
    assert early, "no run detected that unknown agents still run tasks"
    for outcome in early:
        assert "its start is not in the log" in (outcome.violation or "")
        assert run(outcome.plan).violation is None


@pytest.mark.long
def test_a_seed_that_fails_shrinks_to_a_short_story_that_still_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    start_before_resources_are_free(monkeypatch)
    long = next(outcome for outcome in map(run, SEEDS) if outcome.violation is not None)
    short = shrink(long, longest_s=100.0)
    print(short.story())
    plan = short.plan
    assert kind_of(short.violation or "") == kind_of(long.violation or "")
    assert run(plan).story() == short.story()
    assert not plan.events, "the violation needs no fault"
    assert (plan.bad, plan.slow) == (0, 0)
    assert len(plan.posts) <= 3, "one job with the resources, one that needs them, and perhaps one that frees them"
    assert len(plan.nodes) <= 2
    assert len(short.checker.lines) < len(long.checker.lines)


def test_removed_parts_of_a_plan_were_not_needed() -> None:
    tried = []

    def needs_3_and_7(items: Sequence[int]) -> bool:
        tried.append(items)
        return {3, 7} <= set(items)

    assert fewest(range(20), needs_3_and_7) == [3, 7]
    assert len(tried) < 40
    assert fewest(range(5), lambda items: True) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "after #54: rule: device 0 is allocated 6/5 times, by job-12",
            "after #9: rule: device 1 is allocated 2 times, by job-3",
        ),
        ("at the end: job-7 is still starting: ['starting'], eviction None", "at the end: job-17 is still starting: ['running']"),
    ],
)
def test_violations_of_one_kind_differ_in_names_and_numbers_only(one: str, other: str) -> None:
    assert kind_of(one) == kind_of(other) != kind_of("agent-node-0 failed with KeyError: 'process' (/somewhere/agent.py:409)")
