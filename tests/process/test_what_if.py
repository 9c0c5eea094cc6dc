"""`bailiff what-if` on a running system: Kafka, the archive, the query API and a file give the same result.

Real jobs were preempted there by real services. The what-if without preemption runs while the pool is in use.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kits.archive import query
from tests.kits.system import PATIENCE_S, System, Watch

from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records.decisions import JobPlaced
from bailiff_core.records.wire import time_text
from bailiff_devstack.stack import API, AUDITOR

pytestmark = pytest.mark.kafka

CALM = DEFAULT_POLICY.model_copy(update={"preemption": DEFAULT_POLICY.preemption.model_copy(update={"actions": ("allocate",)})})


@pytest.fixture
async def archived(system: System) -> AsyncIterator[System]:
    """The system with PostgreSQL, the auditor and the query API."""
    stack = system.stack
    try:
        await asyncio.to_thread(stack.postgres.start)
        stack.start_service(AUDITOR)
        stack.start_service(API)
        await asyncio.to_thread(stack.processes.wait_ready, AUDITOR, API, timeout_s=PATIENCE_S)
        yield system
    finally:
        for name in set(stack.processes.running()) & {API, AUDITOR}:
            await asyncio.to_thread(stack.processes.stop, name)
        await asyncio.to_thread(stack.postgres.close)


async def test_the_past_is_the_same_from_every_source(archived: System, tmp_path: Path) -> None:
    async with archived.watch("pool-a") as watch:
        calm = tmp_path / "calm.yaml"
        calm.write_text(yaml.safe_dump(CALM.model_dump(mode="json", exclude_defaults=True)))
        began = watch.projection.head.next_seq
        await preempted(watch)
        placed = [e.record for e in watch.entries if isinstance(e.record.data, JobPlaced)]
        *_, returned = (record for record in placed if record.data.job == "patient-if")
        last = watch.entries[-1].record.seq  # the log may grow meanwhile
        dsn, log = archived.stack.postgres.dsn, str(tmp_path / "log.jsonl")

        async def all_of_it() -> bool:
            return bool(await query(dsn, "SELECT FROM pools WHERE name = 'pool-a' AND next_seq > $1", last))

        await watch.until_true("all of it is archived", all_of_it)

        output_of(archived, "audit", "export", log)
        window = ("--from", f"#{began}", "--to", f"#{last}")
        requested = ("what-if", "--policy", str(calm), *window)
        found = {
            "Kafka": json.loads(output_of(archived, *requested, "-o", "json")),
            "archive": json.loads(output_of(archived, *requested, "--archive", dsn, "-o", "json")),
            "API": json.loads(
                output_of(
                    archived, *requested, "-o", "json", BAILIFF_API=archived.stack.api, BAILIFF_API_TOKEN=archived.stack.api_token
                )
            ),
            "file": json.loads(
                output_of(archived, *requested, "--archive", log, "-o", "json", BAILIFF_KAFKA__BOOTSTRAP="127.0.0.1:1")
            ),
        }
        for where, report in found.items():
            assert report == found["Kafka"], where

        groups = found["Kafka"]["groups"]["class train"]
        assert groups["recorded"]["evictions"] == groups["simulated"]["evictions"] == 1
        assert groups["other"]["evictions"] == 0
        assert "patient-if" in {job["job"] for job in found["Kafka"]["improved"]}
        assert found["Kafka"]["to"] == next(e.record.time for e in watch.entries if e.record.seq == last)

        # Once the job has returned nothing differs any more; a time is equivalent to the record at that time.
        later = ("what-if", "-p", str(calm), "--from", time_text(returned.time), "--to", f"#{last}", "-o", "json")
        assert json.loads(output_of(archived, *later))["improved"] == []
        assert "Assumptions:" in output_of(archived, "what-if", "-p", str(calm), "--from", "-1h")


async def preempted(watch: Watch) -> None:
    """Run a job of eight GPUs, preempt it by an urgent one, and let both end.

    The job saves nothing, so its work is what it does after its return. That must be more than what it could do before the urgent
    job comes, however quickly a simulation starts it; or the simulation finds it ended, and nobody to preempt.
    """
    began = time.time_ns() // 1000
    await watch.submit("patient-if", watch.until_signalled(), gpus=8)
    await watch.until_running("patient-if")
    await watch.submit("urgent-if", watch.until_signalled(), gpus=8, kind="inference")
    await watch.until_running("urgent-if")
    watch.let_finish("urgent-if")
    await watch.until_ended("urgent-if")
    await watch.until_running("patient-if")
    enough = 2 * watch.state.now - began

    async def worked() -> bool:
        return time.time_ns() // 1000 > enough

    await watch.until_true("the job has run as long as all before its return took", worked)
    watch.let_finish("patient-if")
    await watch.until_ended("patient-if")


def output_of(system: System, *arguments: str, **environment: str) -> str:
    """The output of the command for pool-a."""
    settings = {
        "BAILIFF_KAFKA__BOOTSTRAP": system.stack.kafka.bootstrap,
        "BAILIFF_POOL": "pool-a",
        "BAILIFF_CACHE": str(system.folder / "cache"),
        **environment,
    }
    done: subprocess.CompletedProcess[Any] = subprocess.run(
        [sys.executable, "-m", "bailiff", *arguments],
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"bailiff {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return str(done.stdout)
