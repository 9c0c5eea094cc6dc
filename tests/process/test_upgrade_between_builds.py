"""An older build of this repository is replaced by the present one, one service after the other, under running jobs."""

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.system import PATIENCE_S, System

from bailiff_core.engine import LOGIC
from bailiff_core.records.facts import WriterStarted

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
OLDER = "e845d0a1fdf4c386c716ed1b4d698418a94671b7"  # the newest of `LOGIC` 3
ORDER = ("victim-selection", "eviction-executor", "admission", "node-agent")  # of docs/how-to/upgrade.md


def build_of(commit: str, folder: Path) -> str:
    """The sources of that commit as a PYTHONPATH, as its wheels would be installed. Skips where git does not have it."""
    archive = folder / "older.tar"
    made = subprocess.run(["git", "archive", "-o", archive, commit, "libs", "services"], cwd=ROOT, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"the history of git does not go back to {commit[:8]} here: {made.stderr.strip()[:200]}")
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "older", filter="data")
    return os.pathsep.join(str(path) for kind in ("libs", "services") for path in sorted((folder / "older" / kind).glob("*/")))


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    older = build_of(OLDER, tmp_path)
    made = System(tmp_path / "system", pools={"pool-a": 1}, env={"BAILIFF_DIGEST_EVERY": "10"})
    try:
        made.start_kafka()
        for name in made.services:
            made.stack.start_service(name, env={"PYTHONPATH": older})
        made.wait_ready()
        yield made
    finally:
        made.stop()


async def test_jobs_run_on_while_each_service_becomes_the_present_build(system: System) -> None:
    async with system.watch("pool-a") as watch:
        await watch.submit("lasting", watch.until_signalled(), gpus=4, kind="inference")
        await watch.submit("cheap", watch.until_signalled(), gpus=4)
        await watch.until_running("lasting", "cheap")
        for name in ORDER:
            ended = system.stack.processes.stop(name)
            assert ended.code == 0, ended
            system.start_service(name)
            system.stack.processes.wait_ready(name, timeout_s=PATIENCE_S)
            await watch.submit(f"with-new-{name}", "true", gpus=0)
            await watch.until_ended(f"with-new-{name}")
            assert watch.running("lasting")
            assert watch.running("cheap")
        await watch.submit("urgent", watch.until_signalled(), gpus=4, kind="inference")
        await watch.until("cheap is evicted for it", lambda pool: pool.jobs["cheap"].evictions == 1)
        await watch.until_running("urgent")
        for name in ("lasting", "urgent", "cheap"):
            watch.let_finish(name)
            await watch.until_ended(name)
        watch.assert_started_once("lasting", "urgent")
        logics = [entry.record.data.logic for entry in watch.entries if isinstance(entry.record.data, WriterStarted)]
        assert logics[-1] == LOGIC
        assert len(logics) == 2
        await watch.verify(other_engines=True)
