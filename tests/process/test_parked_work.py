"""A plain program stays in the memory of its machine while another has its place, whoever is killed; once that machine is lost,
it goes on elsewhere from the snapshot that it had before.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.criu import criu_program, needs_criu
from tests.kits.saved_programs import HASHES, result_in, result_of_one_that_was_never_touched
from tests.kits.system import POLICY, System

from bailiff_core.model.policy import NodeRules
from bailiff_core.records import facts
from bailiff_core.records.decisions import JobRequeued
from bailiff_node_agent.runtime.freezer import OldFreezer
from bailiff_node_agent.runtime.process import cgroups_of

pytestmark = [pytest.mark.kafka, needs_criu, pytest.mark.timeout(400)]
SECOND = 1_000_000
SOON = NodeRules(unreachable_after=4 * SECOND, lease=12 * SECOND, lost_margin=5 * SECOND)
PARKS, CPUS = {"parking_bytes": 8 << 30}, 128
FAR = [{"name": "far", "pool": "pool-a", "gpus": "8xH100-80GB", **PARKS}]
AGENTS = {"far": "node-agent-far", "pool-a-0": "node-agent"}


class Machines(System):
    """Two machines with an agent each, which share a folder for checkpoints and keep memory for parked jobs."""

    def start_service(self, name: str) -> None:
        if name == AGENTS["far"]:
            self.stack.start_service("node-agent", replica="-far", env={"BAILIFF_NODES": json.dumps(FAR)})
        else:
            super().start_service(name)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    if cgroups_of(tmp_path) is None and OldFreezer.on_this_host(tmp_path.name) is None:
        pytest.skip("this host has no freezer that this user may use")
    env = {"BAILIFF_CRIU": criu_program(), "BAILIFF_SHARED_CHECKPOINTS": str(tmp_path / "shared"), "BAILIFF_RUN_AS": "agent"}
    policy = POLICY.model_copy(update={"nodes": SOON})
    settings = {**env, "BAILIFF_HEARTBEAT_S": "0.3"}
    system = Machines(tmp_path, pools={"pool-a": 1}, machine={"pool-a": PARKS}, env=settings, policy=policy)
    system.start()
    system.machines["pool-a"] += 1
    system.start_service(AGENTS["far"])
    yield system
    system.stop()


async def test_it_stays_in_memory_and_once_its_node_is_lost_goes_on_from_its_snapshot(machines: Machines, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "program.py").write_text(HASHES)

    def log() -> str:
        return "".join(path.read_text() for path in sorted(machines.folder.glob("state/**/logs/plain-*-0.log")))

    async with machines.watch("pool-a") as watch:
        both = lambda state: len(state.nodes) == 2 and all(node.snapshots for node in state.nodes.values())  # noqa: E731
        await watch.until("both machines can save", both, 120)
        await watch.submit("here", watch.until_signalled(), gpus=0, cpus=CPUS, kind="build")
        await watch.until_running("here")
        run = f"exec {sys.executable} -I -S {tmp_path}/program.py {data}"
        await watch.submit("plain", run, gpus=0, cpus=CPUS, checkpoint="snapshot", grace_s=60)
        await watch.until_running("plain")
        here, there = (watch.state.nodes[watch.job(name).tasks[0].node].name for name in ("here", "plain"))
        await watch.until("it has done its first stage", lambda _: "stage 0" in log())
        await asyncio.to_thread(machines.command, "pool-a", "checkpoint", "plain")
        await watch.record(facts.SnapshotStageReached, job="plain", stage="stored")
        (data / "data-0").touch()
        await watch.until("it has gone on with its second stage", lambda _: "stage 1" in log())

        await watch.submit("urgent-1", watch.until_signalled(), gpus=0, cpus=CPUS, kind="build")
        await watch.record(facts.EvictionStageReached, job="plain", stage="parked")
        await watch.until_running("urgent-1")
        machines.kill_and_restart(AGENTS[there])
        number = watch.state.node_numbers[there]
        before = watch.state.nodes[number].incarnation
        await watch.until("its next agent has joined", lambda state: state.nodes[number].incarnation != before)
        watch.let_finish("urgent-1")
        resumed = await watch.record(facts.TaskRestored, job="plain")
        assert (resumed.node, resumed.driver, resumed.from_attempt) == (there, "park", 1)
        (data / "data-1").touch()
        await watch.until("it has gone on with its third stage", lambda _: "stage 2" in log())

        await watch.submit("urgent-2", watch.until_signalled(), gpus=0, cpus=CPUS, kind="build")
        await watch.record(facts.EvictionStageReached, job="plain", attempt=2, stage="parked")
        await watch.until_running("urgent-2")
        watch.let_finish("here")
        await watch.until_ended("here")
        machines.kill(AGENTS[there])
        await watch.record(facts.NodeLost, node=there)
        restored = await watch.record(facts.TaskRestored, job="plain", driver="criu")
        assert (restored.node, restored.from_attempt) == (here, 1)
        (data / "data-2").touch()
        await watch.until_ended("plain")
        assert watch.facts(facts.TaskRestoreFailed) == []
        requeued = watch.facts(JobRequeued, job="plain")
        assert [(each.outcome, each.measured) for each in requeued] == [("preempted", True)] * 2, "neither has lost work"
        started = watch.facts(facts.TaskStarted, job="plain")[-1]
        assert (started.not_restored, started.lost_gpu_ms > 0) == ("other-node", True)
        await watch.verify(orphans=True)
    assert [*dict.fromkeys(result_in(log()))] == await result_of_one_that_was_never_touched(tmp_path) != []
    assert not [*(tmp_path / "shared").rglob("plain/attempt-*")]
