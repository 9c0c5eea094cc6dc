"""From one broker to three without stopping a job, as docs/how-to/kafka.md has it, with Kafka's own tools."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.system import PATIENCE_S, System

from bailiff_bus.topics import AUDIT, TOPICS
from bailiff_devstack.jars import Pin, class_path, default_cache
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1200)]

# The broker needs no tools, so the devstack's list lacks them.
TOOLS = Pin("b88bc6ccc520d648142515526e4042c285612ce94b032434a88e3e936e38b600", "org.apache.kafka", "kafka-tools", "4.3.0")
CONTROL = ("victim-selection", "eviction-executor", "admission")
KAFKA_ITSELF = ("__consumer_offsets",)


class Brokers:
    """One broker as the only voter, and the ports of two more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(6)
        self.clients, self.controllers = ports[:3], ports[3:]
        self.first = self._broker(1, {"controller.quorum.voters": f"1@127.0.0.1:{self.controllers[0]}"})
        self.all = [self.first]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.clients)

    def _broker(self, number: int, quorum: dict[str, str]) -> EmbeddedKafka:
        client, controller = self.clients[number - 1], self.controllers[number - 1]
        addresses = f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
        settings = {"node.id": str(number), "listeners": addresses, "advertised.listeners": addresses, **quorum}
        return EmbeddedKafka(self.folder / f"broker-{number}", port=client, properties=settings, progress=print)

    def dynamic(self, number: int) -> EmbeddedKafka:
        """A broker that discovers the quorum from its bootstrap servers, and joins it."""
        others = ",".join(f"127.0.0.1:{port}" for port in self.controllers)
        return self._broker(
            number,
            {
                "controller.quorum.voters": "",
                "controller.quorum.bootstrap.servers": others,
                "controller.quorum.auto.join.enable": "true",
            },
        )

    def tool(self, name: str, *arguments: str) -> str:
        """Run one of Kafka's tools; its output."""
        self.first.start()
        *java, broker_jars = self.first._command
        (tools,) = class_path(default_cache(), print, [TOOLS])
        java = [word for word in java if not word.startswith(("-XX:AOT", "-Xlog"))]
        command = [*java, f"{broker_jars}:{tools}", name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, f"{name} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def admin(self, name: str, *arguments: str) -> str:
        return self.tool(f"org.apache.kafka.tools.{name}", "--bootstrap-server", self.first.bootstrap, *arguments)

    def close(self) -> None:
        for broker in self.all:
            broker.kill()  # a clean shutdown would wait for a quorum that is lost
            broker.close()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path / "kafka")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def grown(tmp_path: Path, brokers: Brokers) -> Iterator[System]:
    with System(tmp_path, pools={"pool-a": 1}, kafka=brokers.first) as system:
        yield system


async def test_a_log_with_one_copy_gets_three_and_outlives_its_first_broker(grown: System, brokers: Brokers) -> None:
    async with grown.watch("pool-a") as watch:
        await watch.submit("lasting", watch.until_signalled(), gpus=2)
        await watch.until_running("lasting")

        await asyncio.to_thread(add_two_brokers, brokers)
        await asyncio.to_thread(copy_everything, brokers)
        settings = await watch.bus.topic_settings(AUDIT.name)
        assert (settings["brokers"], settings["replication"], settings["min.insync.replicas"]) == ("3", "3", "2")
        watch.keep("lasting")

    grown.stack.kafka = brokers  # type: ignore[assignment]
    for name in (*CONTROL, "node-agent"):  # each checks the audit topic when it starts
        await asyncio.to_thread(grown.stack.processes.stop, name)
        grown.start_service(name)
    await asyncio.to_thread(grown.stack.processes.wait_ready, *CONTROL, "node-agent", timeout_s=PATIENCE_S)

    async with grown.watch("pool-a") as watch:
        await asyncio.to_thread(brokers.first.kill)
        await watch.submit("without-the-first", "true", gpus=4)
        await watch.until_ended("without-the-first")
        watch.let_finish("lasting")
        await watch.until_ended("lasting")
        watch.assert_started_once("lasting")
        assert watch.job("lasting").attempt == 1
        await watch.verify(orphans=True)


def add_two_brokers(brokers: Brokers) -> None:
    """Convert the quorum to a dynamic one, then add two brokers."""
    brokers.admin("FeatureCommand", "upgrade", "--feature", "kraft.version=1")
    brokers.first.stop()
    brokers.first = brokers.dynamic(1).start()
    brokers.all[0] = brokers.first
    cluster = next(
        line.partition("=")[2]
        for line in (brokers.first.data_dir / "meta.properties").read_text().splitlines()
        if line.startswith("cluster.id=")
    ).replace("\\", "")
    for number in (2, 3):
        joining = brokers.dynamic(number)
        brokers.all.append(joining)
        joining.data_dir.mkdir(parents=True)
        settings = joining.state_dir / "format.properties"
        joining._ports = (brokers.clients[number - 1], brokers.controllers[number - 1])
        settings.write_text("".join(f"{key}={value}\n" for key, value in joining._settings().items()))
        how = ["format", "--cluster-id", cluster, "--config", str(settings), "--no-initial-controllers"]
        brokers.tool("kafka.tools.StorageTool", *how)
        joining.start()
    while voters(brokers) < 3:  # each poll starts a JVM, which is slow
        pass


def voters(brokers: Brokers) -> int:
    """Number of voters."""
    status = brokers.admin("MetadataQuorumCommand", "describe", "--status")
    line = next(line for line in status.splitlines() if line.startswith("CurrentVoters:"))
    return line.count('"id"')


def copy_everything(brokers: Brokers) -> None:
    """Reassign every partition to three replicas with different leaders; then set min.insync.replicas to two."""
    described = brokers.admin("TopicCommand", "--describe")
    partitions = [line.split("\t") for line in described.splitlines() if line.startswith("\tTopic: ")]
    plan = []
    for at, words in enumerate(partitions):
        values = {name.strip(): value.strip() for name, _, value in (word.partition(":") for word in words)}
        order = [1 + (at + step) % 3 for step in range(3)]
        plan.append({"topic": values["Topic"], "partition": int(values["Partition"]), "replicas": order})
    assert {entry["topic"] for entry in plan} == {*TOPICS, *KAFKA_ITSELF}
    file = brokers.folder / "three-copies.json"
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    brokers.admin("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(file), "--execute")
    while "still in progress" in brokers.admin(
        "reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(file), "--verify"
    ):
        pass
    two = ("--add-config", "min.insync.replicas=2")
    for entity in (("--entity-type", "brokers", "--entity-default"), ("--entity-type", "topics", "--entity-name", AUDIT.name)):
        where = ("--bootstrap-server", brokers.first.bootstrap, "--alter", *entity)
        brokers.tool("kafka.admin.ConfigCommand", *where, *two)
