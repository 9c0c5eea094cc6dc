"""Eviction stages of tasks with the job contract: their order, deadlines, and no report lost or sent twice over a restart.

Time is virtual: nothing here waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from tests.kits.agent import carry_out
from tests.simulation.processes import VirtualLoop
from tests.unit.node_agent.stages import SECOND, World

from bailiff_bus.messages.commands import Evict, Fence, TaskAssignment
from bailiff_bus.messages.devices import DeviceQuarantinedReport
from bailiff_bus.messages.reports import (
    EvictionStageReport,
    NodeInventory,
    TaskCancelEvictionRefusedReport,
    TaskEvictionCancelledReport,
    TaskExitedReport,
    TaskProgressReport,
    TaskReleasedReport,
    TaskResumedReport,
)
from bailiff_node_agent.runtime import TaskKey

KEY = TaskKey("job", 1, "0")


def story(tells: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test in virtual time."""

    def test() -> None:
        async def whole() -> None:
            world = World()
            await world.agent_starts()
            await carry_out(
                world.agent,
                Fence(node="n1", incarnation=world.agent.context.incarnation.incarnation, sender="admission", sender_epoch=1),
            )
            await tells(world)
            await world.agent_dies()

        loop = VirtualLoop()
        try:
            loop.run_until_complete(whole())
        finally:
            loop.close()

    test.__name__, test.__doc__ = tells.__name__, tells.__doc__
    return test


@story
async def test_a_job_with_the_library_gets_its_notice_and_exits_by_itself(world: World) -> None:
    await world.starts()
    await asyncio.sleep(30)
    await world.evict()
    await asyncio.sleep(10)
    assert world.stages() == [
        ("noticed", 0),
        ("acknowledged", 0),
        ("checkpoint_started", 0),
        ("checkpoint_committed", 2),
        ("yielding", 2),
    ]
    noticed, acknowledged, _, committed, _ = world.of(EvictionStageReport)
    assert (noticed.attached, noticed.term_after, noticed.kill_after, noticed.step, noticed.step_rate_milli) == (
        True,
        120 * SECOND,
        150 * SECOND,
        300,
        10_000,
    )
    assert acknowledged.step == 300
    assert (committed.checkpoint.step, committed.checkpoint.duration, committed.step) == (301, 2 * SECOND, None)
    assert [report.exit_code for report in world.of(TaskExitedReport)] == [85]
    assert world.sent_reports.index(committed) < world.sent_reports.index(world.of(TaskExitedReport)[0])


@story
async def test_a_script_that_knows_nothing_has_term_with_the_notice_and_all_of_its_grace(world: World) -> None:
    await world.starts(talks=None, BAILIFF_SIM_ON_TERM="ignore")
    await world.evict()
    await asyncio.sleep(200)
    assert world.stages() == [("noticed", 0), ("term_sent", 0), ("kill_sent", 150)]
    noticed, term, kill = world.of(EvictionStageReport)
    assert (noticed.attached, noticed.term_after, term.stuck_in, kill.stuck_in) == (False, 0, None, "noticed")


@story
async def test_a_job_that_is_slower_than_its_deadlines_is_stopped_where_it_was_stuck(world: World) -> None:
    await world.starts(talks="10:1000", BAILIFF_SIM_ON_TERM="ignore")
    await world.evict()
    await asyncio.sleep(200)
    assert world.stages()[2:] == [("checkpoint_started", 0), ("term_sent", 120), ("kill_sent", 150)]
    *_, term, kill = world.of(EvictionStageReport)
    assert (term.stuck_in, kill.stuck_in) == ("checkpoint_started", "checkpoint_started")
    assert [report.exit_code for report in world.of(TaskExitedReport)] == [-9]


@story
async def test_a_rank_confirms_the_step_or_raises_it_and_saves_when_all_agree(world: World) -> None:
    await world.starts(world=2)
    await asyncio.sleep(30)
    await world.evict()
    await asyncio.sleep(0)
    await world.together(250)
    await asyncio.sleep(0)
    await world.together(305)
    await asyncio.sleep(0)
    await world.together(305, agreed=True)
    await asyncio.sleep(10)
    assert [(report.stage, report.step) for report in world.of(EvictionStageReport)] == [
        *(("noticed", 300), ("acknowledged", 300), ("step_confirmed", 302), ("step_confirmed", 305), ("step_agreed", 305)),
        *(("checkpoint_started", 305), ("checkpoint_committed", None), ("yielding", None)),
    ]
    assert world.of(EvictionStageReport)[-2].checkpoint.agreed is True


@story
async def test_without_agreement_it_saves_at_the_soft_deadline_and_reports_it(world: World) -> None:
    await world.starts(world=2)
    await world.evict(grace=30, term_after=20)
    await asyncio.sleep(19)
    await world.together(500)
    await asyncio.sleep(1.5)
    await world.together(500, agreed=True)  # it comes too late: others have saved without
    await asyncio.sleep(10)
    sent_reports = world.of(EvictionStageReport)
    assert "step_agreed" not in [stage for stage, _ in world.stages()]
    assert next(report for report in sent_reports if report.stage == "checkpoint_committed").checkpoint.agreed is False


@story
async def test_a_shortened_grace_kills_earlier_and_says_so(world: World) -> None:
    await world.starts(talks="10:600", BAILIFF_SIM_ON_TERM="ignore")
    await world.evict(grace=100_000, term_after=80_000)
    await asyncio.sleep(10)
    world.sent_reports.clear()
    await world.evict(grace=30, term_after=24, seq=10)
    await asyncio.sleep(1)
    noticed = next(report for report in world.of(EvictionStageReport) if report.stage == "noticed")
    assert (noticed.term_after, noticed.kill_after) == (24 * SECOND, 30 * SECOND)
    await asyncio.sleep(100)
    (kill,) = (report for report in world.of(EvictionStageReport) if report.stage == "kill_sent")
    assert round(kill.elapsed / SECOND) == 30
    assert [report.exit_code for report in world.of(TaskExitedReport)] == [-9]


@story
async def test_a_grace_is_never_lengthened(world: World) -> None:
    await world.starts(talks="10:600", BAILIFF_SIM_ON_TERM="ignore")
    await world.evict(grace=30, term_after=24)
    await asyncio.sleep(1)
    await world.evict(grace=100_000, term_after=80_000, seq=10)
    await asyncio.sleep(60)
    assert [round(report.elapsed / SECOND) for report in world.of(EvictionStageReport) if report.stage == "kill_sent"] == [30]


@story
async def test_a_restarted_agent_keeps_a_shortened_grace(world: World) -> None:
    await world.starts(talks="10:600", BAILIFF_SIM_ON_TERM="ignore")
    await world.evict(grace=100_000, term_after=80_000)
    await asyncio.sleep(1)
    await world.evict(grace=30, term_after=24, seq=10)
    await asyncio.sleep(1)
    await world.agent_dies()
    await asyncio.sleep(5)
    world.sent_reports.clear()
    await world.agent_starts()
    await asyncio.sleep(60)
    assert [report.exit_code for report in world.of(TaskExitedReport)] == [-9]


@story
async def test_a_restarted_agent_reports_all_stages_and_keeps_the_deadlines(world: World) -> None:
    await world.starts(talks="10:60", BAILIFF_SIM_ON_TERM="ignore")
    await asyncio.sleep(30)
    await world.evict(grace=100, term_after=80)
    await asyncio.sleep(1)
    await world.agent_dies()
    await asyncio.sleep(70)  # it saves, and leaves
    world.sent_reports.clear()
    await world.agent_starts()
    await asyncio.sleep(100)
    (to_report,) = world.of(NodeInventory)
    (held,) = to_report.tasks
    assert [(stage.stage, round(stage.elapsed / SECOND)) for stage in held.stages] == [
        ("noticed", 0),
        ("acknowledged", 0),
        ("checkpoint_started", 0),
        ("checkpoint_committed", 60),
        ("yielding", 60),
    ]
    assert (held.stages[0].step, held.stages[0].term_after, held.exit_code) == (300, 80 * SECOND, 85)
    assert world.stages() == []


@story
async def test_deadlines_of_an_earlier_agent_are_kept_by_the_next(world: World) -> None:
    await world.starts(talks="10:1000", BAILIFF_SIM_ON_TERM="ignore")
    await world.evict(grace=100, term_after=80)
    await asyncio.sleep(1)
    await world.agent_dies()
    await asyncio.sleep(30)
    world.sent_reports.clear()
    await world.agent_starts()
    await asyncio.sleep(100)
    assert world.stages() == [("term_sent", 80), ("kill_sent", 100)]


def supervised(world: World, *stages: str) -> None:
    """The task's supervisor does this, too, at its deadline."""
    handle = world.machine._on_exit
    assert handle is not None
    world.machine._on_exit = lambda end: handle(replace(end, deadline_stages=stages))


@story
async def test_a_supervisor_that_also_kills_does_not_say_that_the_agent_was_down(world: World) -> None:
    """As with a container that the engine takes long to end."""
    await world.starts(talks=None, BAILIFF_SIM_ON_TERM="ignore")
    supervised(world, "kill_sent")
    await world.evict()
    await asyncio.sleep(200)
    assert world.stages() == [("noticed", 0), ("term_sent", 0), ("kill_sent", 150)]
    assert [report.reason for report in world.of(TaskExitedReport)] == [""]


@story
async def test_a_supervisor_that_kills_before_the_agent_says_so(world: World) -> None:
    await world.starts(talks=None, BAILIFF_SIM_ON_TERM="ignore")
    supervised(world, "term_sent", "kill_sent")
    await world.evict()
    await asyncio.sleep(100)
    world.machine.kill(KEY)
    await asyncio.sleep(1)
    assert [stage for stage, _ in world.stages()] == ["noticed", "term_sent", "kill_sent"]
    assert [report.reason for report in world.of(TaskExitedReport)] == [
        "its supervisor stopped it at its deadline, because the agent was down"
    ]


@story
async def test_progress_outside_of_evictions_is_reported_at_intervals(world: World) -> None:
    await world.starts()
    task = world.machine._tasks[KEY]
    for step in range(100):
        world.machine._send(task, "progress", step=step, total=1000)
        await asyncio.sleep(1)
    assert [report.step for report in world.of(TaskProgressReport)] == [0, 600]  # the second from shared memory, a minute later
    world.sent_reports.clear()
    for step in range(30):
        saved = {"step": step, "bytes": 1, "microseconds": 1, "sha256": "0" * 64, "agreed": True}
        world.machine._send(task, "checkpoint_committed", **saved)
        await asyncio.sleep(1)
    await asyncio.sleep(0.5)
    saved_at = [(report.checkpoint.step, report.checkpoint_age) for report in world.of(TaskProgressReport)]
    assert saved_at == [(0, 0), *((n, SECOND) for n in (9, 19, 29))]


@story
async def test_the_step_of_a_resumed_job_is_reported(world: World) -> None:
    world.machine.saved["job", "0"] = (0, 120)
    await world.starts()
    await asyncio.sleep(1)
    (resumed,) = world.of(TaskResumedReport)
    assert (resumed.step, resumed.from_attempt, resumed.skipped_checkpoints) == (120, 0, 0)


@story
async def test_after_a_power_loss_the_exit_is_reported_as_unseen(world: World) -> None:
    await world.starts()
    await world.agent_dies()
    world.machine.crash()
    await world.agent_starts()
    (task,) = world.of(NodeInventory)[-1].tasks
    assert (task.state, task.exit_code, task.unobserved) == ("exited", -9, True)


@pytest.mark.parametrize(("grace", "term_after"), [(0, 0), (5, None), (5, 9)])
def test_odd_deadlines_end_a_job_all_the_same(grace: int, term_after: int | None) -> None:
    @story
    async def sent_reports(world: World) -> None:
        await world.starts(talks="10:1000", BAILIFF_SIM_ON_TERM="ignore")
        await world.evict(grace=grace, term_after=term_after)
        await asyncio.sleep(grace + 1)
        assert [report.exit_code for report in world.of(TaskExitedReport)] == [-9]

    sent_reports()


# --- notices that are taken back


@story
async def test_an_eviction_is_cancelled_while_the_job_saves_and_the_next_one_starts_anew(world: World) -> None:
    await world.starts("10:60")
    await asyncio.sleep(30)
    await world.evict()
    await asyncio.sleep(30)
    assert [stage for stage, _ in world.stages()] == ["noticed", "acknowledged", "checkpoint_started"]
    await world.cancel_eviction()
    assert len(world.of(TaskEvictionCancelledReport)) == 1
    assert world.machine.notice_of(KEY) is None
    await asyncio.sleep(300)
    assert not world.of(TaskExitedReport)
    world.sent_reports.clear()
    await carry_out(world.agent, Evict(sender="executor", **world.common(30), **world.leaves()))
    await asyncio.sleep(100)
    assert [stage for stage, _ in world.stages()] == [
        "noticed",
        "acknowledged",
        "checkpoint_started",
        "checkpoint_committed",
        "yielding",
    ]
    assert [end.exit_code for end in world.of(TaskExitedReport)] == [85]


@story
async def test_a_cancelled_eviction_stays_cancelled_for_the_next_agent_and_a_repeated_command(world: World) -> None:
    await world.starts("10:60")
    await world.evict()
    await asyncio.sleep(1)
    await world.cancel_eviction()
    await world.agent_dies()
    await world.agent_starts()
    await asyncio.sleep(300)
    await carry_out(
        world.agent, Fence(node="n1", incarnation=world.agent.context.incarnation.incarnation, sender="admission", sender_epoch=1)
    )
    await world.cancel_eviction()
    assert (
        len(world.of(TaskEvictionCancelledReport)),
        world.of(TaskExitedReport),
        world.of(TaskCancelEvictionRefusedReport),
    ) == (2, [], [])


@story
async def test_an_eviction_cannot_be_cancelled_after_term(world: World) -> None:
    await world.starts(None, BAILIFF_SIM_ON_TERM="exit:0:20")
    await world.evict()
    await asyncio.sleep(1)
    await world.cancel_eviction()
    assert (len(world.of(TaskCancelEvictionRefusedReport)), world.of(TaskEvictionCancelledReport)) == (1, [])
    await asyncio.sleep(30)
    assert len(world.of(TaskExitedReport)) == 1


# --- a task that does not end


@story
async def test_a_task_that_outlives_its_kill_has_its_device_quarantined_and_is_not_released(world: World) -> None:
    """It waits for a device that answers no more. The device is not allocated, and its resources are not reported as free."""
    gpu = world.inventory.list()[0].id
    await world.starts(None, task=TaskAssignment(task=0, devices=(gpu,)), BAILIFF_SIM_ON_TERM="ignore")
    world.machine.kill = lambda _: None  # type: ignore[method-assign]
    await world.evict(grace=10, term_after=5)
    await asyncio.sleep(60)
    assert [stage for stage, _ in world.stages()] == ["noticed", "term_sent", "kill_sent"]
    assert not world.of(DeviceQuarantinedReport), "a while after KILL is nothing unusual"
    await asyncio.sleep(30)
    (dirty,) = world.of(DeviceQuarantinedReport)
    assert (dirty.device, dirty.quarantine.reason, dirty.quarantine.job) == (gpu, "hung", "job")
    assert "of its task does not exit when killed" in dirty.quarantine.detail
    await asyncio.sleep(100)
    assert (len(world.of(DeviceQuarantinedReport)), world.of(TaskExitedReport), world.of(TaskReleasedReport)) == (1, [], [])


# --- the order of the reports says whether the task had its notice when it ended


def slowed(world: World, step: str, seconds: float) -> None:
    """The runtime's call returns so much later than it takes effect, as a call to the Kubernetes API does."""
    runtime = world.agent.context.runtimes["simulated"]
    call = getattr(runtime, step)

    async def slow(*arguments: Any) -> None:
        await call(*arguments)
        await asyncio.sleep(seconds)

    setattr(runtime, step, slow)


@story
async def test_a_job_that_exits_upon_its_notice_exits_after_it(world: World) -> None:
    """The notice has reached the job, and the call that delivers it has not returned."""
    await world.starts(talks=None, BAILIFF_SIM_ON_NOTICE="exit:1:1")
    slowed(world, "notice", 5)
    await world.evict()
    await asyncio.sleep(10)
    ends = [type(report) for report in world.sent_reports if isinstance(report, EvictionStageReport | TaskExitedReport)]
    assert ends == [EvictionStageReport, TaskExitedReport]


@story
async def test_a_job_that_ends_before_its_notice_is_delivered_has_none(world: World) -> None:
    await world.starts(talks=None, BAILIFF_SIM_RUN_FOR="1")
    slowed(world, "deadlines", 5)
    await world.evict()
    await asyncio.sleep(10)
    assert world.stages() == []
    assert [report.exit_code for report in world.of(TaskExitedReport)] == [0]


@story
async def test_an_agent_that_dies_before_its_notice_is_delivered_delivers_it_when_it_is_back(world: World) -> None:
    await world.starts()
    runtime: Any = world.agent.context.runtimes["simulated"]
    runtime.notice = lambda *_: asyncio.sleep(3600)
    await world.evict()
    await asyncio.sleep(1)
    await world.agent_dies()
    await world.agent_starts()
    await asyncio.sleep(10)
    assert "acknowledged" in dict(world.stages())
    assert [report.exit_code for report in world.of(TaskExitedReport)] == [85]
