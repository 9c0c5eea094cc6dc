"""The previous release is replaced by the present one, service by service, with jobs in every stage.

Until 0.1.0 is out, the previous release is this one with an older engine (`tests/kits/older_engine.py`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kits.older_engine import copy_core
from tests.kits.system import PATIENCE_S, System, Watch

from bailiff.client.errors import ExitCode
from bailiff_core.engine import LOGIC
from bailiff_core.records.facts import InputRejected, StateDigest, WriterStarted

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

CONTROL = ("victim-selection", "eviction-executor", "admission")  # the order of docs/how-to/upgrade.md


class Upgrade:
    """One pool on one machine of eight GPUs, started by the previous release."""

    def __init__(self, folder: Path) -> None:
        self.previous = folder / "previous"
        copy_core(self.previous)
        self.system = System(folder, pools={"pool-a": 1}, env={"BAILIFF_DIGEST_EVERY": "10"})

    def start_previous(self) -> None:
        """Start everything with the code of the previous release."""
        self.system.start_kafka()
        for name in self.system.services:
            self.system.stack.start_service(name, env={"PYTHONPATH": str(self.previous)})
        self.system.wait_ready()

    def replace(self, name: str) -> None:
        """Stop the service as a service manager does, and start it with the present code."""
        ended = self.system.stack.processes.stop(name)
        assert ended.code == 0, ended
        self.system.start_service(name)
        self.system.stack.processes.wait_ready(name, timeout_s=PATIENCE_S)


@pytest.fixture
def upgrade(tmp_path: Path) -> Iterator[Upgrade]:
    made = Upgrade(tmp_path)
    try:
        made.start_previous()
        yield made
    finally:
        made.system.stop()


@pytest.mark.parametrize("agents", ["last", pytest.param("first", marks=pytest.mark.long)])
async def test_jobs_keep_running_during_a_rolling_upgrade(upgrade: Upgrade, agents: str) -> None:
    system = upgrade.system
    steps = (*CONTROL, "node-agent") if agents == "last" else ("node-agent", *CONTROL)
    async with system.watch("pool-a") as watch:
        await watch.submit("lasting", watch.until_signalled(), gpus=2, kind="inference")
        await watch.submit("leaving", f"trap : TERM; {watch.until_signalled()}", gpus=4, grace_s=600)
        await watch.submit("cheap", watch.until_signalled(), gpus=1)
        await watch.until_running("lasting", "leaving", "cheap")
        await watch.submit("urgent", watch.until_signalled(), gpus=4, kind="inference")
        await watch.until("the victim got TERM", lambda pool: any(task.term_sent for task in pool.jobs["leaving"].tasks))
        await watch.submit("waiting", watch.until_signalled(), gpus=6)
        await watch.until("it waits", lambda pool: "waiting" in pool.queue)
        assert watch.facts(StateDigest), "the previous release wrote digests of its state"

        for name in steps:
            upgrade.replace(name)
            await watch.submit(f"with-new-{name}", "true", gpus=0)  # decided, started and ended by this mixture of releases
            await watch.until_ended(f"with-new-{name}")
            assert watch.running("lasting")
            assert watch.job("leaving").eviction is not None
            assert watch.job("waiting").phase == "pending"
            if name == "victim-selection":  # preemption is possible only once admission uses the same logic
                await watch.submit("urgent-too", watch.until_signalled(), gpus=2, kind="inference")
                await watch.record(InputRejected, code="logic-mismatch")
                assert watch.running("cheap")
        await watch.until("cheap is evicted for it", lambda pool: pool.jobs["cheap"].evictions == 1)

        watch.let_finish("leaving")  # notified by the previous release, exits under the present one
        await watch.until_running("urgent", "urgent-too")
        jobs = ("lasting", "leaving", "cheap", "urgent", "urgent-too", "waiting")
        for name in jobs:
            watch.let_finish(name)
        for name in jobs:
            await watch.until_ended(name)
        watch.assert_started_once(*jobs)
        assert watch.job("lasting").attempt == 1
        assert watch.job("cheap").attempt == 2, watch.report()
        await both_engines_agree(watch, upgrade)


async def both_engines_agree(watch: Watch, upgrade: Upgrade) -> None:
    """One chain; each release's engine replays its own cycles, byte for byte: the previous one from its wheel."""
    system = upgrade.system
    replayed = await watch.verify(other_engines=True)
    began = [entry for entry in watch.entries if isinstance(entry.record.data, WriterStarted)]
    logics = [entry.record.data.logic for entry in began]
    assert logics == sorted(logics)
    assert logics[0] < logics[-1] == LOGIC
    kept = {engine["digest"]: Path(engine["path"]) for engine in bailiff(system, "engine", "list")["engines"]}
    assert kept.keys() == {began[0].record.data.digest, began[-1].record.data.digest}, "each admission has stored its own engine"
    kept[began[0].record.data.digest].unlink()
    without = bailiff(system, "audit", "replay", code=ExitCode.ENGINE_MISSING)
    assert without["cycles_of_other_engines"] == replayed.skipped_cycles + 1  # the log's first cycle
    bailiff(system, "engine", "keep", str(upgrade.previous), "--digest", began[0].record.data.digest)
    found = bailiff(system, "audit", "replay")
    assert found["ok"], found
    assert [engine["decided_by"] for engine in found["engines"]] == ["its wheel", "this release"]
    assert found["cycles_replayed"] == found["cycles"]
    later = await watch.verify(other_engines=True)  # the pool runs, so time alone may have added a cycle in between
    assert replayed.cycles <= found["cycles"] <= later.cycles


def bailiff(system: System, *arguments: str, code: ExitCode = ExitCode.DONE) -> dict[str, Any]:
    """The JSON output of the present command for this system."""
    settings = system.stack.environment("operator", 0)
    command = [sys.executable, "-m", "bailiff", *arguments, "-o", "json"]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
