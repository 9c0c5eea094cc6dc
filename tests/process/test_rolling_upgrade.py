"""The previous release's code is replaced by the present one, service by service, with jobs in every stage.

The file `previous_release` has that release: a tag, or a commit if there is no tag. Its code comes from this clone's git
and runs in separate processes, with the present virtual environment.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.system import PATIENCE_S, System, Watch

from bailiff.client.errors import ExitCode
from bailiff_core.engine import LOGIC
from bailiff_core.records.facts import InputRejected, StateDigest, WriterStarted

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
WHICH = Path(__file__).with_name("previous_release")
CONTROL = ("victim-selection", "eviction-executor", "admission")  # the order of docs/how-to/upgrade.md


@dataclass(frozen=True)
class Release:
    """The code of a release, unpacked."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment with which Python imports only this release's packages."""
        packages = sorted(path.parent for path in self.folder.glob("*/*/pyproject.toml"))
        return {"PYTHONPATH": os.pathsep.join(map(str, packages))}


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The previous release from git. Skips if this clone does not have it; never fetches."""
    name, folder = WHICH.read_text().strip(), tmp_path_factory.mktemp("previous")
    archive = folder / "release.tar"
    command = ["git", "archive", f"--output={archive}", name, "libs", "services", "deploy"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("the previous release comes from git, which is not installed")
    if done.returncode:
        pytest.skip(f"this clone does not hold the previous release {name} (a shallow one?): {done.stderr.strip()}")
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return Release(folder)


class Upgrade:
    """One pool on one machine of eight GPUs, started by the previous release."""

    def __init__(self, folder: Path, previous: Release) -> None:
        self.previous = previous
        self.system = System(folder, pools={"pool-a": 1}, env={"BAILIFF_DIGEST_EVERY": "10"})

    def start_previous(self) -> None:
        """Start everything with the code of the previous release and its first policy."""
        self.system.start_kafka()
        (self.system.folder / "policy.yaml").write_text((self.previous.folder / "deploy" / "policy.yaml").read_text())
        for name in self.system.services:
            self.system.stack.start_service(name, env=self.previous.environment)
        self.system.wait_ready()

    def replace(self, name: str) -> None:
        """Stop the service as a service manager does, and start it with the present code."""
        ended = self.system.stack.processes.stop(name)
        assert ended.code == 0, ended
        self.system.start_service(name)
        self.system.stack.processes.wait_ready(name, timeout_s=PATIENCE_S)


@pytest.fixture
def upgrade(tmp_path: Path, previous: Release) -> Iterator[Upgrade]:
    made = Upgrade(tmp_path, previous)
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
        assert watch.facts(StateDigest), "the previous release wrote snapshots in its own schema"

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
        assert watch.job("cheap").attempt == 2
        await both_engines_agree(watch, system)


async def both_engines_agree(watch: Watch, system: System) -> None:
    """One chain; each release's engine replays its own cycles, byte for byte: the previous one from a wheel built from git."""
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
    bailiff(system, "engine", "keep", "--git", WHICH.read_text().strip(), str(ROOT), "--digest", began[0].record.data.digest)
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
