"""Kafka away in the grace of an eviction: the agent continues by itself, keeps the deadlines, and reports everything later."""

import asyncio

import pytest
from tests.survival import BEFORE, ENOUGH_S, LATE, NOTICED, POOL, SAVES_AND_LEAVES, SHORT_S, Stage, Story, Table

TOO_LATE = Table("preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), goes_back_to=BEFORE)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["stands still", "is killed"])
@pytest.mark.parametrize(
    ("behaviour", "grace_s", "table"),
    [("WaitsBeforeSaving", ENOUGH_S, SAVES_AND_LEAVES), ("NeverAcknowledges", SHORT_S, TOO_LATE)],
)
async def test_kafka_is_away_in_the_grace(stage: Stage, how: str, behaviour: str, grace_s: float, table: Table) -> None:
    kafka = stage.stack.kafka
    async with stage.watch(POOL) as pool:
        run = Story(pool, stage.judge)
        pool.keep(run.victim, run.urgent)
        await run.victim_stands(behaviour, grace_s=grace_s)
        await run.urgent_comes()
        await run.reaches("acknowledged" if table is SAVES_AND_LEAVES else "noticed")
    await asyncio.to_thread(kafka.pause if how == "stands still" else kafka.kill)
    run.goes_on()
    await run.processes_are_gone()
    await asyncio.to_thread(kafka.resume if how == "stands still" else kafka.start)
    async with stage.watch(POOL) as pool:
        run.watch = pool
        await run.ends_well(table)
