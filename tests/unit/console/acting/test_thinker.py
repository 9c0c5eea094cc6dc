"""The process that thinks: it is asked in turn, ends when it takes too long, and comes back when it was killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
from tests.unit.console.acting.kit import story

from bailiff.problem import Problem
from bailiff_bus.messages import PauseJob
from bailiff_console.acting.thinker import Thinker
from bailiff_console.problems import Refused

PAUSE = {"kind": "pause", "body": PauseJob(job="train-7").model_dump_json(), "now": 0}


@pytest.fixture
async def thinker() -> AsyncIterator[Thinker]:
    made = Thinker()
    yield made
    await made.close()


async def test_it_answers_about_the_pool_as_it_is(thinker: Thinker) -> None:
    scribe = story()
    first, second = await asyncio.gather(*(thinker.ask("preview", PAUSE, scribe.pool) for _ in range(2)))
    assert first == second
    assert "lets train-9 (gpu-01) start" in " ".join(first["sentences"])
    scribe.node("gpu-03")
    scribe.start("train-9")
    assert "4 GPUs become free" in " ".join((await thinker.ask("preview", PAUSE, scribe.pool))["sentences"])
    with pytest.raises(Problem, match="there is no job 'x'"):
        await thinker.ask("preview", {**PAUSE, "body": PauseJob(job="x").model_dump_json()}, scribe.pool)


async def test_killed_it_says_so_and_the_next_question_is_answered(thinker: Thinker) -> None:
    pool = story().pool
    assert await thinker.ask("preview", PAUSE, pool)
    assert thinker._process is not None
    os.kill(thinker._process.pid, signal.SIGKILL)
    await thinker._process.wait()
    assert await thinker.ask("preview", PAUSE, pool)


async def test_what_takes_too_long_is_given_up_and_its_process_is_gone() -> None:
    thinker = Thinker(patience=0.05)
    process = await thinker._started()
    process.send_signal(signal.SIGSTOP)  # it would never answer
    with pytest.raises(Refused) as refused:
        await thinker.ask("preview", PAUSE, story().pool)
    assert refused.value.status == 503
    assert thinker._process is None
    assert process.returncode is not None


async def test_an_error_of_ours_is_told_as_one_and_breaks_nothing(thinker: Thinker) -> None:
    pool = story().pool
    with pytest.raises(Refused) as refused:
        await thinker.ask("nonsense", {}, pool)
    assert refused.value.status == 500
    assert await thinker.ask("preview", PAUSE, pool)
