"""`kill -9` of the node agent at each stage of an eviction.

The victim waits at the stage, the agent dies, the victim continues and exits before the agent restarts: the next agent reports
what happened meanwhile.
"""

import asyncio

import pytest
from tests.kits.survival import BEFORE, LATE, NOTICED, SAVES_AND_YIELDS, SHORT_S, Expected, Stage, Story, story, utc_us

from bailiff_core.records.decisions import JobRequeued
from bailiff_core.records.facts import EvictionStage, NodeJoined, TaskExited, TaskReleased

LEAK = 1 << 30
WAITS: dict[EvictionStage, str] = {
    "noticed": "WaitsBeforeAcknowledging",
    "acknowledged": "WaitsBeforeSaving",
    "checkpoint_started": "WaitsWhileSaving",
    "checkpoint_committed": "WaitsBeforeYielding",
    "yielding": "WaitsAfterYielding",
}
SAMPLE = {"checkpoint_started"}


async def back(stage: Stage) -> None:
    stage.start_service("node-agent")
    await asyncio.to_thread(stage.stack.processes.wait_ready, "node-agent")


@pytest.mark.parametrize("at", [pytest.param(at, marks=() if at in SAMPLE else pytest.mark.long) for at in WAITS])
async def test_it_dies_during_the_eviction(stage: Stage, at: EvictionStage) -> None:
    async with story(stage) as run:
        await run.start_victim(WAITS[at])
        await run.submit_urgent()
        await run.wait_for_stage(at)
        stage.kill("node-agent")
        run.continue_victim()
        await run.wait_processes_gone()
        assert not run.facts(JobRequeued)
        await back(stage)
        await run.check_urgent_and_victim(SAVES_AND_YIELDS)


@pytest.mark.long
@pytest.mark.parametrize("at", WAITS)
async def test_it_dies_and_restarts_before_the_victim_continues(stage: Stage, at: EvictionStage) -> None:
    async with story(stage) as run:
        await run.start_victim(WAITS[at])
        await run.submit_urgent()
        await run.wait_for_stage(at)
        stage.kill("node-agent")
        await back(stage)
        run.continue_victim()
        await run.check_urgent_and_victim(SAVES_AND_YIELDS)


@pytest.mark.long
async def test_it_dies_between_the_exit_and_the_proof_that_the_gpus_are_free(stage: Stage) -> None:
    """Memory is still in use: the next agent does not take that as the baseline."""
    async with story(stage) as run:
        await run.start_victim()
        stage.leak(LEAK)
        await run.submit_urgent()
        await run.watch.record(TaskExited, job=run.victim)
        before = run.watch.state.seq
        stage.kill("node-agent")
        await back(stage)
        await run.watch.until("the next agent has joined", lambda _: bool(joined_since(run, before)))
        assert not run.facts(TaskReleased)
        assert run.watch.job(run.urgent).phase == "reserved"
        stage.leak(0)
        cleaned = utc_us()
        await run.check_urgent_and_victim(SAVES_AND_YIELDS)
        [released] = [entry for entry in run.watch.entries if entry.record.seq == run.when(TaskReleased, run.victim)[0]]
        assert released.append_time >= cleaned // 1000 * 1000


@pytest.mark.long
async def test_it_dies_when_the_gpus_are_free(stage: Stage) -> None:
    async with story(stage) as run:
        await run.start_victim()
        await run.submit_urgent()
        await run.watch.record(TaskReleased, job=run.victim)
        stage.kill("node-agent")
        await back(stage)
        await run.check_urgent_and_victim(SAVES_AND_YIELDS)


@pytest.mark.long
async def test_it_is_dead_when_the_deadlines_come(stage: Stage) -> None:
    """The victim's supervisor enforces them."""
    async with story(stage) as run:
        await run.start_victim("NeverAcknowledges", grace_s=SHORT_S)
        await run.submit_urgent()
        await run.wait_for_stage("noticed")
        stage.kill("node-agent")
        await run.wait_processes_gone()
        await back(stage)
        dead = "its supervisor stopped it at its deadline, because the agent was down"
        late = Expected("preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), reason=dead, resumes_at=BEFORE)
        await run.check_urgent_and_victim(late)


def joined_since(run: Story, seq: int) -> list[NodeJoined]:
    found = [entry.record for entry in run.watch.entries if entry.record.seq > seq]
    return [record.data for record in found if isinstance(record.data, NodeJoined)]
