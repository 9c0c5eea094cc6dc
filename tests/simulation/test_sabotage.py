"""Mutation tests of the simulation: each sabotage of a service must make some early seed fail."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bailiff_admission import truncation
from bailiff_bus.messages import TaskReleasedReport
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
    """Every command is obeyed, of whatever age."""
    patch.setattr(Fences, "obey", lambda _fences, _job, _attempt, tasks, _position: dict.fromkeys(tasks, "new"))
    patch.setattr(Fences, "admission_epoch_ok", lambda *_: True)


def commands_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Admission takes a record that was handed over for one that is committed."""
    append = AuditWriter.append

    async def hasty(self: AuditWriter, records: Any) -> Any:
        await append(self, records)
        now: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        now.set_result(Committed(self.next_head, self.offset, self.last_append_time or 0, ()))
        return now

    patch.setattr(AuditWriter, "append", hasty)
    patch.setattr("bailiff_admission.clock.LogClock.differs_from", lambda *_: None)


def released_before_proved(patch: pytest.MonkeyPatch) -> None:
    """A notice counts as the release of the GPUs."""
    reach = EvictionStages.reach

    def hasty(self: EvictionStages, held: Any, eviction: Any, name: Any, **facts: Any) -> None:
        reach(self, held, eviction, name, **facts)
        self.reporter.report_task(held.key, held.order, TaskReleasedReport)

    patch.setattr(EvictionStages, "reach", hasty)


def eviction_before_it_has_begun(patch: pytest.MonkeyPatch) -> None:
    """The executor tells agents of what is only decided."""

    def hasty(pool: Any) -> Any:
        for entry in pending_messages.active_evictions(pool):
            eviction = entry.eviction
            if eviction.cancel_seq is None:
                tasks = [task for task in entry.tasks if task.state in ("starting", "running")]
                for node, numbers in pending_messages._by_node(tasks):
                    common = pending_messages._common(pool, entry.job, node, eviction.decided_seq)
                    yield pending_messages.Evict(**common, tasks=numbers, grace=eviction.grace, cause=eviction.cause)

    patch.setattr("bailiff_eviction_executor.executor.pending_commands", hasty)


def start_before_room_is_free(patch: pytest.MonkeyPatch) -> None:
    """A promise is kept while its victims are still there."""
    patch.setattr(reservations, "_resources_free", lambda *_: True)


def log_continues_after_a_loss(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether agents have obeyed what the log does not hold."""
    patch.setattr(truncation, "beyond_log_end", lambda *_: False)


def settled_before_the_forgotten_are_gone(patch: pytest.MonkeyPatch) -> None:
    """Admission asks no agent what it runs after a loss."""
    patch.setattr(truncation.TruncationReconciliation, "is_over", lambda *_: True)


def forgotten_agents_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """After a loss admission asks only the agents that the log still knows."""

    async def never(*_: object) -> int:
        return 0

    patch.setattr(truncation, "oldest_append_time", never)
    patch.setattr(truncation.TruncationReconciliation, "_note", lambda *_: None)


def a_failed_decision_rejects_its_input(patch: pytest.MonkeyPatch) -> None:
    """A report that frees resources for a job on which deciding fails is rejected, instead of the job being blocked."""
    patch.setattr("bailiff_admission.writer._failed_job", lambda *_: None)


@pytest.mark.parametrize(
    "sabotage",
    [
        agent_without_fences,
        commands_before_commit,
        released_before_proved,
        eviction_before_it_has_begun,
        start_before_room_is_free,
    ],
)
def test_sabotage_is_detected(sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch)
    found = next(((seed, violation) for seed in SEEDS if (violation := run(seed).violation) is not None), None)
    assert found is not None, f"{sabotage.__name__} passed {len(SEEDS)} seeds unnoticed"
    print(sabotage.__name__, *found)


def without_cuts(plan: Plan) -> Plan:
    return replace(plan, events=tuple(event for event in plan.events if event.kind != "log-cut"))


def without_failures(plan: Plan) -> Plan:
    return replace(plan, undecidable=())


@pytest.mark.parametrize(
    ("sabotage", "without_fault"),
    [
        (log_continues_after_a_loss, without_cuts),
        (settled_before_the_forgotten_are_gone, without_cuts),
        (a_failed_decision_rejects_its_input, without_failures),
    ],
)
def test_sabotage_that_needs_a_certain_fault_is_detected(
    sabotage: Sabotage, without_fault: Callable[[Plan], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that fault is the cause: the same run without it does not fail in this way."""
    sabotage(monkeypatch)
    seeds = [seed for seed in range(400) if without_fault(plan_of(seed)) != plan_of(seed)][:30]
    found = next((outcome for outcome in map(run, seeds) if outcome.violation is not None), None)
    assert found is not None, f"{sabotage.__name__} passed {len(seeds)} seeds unnoticed"
    assert found.violation is not None
    print(sabotage.__name__, found.violation)
    assert kind_of(run(without_fault(found.plan)).violation or "") != kind_of(found.violation)


def forgets_its_agents(seed: int) -> Plan:
    """What agents have said is gone, and then the log back to its beginning, so also that they have joined."""
    gone, cut = Event(20.0, "inputs-gone", "everybody", 1.0), Event(21.0, "log-cut", "everybody", 3.0, messages=100)
    return replace(plan_of(seed), events=(gone, cut))


def test_a_log_that_has_forgotten_its_agents_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        forgotten_agents_are_not_waited_for(patch)
        early = [outcome for outcome in map(run, map(forgets_its_agents, range(6))) if outcome.violation is not None]
    assert early, "it was never noticed that they still run something"
    for outcome in early:
        assert "which the log has forgotten" in (outcome.violation or "")
        assert run(outcome.plan).violation is None


def test_a_seed_that_fails_shrinks_to_a_short_story_that_still_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    start_before_room_is_free(monkeypatch)
    long = next(outcome for outcome in map(run, SEEDS) if outcome.violation is not None)
    short = shrink(long, longest_s=100.0)
    print(short.story())
    plan = short.plan
    assert kind_of(short.violation or "") == kind_of(long.violation or "")
    assert run(plan).story() == short.story()
    assert not plan.events, "nothing needs to go wrong for this"
    assert (plan.bad, plan.slow) == (0, 0)
    assert len(plan.posts) <= 3, "one job with the resources, one that needs them, and perhaps one that frees them"
    assert len(plan.nodes) <= 2
    assert len(short.witness.lines) < len(long.witness.lines)


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
        ("after #54: rule: device 0 is held 6/5 times, by job-12", "after #9: rule: device 1 is held 2 times, by job-3"),
        ("at the end: job-7 is still starting: ['starting'], eviction None", "at the end: job-17 is still starting: ['running']"),
    ],
)
def test_violations_of_one_kind_differ_in_names_and_numbers_only(one: str, other: str) -> None:
    assert kind_of(one) == kind_of(other) != kind_of("agent-node-0 died of KeyError: 'process' (/somewhere/agent.py:409)")
