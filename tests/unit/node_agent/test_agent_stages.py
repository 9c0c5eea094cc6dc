"""Eviction stages of tasks with the job contract: their order, deadlines, and no report lost or sent twice over a restart.

Time is virtual: nothing here waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.agent_kit import carry_out
from tests.simulation.processes import VirtualLoop

from bailiff_bus.messages import (
    CancelEviction,
    CheckpointAtStep,
    DeviceQuarantinedReport,
    Evict,
    EvictionStageReport,
    Fence,
    JobSpec,
    NodeInventory,
    ReportBody,
    StartTask,
    TaskAssignment,
    TaskCancelEvictionRefusedReport,
    TaskEvictionCancelledReport,
    TaskExitedReport,
    TaskProgressReport,
    TaskReleasedReport,
    TaskResumedReport,
)
from bailiff_bus.messages.commands import RecordRef
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.devices import SimulatedInventory
from bailiff_node_agent.disk import EvictionStore, Fences, MemoryStorage, Reports, new_incarnation
from bailiff_node_agent.reporter import decode_report
from bailiff_node_agent.runtime import SimulatedMachine, TaskKey
from bailiff_node_agent.runtime.simulated import SimulatedRuntime
from bailiff_node_agent.settings import NodeDeclaration
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics

SECOND = 1_000_000
KEY = TaskKey("job", 1, "0")
ALONE = TaskAssignment(task=0)


class World:
    """One machine, and an agent that can die and come back."""

    def __init__(self) -> None:
        self.machine, self.storage = SimulatedMachine(), MemoryStorage()
        self.inventory = SimulatedInventory("2xH100-80GB", "n1", self.machine.identify)
        self.machine.attach_devices(self.inventory)
        self.running: asyncio.Task[None] | None = None
        self.sent_reports: list[ReportBody] = []

    async def agent_starts(self) -> None:
        runtime = SimulatedRuntime(self.machine)
        clock_and_ids = replace(SYSTEM, boot=lambda: int(asyncio.get_running_loop().time() * 1_000_000))
        parts = AgentContext(
            node=NodeDeclaration(name="n1", pool="pool-a", gpus="2xH100-80GB"),
            inventory=self.inventory,
            runtimes={"simulated": runtime},
            storage=self.storage,
            fences=Fences(self.storage),
            reports=Reports(self.storage),
            evictions=EvictionStore(self.storage),
            incarnation=new_incarnation(self.storage, machine_id="m1"),
            folder=Path("/nowhere"),
        )
        self.agent = Agent(parts, clock_and_ids, Metrics(), self.collect)
        await self.agent.adopt()
        self.running = asyncio.get_running_loop().create_task(self.agent.run())
        await asyncio.sleep(0)

    def collect(self) -> None:
        for number, kept in self.agent.context.reports.unsent():
            self.sent_reports.append(decode_report(kept))
            self.agent.context.reports.sent(number)

    async def agent_dies(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)
        self.machine.listen(None, None)

    def common(self, seq: int) -> dict[str, Any]:
        incarnation = self.agent.context.incarnation.incarnation
        position = {"node": "n1", "incarnation": incarnation, "sender_epoch": 1, "ordered_by": RecordRef(epoch=1, seq=seq)}
        return {**position, "job": "job", "attempt": 1}

    async def starts(self, talks: str | None = "10:2", world: int = 1, task: TaskAssignment = ALONE, **env: str) -> None:
        spec = JobSpec(command="train", runtime="simulated", env=env | ({"BAILIFF_SIM_CHECKPOINTS": talks} if talks else {}))
        about = {"tasks": (task,), "spec": spec, "grace": SECOND, "master_node": "n1", "world_size": world}
        await carry_out(self.agent, StartTask(sender="admission", **self.common(5), **about))

    def leaves(self, grace: int = 150, term_after: int | None = 120) -> dict[str, Any]:
        soft = None if term_after is None else term_after * SECOND
        return {"tasks": (0,), "grace": grace * SECOND, "term_after": soft, "cause": "preemption", "for_job": "serve-1"}

    async def evict(self, grace: int = 150, term_after: int | None = 120) -> None:
        await carry_out(self.agent, Evict(sender="executor", **self.common(9), **self.leaves(grace, term_after)))

    async def cancel_eviction(self, seq: int = 20) -> None:
        await carry_out(self.agent, CancelEviction(sender="executor", **self.common(seq), tasks=(0,)))

    async def together(self, step: int, *, agreed: bool = False) -> None:
        await carry_out(self.agent, CheckpointAtStep(sender="executor", **self.common(9), tasks=(0,), step=step, agreed=agreed))

    def of(self, kind: type[Any]) -> list[Any]:
        return [report for report in self.sent_reports if isinstance(report, kind)]

    def stages(self) -> list[tuple[str, int]]:
        """Each with its seconds since the notice, in the order of the reports."""
        return [(report.stage, round(report.elapsed / SECOND)) for report in self.of(EvictionStageReport)]


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
        ("noticed", 0), ("acknowledged", 0), ("checkpoint_started", 0), ("checkpoint_committed", 2), ("yielding", 2),
    ]  # fmt: skip
    noticed, acknowledged, _, committed, _ = world.of(EvictionStageReport)
    assert (noticed.attached, noticed.term_after, noticed.kill_after, noticed.step, noticed.step_rate_milli) == (
        True, 120 * SECOND, 150 * SECOND, 300, 10_000,
    )  # fmt: skip
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
        ("noticed", 300), ("acknowledged", 300), ("step_confirmed", 302), ("step_confirmed", 305), ("step_agreed", 305),
        ("checkpoint_started", 305), ("checkpoint_committed", None), ("yielding", None),
    ]  # fmt: skip
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
        ("noticed", 0), ("acknowledged", 0), ("checkpoint_started", 0), ("checkpoint_committed", 60), ("yielding", 60),
    ]  # fmt: skip
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
    assert saved_at == [
        (0, 0),
        *((n, SECOND) for n in (9, 19, 29)),
    ]


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
        "noticed", "acknowledged", "checkpoint_started", "checkpoint_committed", "yielding",
    ]  # fmt: skip
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
