"""The worker process: serves tasks in order, is ended on a timeout, and is restarted after a kill."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
from tests.unit.console.actions.kit import story

from bailiff.client.errors import ClientError
from bailiff_console.actions.worker import Worker
from bailiff_core.records.job_requests import PauseJob
from bailiff_service.problems import ApiError

PAUSE = {"kind": "pause", "body": PauseJob(job="train-7").model_dump_json(), "now": 0, "requester": {"actor": "ada"}}


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    made = Worker()
    yield made
    await made.close()


@pytest.mark.slow
async def test_the_worker_answers_from_the_current_state(worker: Worker) -> None:
    log_writer = story()
    first, second = await asyncio.gather(*(worker.run("preview", PAUSE, log_writer.state) for _ in range(2)))
    assert first == second
    assert "train-9 (gpu-01) can start" in " ".join(first["sentences"])
    log_writer.node("gpu-03")
    log_writer.start("train-9")
    assert "4 GPUs become free" in " ".join((await worker.run("preview", PAUSE, log_writer.state))["sentences"])
    with pytest.raises(ClientError, match="no job 'x'"):
        await worker.run("preview", {**PAUSE, "body": PauseJob(job="x").model_dump_json()}, log_writer.state)


@pytest.mark.slow
async def test_a_killed_worker_is_restarted(worker: Worker) -> None:
    state = story().state
    assert await worker.run("preview", PAUSE, state)
    assert worker._process is not None
    os.kill(worker._process.pid, signal.SIGKILL)
    await worker._process.wait()
    assert await worker.run("preview", PAUSE, state)


@pytest.mark.slow
async def test_a_timeout_ends_the_process() -> None:
    worker = Worker(timeout=0.05)
    process = await worker._started()
    process.send_signal(signal.SIGSTOP)  # it never answers
    with pytest.raises(ApiError) as refused:
        await worker.run("preview", PAUSE, story().state)
    assert refused.value.status == 503
    assert worker._process is None
    assert process.returncode is not None


@pytest.mark.slow
async def test_an_internal_error_is_a_500_and_the_worker_continues(worker: Worker) -> None:
    state = story().state
    with pytest.raises(ApiError) as refused:
        await worker.run("nonsense", {}, state)
    assert refused.value.status == 500
    assert await worker.run("preview", PAUSE, state)
