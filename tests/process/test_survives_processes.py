"""`kill -9` of a task's supervisor, and of one rank of a gang, with and without a notice."""

import pytest
from tests.survival import BEFORE, ENOUGH_S, NOTICED, SAVED, SHORT_S, Stage, Table, kill, story

from bailiff_core.records.facts import EvictionStageReached, TaskExited, TaskReleased

WITHOUT = "its supervisor was lost"


async def test_a_supervisor_dies_and_the_job_starts_again(stage: Stage) -> None:
    """What the task's processes were is gone with it: also those of another session."""
    async with story(stage) as told:
        await told.victim_stands("ForksAway")
        [supervisor] = told.supervisors()
        kill(supervisor)
        await told.comes_back(Table("lost", (), codes=(-9,), reason=WITHOUT, goes_back_to=BEFORE))


@pytest.mark.long
async def test_a_supervisor_dies_while_the_victim_saves(stage: Stage) -> None:
    async with story(stage) as told:
        await told.victim_stands("WaitsWhileSaving")
        await told.urgent_comes()
        await told.reaches("checkpoint_started")
        [supervisor] = told.supervisors()
        kill(supervisor)
        stages = (*NOTICED, "acknowledged", "checkpoint_started")
        await told.ends_well(Table("lost", stages, codes=(-9,), reason=WITHOUT, goes_back_to=BEFORE))


@pytest.mark.long
async def test_a_supervisor_and_the_agent_die_while_the_victim_saves(stage: Stage) -> None:
    async with story(stage) as told:
        await told.victim_stands("WaitsWhileSaving")
        await told.urgent_comes()
        await told.reaches("checkpoint_started")
        [supervisor] = told.supervisors()
        stage.kill("node-agent")
        kill(supervisor)
        await told.processes_are_gone()
        stage.start_service("node-agent")
        stages = (*NOTICED, "acknowledged", "checkpoint_started")
        await told.ends_well(Table("lost", stages, codes=(-9,), reason=WITHOUT, goes_back_to=BEFORE))


@pytest.mark.long
async def test_a_gang_leaves_with_one_step(stage: Stage) -> None:
    """What the others are measured by."""
    async with story(stage, tasks=2) as told:
        await told.victim_stands()
        await told.urgent_comes()
        await told.ends_well(Table("preempted", SAVED, may=("step_confirmed", "step_agreed"), codes=(85, 85)))
        committed = told.facts(EvictionStageReached, attempt=1, stage="checkpoint_committed")
        assert len({(fact.checkpoint.step, fact.checkpoint.agreed) for fact in committed}) == 1
        assert committed[0].checkpoint.agreed


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
async def test_a_rank_dies_and_the_gang_starts_again(stage: Stage, rank: int) -> None:
    """The other one is told to leave, cannot agree with anybody, and what it saves alone does not count."""
    async with story(stage, tasks=2) as told:
        await told.victim_stands(grace_s=SHORT_S)
        kill(told.process(rank))
        await told.comes_back(Table("failed", None, codes=(-9, 85) if rank == 0 else (85, -9), goes_back_to=BEFORE))
        assert told.facts(TaskExited, task=rank)[0].exit_code == -9
        assert len(told.facts(TaskReleased, attempt=1)) == 2


@pytest.mark.long
async def test_a_rank_dies_while_the_gang_saves(stage: Stage) -> None:
    """One has saved and the other one has not: neither goes on from there."""
    async with story(stage, tasks=2) as told:
        await told.victim_stands("WaitsWhileSaving", grace_s=ENOUGH_S)
        await told.urgent_comes()
        await told.watch.until("both save", lambda _: len(told.facts(EvictionStageReached, stage="checkpoint_started")) == 2)
        kill(told.process(1))
        await told.watch.record(TaskExited, job=told.victim, task=1)
        told.goes_on()
        await told.ends_well(Table("preempted", None, codes=(85, -9), goes_back_to=BEFORE))
