"""`kill -9` of a task's supervisor, and of one rank of a gang, with and without a notice."""

import pytest
from tests.kits.survival import BEFORE, ENOUGH_S, NOTICED, SAVED, SHORT_S, Expected, Stage, kill, story

from bailiff_core.records.facts import EvictionStageReached, TaskExited, TaskReleased

WITHOUT = "its supervisor was lost"


async def test_a_supervisor_dies_and_the_job_starts_again(stage: Stage) -> None:
    """All of the task's processes are killed, also those of another session."""
    async with story(stage) as run:
        await run.start_victim("ForksAway")
        [supervisor] = run.supervisors()
        kill(supervisor)
        await run.check_victim(Expected("lost", (), codes=(-9,), reason=WITHOUT, resumes_at=BEFORE))


@pytest.mark.long
async def test_a_supervisor_dies_while_the_victim_saves(stage: Stage) -> None:
    async with story(stage) as run:
        await run.start_victim("WaitsWhileSaving")
        await run.submit_urgent()
        await run.wait_for_stage("checkpoint_started")
        [supervisor] = run.supervisors()
        kill(supervisor)
        stages = (*NOTICED, "acknowledged", "checkpoint_started")
        await run.check_urgent_and_victim(Expected("preempted", stages, codes=(-9,), reason=WITHOUT, resumes_at=BEFORE))


@pytest.mark.long
async def test_a_supervisor_and_the_agent_die_while_the_victim_saves(stage: Stage) -> None:
    async with story(stage) as run:
        await run.start_victim("WaitsWhileSaving")
        await run.submit_urgent()
        await run.wait_for_stage("checkpoint_started")
        [supervisor] = run.supervisors()
        stage.kill("node-agent")
        kill(supervisor)
        await run.wait_processes_gone()
        stage.start_service("node-agent")
        stages = (*NOTICED, "acknowledged", "checkpoint_started")
        await run.check_urgent_and_victim(Expected("preempted", stages, codes=(-9,), reason=WITHOUT, resumes_at=BEFORE))


@pytest.mark.long
async def test_an_evicted_gang_saves_one_step(stage: Stage) -> None:
    """The reference for the other tests."""
    async with story(stage, tasks=2) as run:
        await run.start_victim()
        await run.submit_urgent()
        await run.check_urgent_and_victim(
            Expected("preempted", SAVED, optional=("step_confirmed", "step_agreed"), codes=(85, 85))
        )
        committed = run.facts(EvictionStageReached, attempt=1, stage="checkpoint_committed")
        assert len({(fact.checkpoint.step, fact.checkpoint.agreed) for fact in committed}) == 1
        assert committed[0].checkpoint.agreed


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
async def test_a_rank_dies_and_the_gang_starts_again(stage: Stage, rank: int) -> None:
    """The other rank is notified, cannot agree on a step, and its checkpoint alone does not count."""
    async with story(stage, tasks=2) as run:
        await run.start_victim(grace_s=SHORT_S)
        kill(run.process(rank))
        await run.check_victim(Expected("failed", None, codes=(-9, 85) if rank == 0 else (85, -9), resumes_at=BEFORE))
        assert run.facts(TaskExited, task=rank)[0].exit_code == -9
        assert len(run.facts(TaskReleased, attempt=1)) == 2


@pytest.mark.long
async def test_a_rank_dies_while_the_gang_saves(stage: Stage) -> None:
    """One rank has saved and the other has not: neither resumes from that step."""
    async with story(stage, tasks=2) as run:
        await run.start_victim("WaitsWhileSaving", grace_s=ENOUGH_S)
        await run.submit_urgent()
        await run.watch.until("both save", lambda _: len(run.facts(EvictionStageReached, stage="checkpoint_started")) == 2)
        kill(run.process(1))
        await run.watch.record(TaskExited, job=run.victim, task=1)
        run.continue_victim()
        await run.check_urgent_and_victim(Expected("preempted", None, codes=(85, -9), resumes_at=BEFORE))
