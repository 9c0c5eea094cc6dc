"""A job that leaves everything that could end its node's agent, beside another user's; and a node whose agent is gone.

On real Kafka, services and processes, as `make up` sets them up and as `make up SECURE=1` does: what an operator is told of both.
The two systems run side by side, so that the minute after which a node counts as silent passes once.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kits import hostile_job
from tests.kits.archived_pool import bailiff
from tests.kits.console import CONSOLE, page, sign_in
from tests.kits.hostile_files import immutable
from tests.kits.http import get
from tests.kits.system import PATIENCE_S, POLICY, System

from bailiff.client.errors import ExitCode
from bailiff_core.records.facts import EvictionStageReached, JobSubmitted, NodeJoined, NodeLost, NodeUnreachable, TaskReleased
from bailiff_core.records.payload import Payload
from bailiff_devstack.secure_kafka import SecureKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

POOL, NODE, AWAY, STRANDED = "pool-a", "pool-a-0", "away", "stranded"
LOG_BYTES = 64 * 1024
SHORT = POLICY.model_copy(update={"eviction": POLICY.eviction.model_copy(update={"grace": 1_000_000})})


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, System]]:
    """Each has a machine of two GPUs, and one of four whose agent is killed for good under a job."""
    env, machine = {"BAILIFF_LOG_BYTES": str(LOG_BYTES), "BAILIFF_HEARTBEAT_S": "1"}, {POOL: {"gpus": "2xH100-80GB"}}
    away = [{"name": AWAY, "pool": POOL, "gpus": "4xH100-80GB"}]
    made = {}
    try:
        for name in ("plain", "secure"):
            folder = tmp_path_factory.mktemp(name)
            kafka = SecureKafka(folder / "kafka", progress=print) if name == "secure" else None
            system = made[name] = System(folder, kafka=kafka, env=env, policy=SHORT, pools={POOL: 1}, machine=machine)
            system.start()
            system.machines[POOL] += 1
            system.stack.start_service("node-agent", replica="-away", env={"BAILIFF_NODES": json.dumps(away)})
            asyncio.run(strand(system))
            system.stack.start_service(CONSOLE)
        yield made
    finally:
        for system in made.values():
            system.stop()
            state = system.folder / "state"  # too deep for pytest to remove
            subprocess.run(["find", state, "-name", "immutable", "-exec", "chattr", "-i", "{}", "+"], check=False)
            subprocess.run(["rm", "-rf", state], check=True)


async def strand(system: System) -> None:
    """A job runs on the machine whose agent then ends."""
    async with system.watch(POOL) as watch:
        watch.keep(STRANDED)
        await watch.submit(STRANDED, gpus=4)
        await watch.until_running(STRANDED)
        system.kill("node-agent-away")


@pytest.fixture(params=["plain", "secure"])
def system(request: pytest.FixtureRequest, systems: dict[str, System]) -> System:
    return systems[request.param]


@pytest.fixture
async def http(system: System) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the console's API, signed in."""
    await asyncio.to_thread(system.stack.processes.wait_ready, CONSOLE, timeout_s=PATIENCE_S)
    async with httpx.AsyncClient(base_url=system.stack.console, timeout=PATIENCE_S) as client:
        await sign_in(client, system.stack.console_token)
        yield client


async def alarms_shown(http: httpx.AsyncClient) -> dict[str, Any]:
    """The console's alarms, by code."""
    shown = await get(http, f"/api/pools/{POOL}/attention")
    return {row["code"]: row for row in shown["alarms"]}


def doctor(system: System, code: int | None = None) -> dict[tuple[str, str], str]:
    """What `bailiff doctor` says is not well, by what it looked at and its status. code: its exit code; None: any."""
    found = bailiff(system.stack, "doctor", code=code)
    return {(each["check"], each["status"]): each["found"] for each in found if each["status"] in ("wrong", "warn")}


async def test_a_hostile_job_ends_nobody_elses_and_what_it_leaves_is_reported(system: System, http: httpx.AsyncClient) -> None:
    async with system.watch(POOL) as watch:
        watch.keep(STRANDED)
        began, agent = watch.state.seq, system.stack.processes.pid("node-agent")
        ready, beats, ends = (system.marks / name for name in ("hostile.ready", "innocent.beats", "innocent.ends"))
        beat = f"while [ ! -e {ends} ]; do echo $BAILIFF_ATTEMPT >> {beats}; sleep 0.1; done"
        submit(system, "ada", "innocent", "sh", "-c", beat)
        submit(system, "mallory", "hostile", sys.executable, hostile_job.__file__, str(ready))
        await watch.until("everything hostile is there", lambda _: ready.exists())
        await watch.until_running("innocent", "hostile")
        owners = {fact.demand.job: fact.user for fact in watch.facts(JobSubmitted)}
        assert (owners["innocent"], owners["hostile"]) == ("ada", "mallory")
        logs = system.folder / "state" / "node-agent" / POOL / NODE / "logs"
        await watch.until("its log is rotated", lambda _: (logs / "hostile-1-0.log.1").exists())
        assert sum(part.stat().st_blocks * 512 for part in logs.glob("hostile-1-0.log*")) <= 3 * LOG_BYTES

        system.command(POOL, "cancel", "hostile", "--reason", "enough", "--actor", "mallory")
        await watch.record(EvictionStageReached, job="hostile", stage="kill_sent")
        await watch.record(TaskReleased, job="hostile")
        await watch.until_ended("hostile", "cancelled")

        if can_be_immutable(system.folder / "probe"):
            text = await watch.until_alarm("files-left", NODE)
            assert text.startswith(f"{NODE} cannot remove what 1 task left, such as ")
            assert text.endswith("Operation not permitted")
            assert "cannot remove what 1 task left" in doctor(system)[f"node {NODE}", "warn"]
            (row,) = [row for row in json.loads(system.command(POOL, "nodes", "-o", "json")) if row["node"] == NODE]
            assert (row["state"], row["left_folders"]) == ("ready", 1)
            assert (await alarms_shown(http))["files-left"]["text"] == text
            assert (await get(http, f"/api/pools/{POOL}/nodes/{NODE}/leftovers"))["left_folders"] == 1

        assert system.stack.processes.pid("node-agent") == agent
        assert [entry.record.data for entry in watch.entries if entry.record.seq > began and of_node(entry.record.data)] == []
        before = beats.stat().st_size
        await watch.until("the innocent job goes on", lambda _: beats.stat().st_size > before)
        ends.touch()
        await watch.until_ended("innocent")
        assert set(beats.read_text().split()) == {"1"}, "in its first attempt"
        await watch.verify()


def submit(system: System, user: str, job: str, *command: str) -> None:
    """As this user does, who has no key."""
    system.command(POOL, "submit", "--name", job, "--gpus", "1", "--actor", user, "--", *command)


def can_be_immutable(file: Path) -> bool:
    """Whether the job can leave what nobody removes: by its rights, and on this file system."""
    file.touch()
    try:
        with immutable(file):
            return shutil.which("chattr") is not None
    except OSError:
        return False


def of_node(fact: Payload | None) -> bool:
    """Whether it says that the node with the hostile job was away, or is another one."""
    return isinstance(fact, NodeUnreachable | NodeLost | NodeJoined) and fact.node == NODE


async def test_a_node_that_is_silent_for_a_minute_is_an_alarm_fails_the_doctor_and_is_on_the_console(
    system: System, http: httpx.AsyncClient
) -> None:
    async with system.watch(POOL) as watch:
        watch.keep(STRANDED)
        text = await watch.until_alarm("node-silent", within_s=60 + PATIENCE_S)
        assert re.match(rf"1 node sent no report for a minute: {AWAY} since \S+, with 1 task\. ", text)
        found = doctor(system, ExitCode.FOUND_WRONG)[f"node {AWAY}", "wrong"]
        assert re.match(rf"{AWAY} has sent no report since .* ago\), 1 task on it; nothing new is placed there", found)
        assert (await alarms_shown(http))["node-silent"]["text"] == text
        async with page(http, POOL, "nodes") as live:
            await live.until("both machines are shown", lambda shown: len(shown.snapshot.get("nodes", ())) == 2)
            states = {name: row["state"] for name, row in live.client_state.snapshot["nodes"].items()}
            assert states == {NODE: "ready", AWAY: "unreachable"}
