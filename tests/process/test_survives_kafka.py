"""Kafka is unavailable during the grace of an eviction: the agent enforces the deadlines and reports everything later."""

import asyncio

import pytest
from tests.kits.survival import BEFORE, ENOUGH_S, LATE, NOTICED, POOL, SAVES_AND_YIELDS, SHORT_S, Expected, Stage, Story

TOO_LATE = Expected("preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), resumes_at=BEFORE)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["paused", "killed"])
@pytest.mark.parametrize(
    ("behaviour", "grace_s", "expected"),
    [("WaitsBeforeSaving", ENOUGH_S, SAVES_AND_YIELDS), ("NeverAcknowledges", SHORT_S, TOO_LATE)],
)
async def test_kafka_is_away_in_the_grace(stage: Stage, how: str, behaviour: str, grace_s: float, expected: Expected) -> None:
    kafka = stage.stack.kafka
    async with stage.watch(POOL) as pool:
        run = Story(pool, stage.checker)
        pool.keep(run.victim, run.urgent)
        await run.start_victim(behaviour, grace_s=grace_s)
        await run.submit_urgent()
        await run.wait_for_stage("acknowledged" if expected is SAVES_AND_YIELDS else "noticed")
    await asyncio.to_thread(kafka.pause if how == "paused" else kafka.kill)
    run.continue_victim()
    await run.wait_processes_gone()
    await asyncio.to_thread(kafka.resume if how == "paused" else kafka.start)
    async with stage.watch(POOL) as pool:
        run.watch = pool
        await run.check_urgent_and_victim(expected)
