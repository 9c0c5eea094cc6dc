"""The procedures of docs/how-to, with the commands of the pages, on a running system."""

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kits.system import PATIENCE_S, POLICY, System, end_jobs

from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_core.model.policy import NodeRules, Policy
from bailiff_core.records.facts import NodeJoined, NodeRefused

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

GUIDES = "\n".join(path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "docs/how-to").glob("*.md"))
READERS = ("victim-selection", "eviction-executor")
MINUTE = 60_000_000

Make = Callable[..., System]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Starts a system of one machine in pool-a, which ends with the test."""
    made: list[System] = []

    def start(policy: Policy = POLICY) -> System:
        made.append(System(tmp_path, pools={"pool-a": 1}, policy=policy))
        made[0].start()
        return made[0]

    yield start
    for system in made:
        system.stop()


def typed(system: System, line: str, **words: object) -> str:
    """The output of a command that a guide contains literally, with these values in place of its capitals."""
    assert re.search(rf"^ +{re.escape(line)}$", GUIDES, re.MULTILINE), f"not in any guide: {line}"
    command = [str(words.get(word, word)) for word in shlex.split(line)]
    assert command[0] == "bailiff"
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=system.folder,
        env={**os.environ, **system.stack.environment("operator", 0)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def stop(system: System, *services: str) -> None:
    for name in services:
        ended = await asyncio.to_thread(system.stack.processes.stop, name)
        assert ended.code == 0, ended


async def start(system: System, *services: str) -> None:
    for name in services:
        system.start_service(name)
    await asyncio.to_thread(system.stack.processes.wait_ready, *services, timeout_s=PATIENCE_S)


def machine(system: System, process: str, node: Mapping[str, Any]) -> None:
    """Start the agent of another machine, with its own state folder."""
    settings = {"BAILIFF_NODES": json.dumps([node]), "BAILIFF_STATE_DIR": str(system.folder / "state" / process)}
    system.stack.start_service("node-agent", replica=process.removeprefix("node-agent"), env=settings)


async def test_add_a_pool(make: Make) -> None:
    system = await asyncio.to_thread(make)
    async with system.watch("pool-a") as watch:
        await watch.submit("lasting", gpus=8)
        await watch.until_running("lasting")

        typed(system, "bailiff pool create NAME --pools pools.yaml", NAME="pool-b")
        typed(system, "bailiff topics create --pools pools.yaml")
        for name in (*READERS, "admission"):
            await stop(system, name)
            system.start_service(name)
        await start(system)
        machine(system, "node-agent-b", {"name": "node-b", "pool": "pool-b", "gpus": "4xH100-80GB"})

        system.stack.plan = replace(system.stack.plan, pools=("pool-a", "pool-b"))
        system.machines["pool-b"] = 1
        async with system.watch("pool-b") as other:
            await other.submit("there", "true", gpus=4)
            await other.until_ended("there")
            await other.verify()
        await watch.submit("here", "true", gpus=0)
        await watch.until_ended("here")
        assert watch.running("lasting")
        assert watch.job("lasting").attempt == 1
        await watch.verify(orphans=True)


async def test_replace_a_machine_under_the_same_name(make: Make) -> None:
    patient = POLICY.model_copy(update={"nodes": NodeRules(lease=60 * MINUTE, lost_margin=MINUTE)})
    system = await asyncio.to_thread(make, patient)  # the old machine must not be declared lost during this test
    async with system.watch("pool-a") as watch:
        await watch.submit("moved", gpus=8)
        await watch.until_running("moved")
        system.kill("node-agent")
        end_jobs(system.folder)  # as if the machine were powered off

        twin = {"name": "pool-a-0", "pool": "pool-a", "gpus": "8xH100-80GB", "machine_id": "another-machine"}
        machine(system, "node-agent-new", twin)
        refused = await watch.record(NodeRefused, node="pool-a-0")
        assert refused.machine_id == "another-machine"
        typed(system, "bailiff node replace NODE MACHINE_ID", NODE="pool-a-0", MACHINE_ID=refused.machine_id)
        await stop(system, "node-agent-new")
        machine(system, "node-agent-new", twin)
        await watch.record(NodeJoined, machine_id="another-machine")

        await watch.until("it runs again", lambda pool: watch.running("moved") and pool.jobs["moved"].attempt == 2)
        await watch.noted("moved", 2)
        watch.assert_started_once("moved")
        await watch.verify()


async def test_back_up_and_restore(make: Make) -> None:
    system = await asyncio.to_thread(make)
    kafka, copy = system.stack.kafka, system.folder / "copy"
    async with system.watch("pool-a") as watch:
        await watch.submit("lasting", watch.until_signalled(), gpus=2)
        await watch.until_running("lasting")
        watch.keep("lasting", "too-late")

        await stop(system, "admission")
        await asyncio.to_thread(kafka.stop)
        shutil.copytree(kafka.data_dir, copy)
        await asyncio.to_thread(kafka.start)
        await start(system, "admission")
        assert watch.running("lasting")
        await watch.submit("too-late", "true", gpus=2)
        await watch.until_ended("too-late")

    await stop(system, *READERS, "admission")
    await asyncio.to_thread(kafka.stop)
    shutil.rmtree(kafka.data_dir)
    copy.rename(kafka.data_dir)
    await asyncio.to_thread(kafka.start)
    system.start_service("admission")
    for name in READERS:
        system.start_service(name)

    async with system.watch("pool-a") as watch:
        alarms: list[str] = []

        async def alarmed() -> bool:
            found = [unwrap(message, accept=(Alarm,)).body for message in await watch.everything(topics.ALARMS.name)]
            alarms[:] = [alarm.text for alarm in found if isinstance(alarm, Alarm) and alarm.code == "log-truncated"]
            return bool(alarms)

        await watch.until_true("the alarm is raised", alarmed)
        reference = re.search(r"refers to #(\d+) of epoch (\d+)", alarms[-1])
        assert reference is not None, alarms
        accept = 'bailiff log accept-truncation --epoch EPOCH --seq SEQ --reason "why the records are gone"'
        typed(system, accept, EPOCH=reference[2], SEQ=reference[1])
        await watch.submit("afterwards", "true", gpus=2)
        await watch.until_ended("afterwards")
        assert "too-late" not in watch.state.jobs
        watch.let_finish("lasting")
        await watch.until_ended("lasting")
        assert watch.job("lasting").attempt == 1
        watch.assert_started_once("lasting")
        await watch.verify(orphans=True)
