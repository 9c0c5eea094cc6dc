"""The query API as a process: auditor and API are killed while the log grows, and a reader loses nothing."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.bench.synthetic import plain_log
from tests.kits.api import events
from tests.kits.archived_pool import grow
from tests.kits.system import PATIENCE_S

from bailiff_bus.kafka import KafkaBus
from bailiff_devstack.stack import API, AUDITOR, Plan, Stack

KILLS = ((API,), (AUDITOR,), (API, AUDITOR))

pytestmark = pytest.mark.kafka


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """Kafka, PostgreSQL, the auditor and the API."""
    stack = Stack(tmp_path, Plan(env={"BAILIFF_KAFKA__SESSION_TIMEOUT_MS": "2000"}), progress=print)
    try:
        await asyncio.to_thread(stack.start_kafka)
        await asyncio.to_thread(stack.postgres.start)
        stack.start_service(AUDITOR)
        stack.start_service(API)
        await asyncio.to_thread(stack.processes.wait_ready, API, timeout_s=PATIENCE_S)
        yield stack
    finally:
        await asyncio.to_thread(stack.close)


@pytest.mark.timeout(300)
async def test_a_stream_broken_by_kill_nine_resumes_with_each_record_once(stack: Stack) -> None:
    wires = list(plain_log(2_000))
    share = len(wires) // (len(KILLS) + 1)
    bus = KafkaBus(stack.kafka.bootstrap)
    seen: list[int] = []
    headers = {"authorization": f"Bearer {stack.api_token}"}
    try:
        await grow(bus, wires[:share])
        growing: asyncio.Task[None] | None = None
        last, kills = "pool-a:-1", list(KILLS)
        async with (
            asyncio.timeout(PATIENCE_S * 3),
            httpx.AsyncClient(base_url=stack.api, headers=headers, timeout=PATIENCE_S) as http,
        ):
            while len(seen) < len(wires):
                try:
                    async with http.stream("GET", "/v1/events", headers={"last-event-id": last}) as answer:
                        if answer.status_code != 200:  # the archive does not exist yet
                            await asyncio.sleep(0.1)
                            continue
                        async for event in events(answer.aiter_lines()):
                            last = event.id
                            if event.type:
                                seen.append(event.data["seq"])
                            if kills and len(seen) == share * (len(KILLS) - len(kills) + 1) - share // 2:
                                for name in (victims := kills.pop(0)):
                                    await asyncio.to_thread(stack.processes.kill9, name)
                                if growing is None:
                                    growing = asyncio.create_task(grow(bus, wires[share:]))
                                for name in victims:
                                    stack.start_service(name)
                            if len(seen) == len(wires):
                                break
                except httpx.TransportError:
                    await asyncio.sleep(0.1)
        assert growing is not None
        await growing
    finally:
        await bus.close()
    assert not kills
    assert seen == list(range(len(wires)))

    # The killed API may have sent everything; its replacement may still be starting.
    await asyncio.to_thread(stack.processes.wait_ready, API, timeout_s=PATIENCE_S)
    # The command reads without Kafka, and it also follows the log across a kill.
    env = {
        **os.environ,
        "BAILIFF_API": stack.api,
        "BAILIFF_STATE_DIR": str(stack.folder / "state"),
        "BAILIFF_KAFKA__BOOTSTRAP": "127.0.0.1:1",
    }
    command = [sys.executable, "-m", "bailiff", "audit", "verify", "-o", "json"]
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["records"] == len(wires)
