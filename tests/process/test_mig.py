"""MIG devices with real Kafka, services and processes: submitted by profile, preempted, back, and partitioned anew under way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.system import System

from bailiff_core.records.decisions import EvictionDecided, JobPlaced, JobRequeued, PreemptionDecided
from bailiff_core.records.facts import NodeJoined, TaskReleased
from bailiff_devstack.simulated_node.__main__ import main as change_devices

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]
NODE = "pool-a-0"
SETTING = "4xH100-80GB/nvlink2,2xH100-80GB:3g.40gb"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """One machine with four GPUs in pairs and a card of two MIG devices."""
    env = {"BAILIFF_RELEASE_TIMEOUT_S": "2", "BAILIFF_DEVICE_POLL_S": "0.3"}
    system = System(tmp_path, env=env, pools={"pool-a": 1}, machine={"pool-a": {"gpus": SETTING}})
    system.start()
    yield system
    system.stop()


async def test_mig_devices_are_preempted_come_back_and_go_with_their_card(system: System, tmp_path: Path) -> None:
    faults = str(system.folder / "state" / "node-agent" / "pool-a" / NODE / "faults.json")

    def submit(name: str, *options: str) -> None:
        line = f"echo $CUDA_VISIBLE_DEVICES > {tmp_path / name}; while :; do sleep 0.1; done"
        system.command("pool-a", "submit", "--name", name, *options, "--grace", "5s", "--", "sh", "-c", line)

    def seen_by(name: str) -> str:
        return (tmp_path / name).read_text().strip()

    async with system.watch("pool-a") as pool:
        # Each job sees its own MIG device; GPUs and MIG devices do not mix; the gang is on one island.
        for name in ("train-0", "train-1"):
            submit(name, "--mig", "3g.40gb")
        submit("pair", "--gpus", "1", "--tasks", "2", "--placement", "prefer nvlink")
        await pool.until_running("train-0", "train-1", "pair")
        await pool.until("all have written", lambda _: all((tmp_path / name).exists() for name in ("train-0", "train-1")))
        assert {seen_by("train-0"), seen_by("train-1")} == {f"MIG-sim-{NODE}-4-3g.40gb-{number}" for number in range(2)}
        assert (await pool.record(JobPlaced, job="pair")).island == f"{NODE}/nvlink-0"
        assert "island" in system.command("pool-a", "explain", "pair")

        # An urgent job preempts one of them, which comes back.
        submit("serve", "--mig", "3g.40gb", "--class", "inference")
        [victim] = [choice.job for choice in (await pool.record(PreemptionDecided)).victims]
        released = await pool.record(TaskReleased, job=victim)
        assert [(reading.device, reading.processes) for reading in released.after] == [(seen_by(victim), 0)]
        await pool.until_running("serve")
        assert seen_by("serve") == seen_by(victim)
        row = json.loads(system.command("pool-a", "node", "describe", NODE, "-o", "json"))
        assert row["mig_devices"] == {"3g.40gb": 2}
        assert {each["job"] for each in row["devices"] if each["profile"]} >= {"serve"}
        assert "2 × 3g.40gb of H100-80GB" in system.command("pool-a", "nodes")
        assert await system.metric("admission", "bailiff_mig_devices", pool="pool-a", profile="3g.40gb", state="in-use") == 2
        await pool.cancel("serve")
        await pool.until_running("train-0", "train-1")

        # The administrator partitions the card anew: its jobs leave by record, and wait; others are not affected.
        assert change_devices([faults, "gpus", SETTING.replace("2xH100-80GB:3g.40gb", "7xH100-80GB:1g.10gb")]) == 0
        await pool.until("the node has announced it", lambda _: len(pool.facts(NodeJoined, node=NODE)) >= 2)
        for name in ("train-0", "train-1"):
            assert (await pool.record(EvictionDecided, job=name)).cause == "device"
        await pool.until("both wait", lambda _: all(pool.job(name).phase == "pending" for name in ("train-0", "train-1")))
        assert [pool.job(name).failures for name in ("train-0", "train-1")] == [0, 0]
        assert pool.running("pair")
        row = json.loads(system.command("pool-a", "node", "describe", NODE, "-o", "json"))
        assert row["mig_devices"] == {"1g.10gb": 7}

        # And back: nothing is lost.
        assert change_devices([faults, "gpus", SETTING]) == 0
        await pool.until_running("train-0", "train-1", "pair")
        assert {record.outcome for record in pool.facts(JobRequeued)} <= {"preempted", "preempted-unclean", "lost"}
        await pool.verify()
