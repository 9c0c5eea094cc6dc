"""Members of one attempt that come and go by themselves, and tasks that share devices."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.kits.agent import carry_out
from tests.kits.waiting import until
from tests.unit.node_agent.lease import SECOND, Node

from bailiff_bus.messages import reports
from bailiff_bus.messages.commands import CancelEviction, Evict, RecordRef, StartTask, TaskAssignment
from bailiff_core.model.job_spec import JobSpec
from bailiff_node_agent.agent import Agent
from bailiff_node_agent.devices.ledger import ShareLedger
from bailiff_node_agent.runtime import Exit, Launch, TaskKey

GPU = "GPU-sim-n1-0"


@pytest.fixture(autouse=True)
async def _fenced(node: Node) -> None:
    await node.fence()


def start(node: Node, job: str, seq: int, *tasks: TaskAssignment) -> StartTask:
    return StartTask.model_validate(
        {
            **node.common(),
            "ordered_by": RecordRef(epoch=1, seq=seq),
            "job": job,
            "attempt": 1,
            "spec": JobSpec(command="sleep 300", runtime="simulated"),
            "tasks": tasks,
            "grace": SECOND,
            "master_node": "n1",
        }
    )


def evict(node: Node, job: str, seq: int, *tasks: int) -> Evict:
    common = {**node.common(), "sender": "executor"}
    return Evict(
        **common, ordered_by=RecordRef(epoch=1, seq=seq), job=job, attempt=1, tasks=tasks, grace=SECOND, cause="preemption"
    )


def half(task: int = 0, milli: int = 500) -> TaskAssignment:
    return TaskAssignment(task=task, devices=(GPU,), gpu_share_milli=milli)


def messages(node: Node, kind: type[Any]) -> list[Any]:
    return [report for report in node.messages() if isinstance(report, kind)]


async def test_two_halves_of_a_device_run_side_by_side_and_a_third_part_does_not(node: Node) -> None:
    for number, job in enumerate(("one", "two")):
        await carry_out(node.agent, start(node, job, 10 + number, half()))
    assert [report.job for report in messages(node, reports.TaskStartedReport)] == ["one", "two"]
    await carry_out(node.agent, start(node, "three", 12, half(milli=100)))
    refused = messages(node, reports.TaskStartRefusedReport)
    assert [(report.job, report.reason) for report in refused] == [("three", f"{GPU} is still in use by one, attempt 1")]
    assert refused[0].in_use, "which ends by itself: the node is not excluded for the job"


async def test_a_shared_device_is_not_given_out_whole_nor_a_whole_one_shared(node: Node) -> None:
    await carry_out(node.agent, start(node, "part", 10, half()))
    await carry_out(node.agent, start(node, "whole", 11, TaskAssignment(task=0, devices=(GPU,))))
    await carry_out(node.agent, start(node, "other", 12, TaskAssignment(task=0, devices=("GPU-sim-n1-1",))))
    await carry_out(node.agent, start(node, "guest", 13, TaskAssignment(task=0, devices=("GPU-sim-n1-1",), gpu_share_bytes=1)))
    assert [report.job for report in messages(node, reports.TaskStartRefusedReport)] == ["whole", "guest"]


async def test_a_start_that_was_overtaken_on_a_shared_device_still_counts(node: Node) -> None:
    await carry_out(node.agent, start(node, "late", 20, half()))
    await carry_out(node.agent, start(node, "early", 10, half()))
    assert [report.job for report in messages(node, reports.TaskStartedReport)] == ["late", "early"]


async def test_the_next_agent_knows_the_shares_of_devices(node: Node) -> None:
    await carry_out(node.agent, start(node, "one", 10, half()))
    again = Agent(node.agent.context, node.agent._clock_and_ids, node.agent._metrics, lambda: None)
    await again.adopt()
    node.agent = again
    await node.fence()
    await carry_out(again, start(node, "two", 11, half()))
    await carry_out(again, start(node, "three", 12, half()))
    assert [report.job for report in messages(node, reports.TaskStartedReport)][-1] == "two"
    assert [report.job for report in messages(node, reports.TaskStartRefusedReport)] == ["three"]


async def test_a_share_that_is_forgotten_is_free(node: Node) -> None:
    ledger = ShareLedger(node.agent.context.storage)
    await carry_out(node.agent, start(node, "one", 10, half()))
    assert ShareLedger(node.agent.context.storage).part("one-1-0") is not None
    held = node.agent.tasks[TaskKey("one", 1, "0")]
    node.machine.kill(held.key)
    await node.agent._releaser._forget(held)
    assert ShareLedger(node.agent.context.storage).part("one-1-0") is None
    assert ledger.part("never heard of") is None


async def test_the_tasks_of_a_gang_start_concurrently(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = node.agent.context.runtimes["simulated"]
    begun, start_one = asyncio.Barrier(2), runtime.start

    async def once_both_begin(launch: Launch) -> Any:
        await begun.wait()
        return await start_one(launch)

    monkeypatch.setattr(runtime, "start", once_both_begin)
    async with asyncio.timeout(60):
        await carry_out(node.agent, start(node, "wide", 10, TaskAssignment(task=0), TaskAssignment(task=1)))
    assert sorted(report.task for report in messages(node, reports.TaskStartedReport)) == [0, 1]


class SlowStarts:
    """Holds each start of these jobs back until the test permits it."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch, *jobs: str) -> None:
        self.begun = list[str]()
        self.permitted = {job: asyncio.Event() for job in jobs}
        start_now = node.runtime.start

        async def start_later(launch: Launch) -> Any:
            self.begun.append(launch.key.job)
            if launch.key.job in self.permitted:
                await self.permitted[launch.key.job].wait()
            return await start_now(launch)

        monkeypatch.setattr(node.runtime, "start", start_later)


async def test_a_job_starts_while_another_one_takes_long_to_start(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = SlowStarts(node, monkeypatch, "slow")
    await node.agent.obey(start(node, "slow", 10, TaskAssignment(task=0)))
    await carry_out(node.agent, start(node, "quick", 11, TaskAssignment(task=0)))
    assert [report.job for report in messages(node, reports.TaskStartedReport)] == ["quick"]
    starts.permitted["slow"].set()
    await node.agent.launched("slow")
    assert [report.job for report in messages(node, reports.TaskStartedReport)] == ["quick", "slow"]


async def test_the_devices_of_a_task_that_is_starting_are_in_use(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = SlowStarts(node, monkeypatch, "slow")
    await node.agent.obey(start(node, "slow", 10, TaskAssignment(task=0, devices=(GPU,))))
    await carry_out(node.agent, start(node, "thief", 11, TaskAssignment(task=0, devices=(GPU,))))
    (refused,) = messages(node, reports.TaskStartRefusedReport)
    assert refused.job == "thief"
    assert GPU in refused.reason
    starts.permitted["slow"].set()
    await node.agent.launched("slow")
    assert starts.begun == ["slow"]


async def test_an_eviction_waits_until_its_task_has_started(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = SlowStarts(node, monkeypatch, "slow")
    await node.agent.obey(start(node, "slow", 10, TaskAssignment(task=0)))
    eviction = asyncio.create_task(node.agent.obey(evict(node, "slow", 30, 0)))
    await carry_out(node.agent, start(node, "other", 31, TaskAssignment(task=0)))
    assert not eviction.done()
    starts.permitted["slow"].set()
    await eviction
    assert [report.job for report in messages(node, reports.TaskStartedReport)] == ["other", "slow"]
    assert not messages(node, reports.TaskStartRefusedReport)  # as an eviction of a task that is not there would say


class Pulls:
    """Tasks begin when the test says so, as once their image has been pulled; or they end before."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begins: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        start_now, adopt_now = node.runtime.start, node.runtime.adopt

        async def start_slowly(launch: Launch) -> Any:
            return replace(await start_now(launch), begun=False)

        async def adopt() -> Any:
            return [replace(state, begun=False) for state in await adopt_now()]

        monkeypatch.setattr(node.runtime, "start", start_slowly)
        monkeypatch.setattr(node.runtime, "adopt", adopt)
        monkeypatch.setattr(node.runtime, "begun", lambda _: self.begins)


async def test_a_task_whose_image_is_pulled_has_not_started_also_for_the_next_agent(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls = Pulls(node, monkeypatch)
    await carry_out(node.agent, start(node, "slow", 10, TaskAssignment(task=0, devices=(GPU,))))
    await carry_out(node.agent, start(node, "slow", 10, TaskAssignment(task=0, devices=(GPU,))))  # repeated
    assert not messages(node, reports.TaskStartedReport)
    node.agent = Agent(node.agent.context, node.agent._clock_and_ids, node.agent._metrics, lambda: None)
    await node.agent.adopt()
    (entry,) = messages(node, reports.NodeInventory)[-1].tasks
    assert (entry.state, entry.begun) == ("running", False)
    assert not messages(node, reports.TaskStartedReport)
    node.agent._starter.resume(node.agent.tasks[TaskKey("slow", 1, "0")])
    pulls.begins.set_result(True)
    await until(lambda: messages(node, reports.TaskStartedReport))
    assert node.agent.tasks[TaskKey("slow", 1, "0")].begun


@pytest.mark.parametrize("began", [False, True])
async def test_what_ends_before_it_began_has_no_exit_of_its_own(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, began: bool
) -> None:
    """One that began and ended at once has: its start is reported first."""
    Pulls(node, monkeypatch)
    await carry_out(node.agent, start(node, "slow", 10, TaskAssignment(task=0)))
    task = node.agent.tasks[TaskKey("slow", 1, "0")]
    node.agent._exits.exited(task, Exit(task.key, 126, 0, error="no such image", begun=began))
    found = [report for report in node.messages() if isinstance(report, (reports.TaskStartedReport, reports.TaskExitedReport))]
    assert [type(report).__name__ for report in found] == ["TaskStartedReport"] * began + ["TaskExitedReport"]
    assert found[-1].unobserved is not began


async def test_a_task_starts_while_another_one_is_evicted(node: Node) -> None:
    await carry_out(node.agent, start(node, "wide", 10, TaskAssignment(task=0), TaskAssignment(task=1)))
    await carry_out(node.agent, evict(node, "wide", 30, 1))
    await carry_out(node.agent, start(node, "wide", 25, TaskAssignment(task=2)))  # ordered before, delivered after
    assert [report.task for report in messages(node, reports.TaskStartedReport)] == [0, 1, 2]
    await carry_out(node.agent, start(node, "wide", 29, TaskAssignment(task=1)))
    assert [report.task for report in messages(node, reports.TaskStartedReport)] == [0, 1, 2]


async def test_an_answer_names_the_order_that_it_is_about(node: Node) -> None:
    await carry_out(node.agent, start(node, "wide", 10, TaskAssignment(task=0)))
    await carry_out(node.agent, evict(node, "wide", 30, 5))
    assert [report.ordered_by for report in messages(node, reports.TaskStartedReport)] == [10]
    assert [report.ordered_by for report in messages(node, reports.TaskReleasedReport)] == [30]


async def test_the_next_agent_still_knows_by_which_order_a_member_came(node: Node) -> None:
    """Its end is on the way; the log, which has it already, may have ordered another member of that number meanwhile."""
    await carry_out(node.agent, start(node, "wide", 10, TaskAssignment(task=0)))
    node.machine.kill(TaskKey("wide", 1, "0"))
    node.agent = Agent(node.agent.context, node.agent._clock_and_ids, node.agent._metrics, lambda: None)
    await node.agent.adopt()
    (entry,) = messages(node, reports.NodeInventory)[-1].tasks
    assert (entry.state, entry.ordered_by) == ("exited", 10)


async def test_a_start_interrupted_by_an_agent_crash_is_not_answered_with_the_previous_members_exit(node: Node) -> None:
    await carry_out(node.agent, start(node, "wide", 10, TaskAssignment(task=0)))
    node.machine.kill(TaskKey("wide", 1, "0"))
    node.agent.context.fences.obey("wide", 1, {0: ()}, (1, 25))  # all that the agent came to do
    node.agent = Agent(node.agent.context, node.agent._clock_and_ids, node.agent._metrics, lambda: None)
    await node.agent.adopt()
    await node.fence()
    await carry_out(node.agent, start(node, "wide", 25, TaskAssignment(task=0)))
    assert [(report.ordered_by, report.reason) for report in messages(node, reports.TaskStartRefusedReport)] == [
        (25, "the task was started on this node before, and is gone")
    ]
    assert not [report for report in messages(node, reports.TaskExitedReport) if report.ordered_by != 10]


async def test_a_start_that_this_node_cannot_carry_out_is_answered(node: Node) -> None:
    """A device may fall off the bus between decision and start; specs come from any user. None may end the agent."""
    await carry_out(node.agent, start(node, "gone", 10, TaskAssignment(task=0, devices=("GPU-that-was-here",))))
    secrets = JobSpec(command="true", runtime="simulated", secrets={"TOKEN": "x" * 5000})
    await carry_out(node.agent, start(node, "secret", 11, TaskAssignment(task=0)).model_copy(update={"spec": secrets}))
    other = JobSpec(command="true", runtime="process")
    await carry_out(node.agent, start(node, "other", 12, TaskAssignment(task=0)).model_copy(update={"spec": other}))
    refused = {report.job: report.reason for report in messages(node, reports.TaskStartRefusedReport)}
    assert list(refused) == ["gone", "secret", "other"]
    assert "GPU-that-was-here" in refused["gone"]
    assert "no secret named 'xxx" in refused["secret"]
    assert "'process'" in refused["other"]


async def test_fences_of_lost_commands_do_not_outrank_commands_of_the_log(node: Node) -> None:
    """The log was cut short: it holds the eviction, and has lost the cancellation of the eviction after it."""
    await carry_out(node.agent, start(node, "low", 10, TaskAssignment(task=0)))
    cancellation = {**node.common(), "sender": "executor", "job": "low", "attempt": 1, "tasks": (0,)}
    await carry_out(node.agent, CancelEviction.model_validate({**cancellation, "ordered_by": RecordRef(epoch=1, seq=40)}))
    await carry_out(node.agent, evict(node, "low", 30, 0))
    assert not node.agent.context.evictions.running(), "a sender of the same epoch is merely late"
    await carry_out(node.agent, evict(node, "low", 30, 0).model_copy(update={"sender_epoch": 2}))
    assert [eviction.key for eviction in node.agent.context.evictions.running()] == ["low-1-0"]


async def test_a_start_that_was_overtaken_by_lost_orders_is_answered_and_not_carried_out(node: Node) -> None:
    """Without an answer the job would start for ever; carried out, it might run twice."""
    await carry_out(node.agent, start(node, "low", 10, TaskAssignment(task=0)).model_copy(update={"attempt": 2}))
    await node.fence()
    late = start(node, "low", 5, TaskAssignment(task=0))
    await carry_out(node.agent, late)
    assert not messages(node, reports.TaskStartRefusedReport)
    await carry_out(node.agent, late.model_copy(update={"sender_epoch": 2}))
    (answer,) = messages(node, reports.TaskStartRefusedReport)
    assert (answer.attempt, answer.ordered_by) == (1, 5)
    assert [report.attempt for report in messages(node, reports.TaskStartedReport)] == [2]


async def test_a_task_is_not_taken_over_by_a_later_start_of_its_name(node: Node) -> None:
    """The attempt's number is given out again where the log has forgotten it; what runs is to be ended first."""
    await carry_out(node.agent, start(node, "low", 10, TaskAssignment(task=0, devices=(GPU,))))
    again = start(node, "low", 8, TaskAssignment(task=0, devices=(GPU,)))
    await carry_out(node.agent, again.model_copy(update={"sender_epoch": 2, "ordered_by": RecordRef(epoch=2, seq=8)}))
    (refusal,) = messages(node, reports.TaskStartRefusedReport)
    assert refusal.reason == "attempt 1 of this task still runs here; its start is not in the log any more"
    assert len(messages(node, reports.TaskStartedReport)) == 1
