"""Operator requests (pause, migrate, drain) and the environment of a gang, on real Kafka, services and processes."""

import json

import pytest
from tests.kits.system import PATIENCE_S, System

from bailiff_core.records.decisions import DrainDeadlineReached, EvictionDecided, JobRequeued, MigrationDecided
from bailiff_core.records.facts import JobPaused, NodeDrained

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

VARIABLES = (
    *("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
)


async def test_a_gang_over_two_nodes_has_the_environment_that_torchrun_users_expect(system: System) -> None:
    async with system.watch("pool-b") as watch:
        values = " ".join(f"{name}=${name}" for name in VARIABLES)
        await watch.submit("gang", f'echo "{values}" >> {system.marks}/gang.env', gpus=4, tasks=2, grace_s=90)
        await watch.until_ended("gang")
        lines = (system.marks / "gang.env").read_text().splitlines()
        one, two = sorted(
            ({name: value for name, _, value in (word.partition("=") for word in line.split())} for line in lines),
            key=lambda env: env["RANK"],
        )
        assert (one["RANK"], one["NODE_RANK"], two["RANK"], two["NODE_RANK"]) == ("0", "0", "1", "1")
        for env in (one, two):
            assert (env["LOCAL_RANK"], env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == ("0", "2", "1")
            assert env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "90"
        assert one["MASTER_ADDR"] == two["MASTER_ADDR"]
        assert one["MASTER_PORT"] == two["MASTER_PORT"]
        assert 1024 < int(one["MASTER_PORT"]) < 65536
        await watch.verify()


async def test_a_paused_job_releases_its_gpus_and_resumes_through_the_queue(system: System) -> None:
    async with system.watch("pool-b") as watch:
        await watch.submit("paused", gpus=4)
        await watch.until_running("paused")
        await watch.noted("paused", 1)
        assert "paused" in system.command("pool-b", "pause", "paused", "--reason", "data")
        await watch.until("it is paused", lambda pool: pool.jobs["paused"].phase == "paused")
        await watch.record(JobPaused, job="paused", reason="data")
        (requeued,) = watch.facts(JobRequeued, job="paused")
        assert requeued.cause == "paused"
        assert not any(node.allocated.devices for node in watch.state.nodes.values())
        rows = json.loads(system.command("pool-b", "list", "-o", "json"))
        assert [(row["job"], row["state"], row["nodes"]) for row in rows] == [("paused", "paused", [])]
        system.command("pool-b", "resume", "paused")
        await watch.until_running("paused")
        await watch.noted("paused", 2)
        watch.assert_started_once("paused")
        await watch.verify()


async def test_a_migrated_job_resumes_on_its_reservation_and_its_pause_is_measured(system: System) -> None:
    async with system.watch("pool-b") as watch:
        await watch.submit("moves", gpus=4)
        await watch.until_running("moves")
        await watch.noted("moves", 1)
        before = watch.job("moves").tasks[0].node
        system.command("pool-b", "migrate", "moves", "--reason", "noise")
        await watch.record(MigrationDecided, job="moves", reason="noise")
        await watch.until("it runs elsewhere", lambda pool: pool.jobs["moves"].attempt == 2 and watch.running("moves"))
        assert watch.job("moves").tasks[0].node != before
        await watch.noted("moves", 2)
        (move,) = json.loads(system.command("pool-b", "describe", "moves", "-o", "json"))["moves"]
        assert 0 < move["down_s"] <= move["pause_s"] < PATIENCE_S
        await watch.verify()


async def test_a_drained_node_becomes_empty_and_its_jobs_run_on_other_nodes(system: System) -> None:
    async with system.watch("pool-b") as watch:
        await watch.submit("stays", gpus=4)
        await watch.until_running("stays")
        await watch.noted("stays", 1)
        node = watch.state.nodes[watch.job("stays").tasks[0].node]
        try:
            shown = system.command("pool-b", "drain", node.name, "--quick", "--dry-run")
            assert "stays" in shown
            assert "nothing was requested" in shown
            system.command("pool-b", "drain", node.name, "--graceful", "--deadline", "2s", "--reason", "driver", "--yes")
            await watch.record(NodeDrained, node=node.name, mode="graceful", reason="driver")
            await watch.record(DrainDeadlineReached, node=node.name)
            await watch.record(EvictionDecided, job="stays", cause="drain")
            await watch.until("it runs elsewhere", lambda pool: pool.jobs["stays"].attempt == 2 and watch.running("stays"))
            assert watch.job("stays").tasks[0].node != node.number
            assert "drained" in system.command("pool-b", "nodes")
        finally:
            system.command("pool-b", "undrain", node.name)
        await watch.noted("stays", 2)
        assert "eviction requested" in system.command("pool-b", "evict", "stays")
        await watch.until("it runs again", lambda pool: pool.jobs["stays"].attempt == 3 and watch.running("stays"))
        await watch.noted("stays", 3)
        watch.assert_started_once("stays")
        await watch.verify()
