"""Kafka for tests: one broker for the whole session, and separate brokers for tests that break them.

`BAILIFF_TEST_KAFKA` chooses for the shared one: `embedded` (the devstack), `container` (testcontainers, image
apache/kafka), or unset: a container if a Docker engine answers and has the image already, otherwise embedded. Private
brokers are always embedded: only processes can be killed and paused.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.ports import free_port

_IMAGE = "apache/kafka:4.3.0"


@dataclass(frozen=True)
class TestKafka:
    """The shared broker. Its topics outlive the test: use unique names."""

    __test__: ClassVar[bool] = False

    bootstrap: str


@pytest.fixture(scope="session")
def kafka() -> Iterator[TestKafka]:
    """One broker for all tests that do not stop it."""
    choice = os.environ.get("BAILIFF_TEST_KAFKA") or ("container" if _image_is_there() else "embedded")
    brokers: dict[str, Callable[[], AbstractContextManager[str]]] = {"embedded": _embedded, "container": _container}
    with brokers[choice]() as bootstrap:
        yield TestKafka(bootstrap)


@pytest.fixture
def private_kafka(tmp_path: Path) -> Iterator[Callable[[], EmbeddedKafka]]:
    """Each call starts a broker that the test may kill, pause and restart; all are stopped after the test."""
    with ExitStack() as brokers:
        count = 0

        def make() -> EmbeddedKafka:
            nonlocal count
            count += 1
            return brokers.enter_context(EmbeddedKafka(tmp_path / f"kafka-{count}", progress=print))

        yield make


@contextmanager
def _embedded() -> Iterator[str]:
    with EmbeddedKafka(progress=print) as broker:
        yield broker.bootstrap


@contextmanager
def _container() -> Iterator[str]:
    # Its reaper is a second image, which would be pulled.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    # Chosen beforehand, because Kafka advertises it to clients, and the same inside the container: the broker connects to its
    # own advertised address to check transactions. If it cannot, sends within a transaction fail with NotEnoughReplicas.
    port = free_port()
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{port},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_MESSAGE_MAX_BYTES": str(4 * 1024 * 1024),
    }
    container = DockerContainer(_IMAGE).with_bind_ports(port, port).with_envs(**settings)
    with container.waiting_for(LogMessageWaitStrategy("Kafka Server started")):
        yield f"127.0.0.1:{port}"


def _image_is_there() -> bool:
    """Whether a Docker engine answers and has the image."""
    if shutil.which("docker") is None:
        return False
    try:
        requested = subprocess.run(["docker", "image", "inspect", _IMAGE], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return requested.returncode == 0


def impatient(bootstrap: str) -> KafkaSettings:
    """For brokers that are expected not to answer."""
    return KafkaSettings(bootstrap=bootstrap, request_timeout_ms=2000, session_timeout_ms=2000)


async def make_topic(bootstrap: str, settings: dict[str, str] | None = None) -> str:
    name = f"bus-{uuid.uuid4().hex[:8]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        chosen = {"message.timestamp.type": "LogAppendTime"} if settings is None else settings
        answer = await admin.create_topics([NewTopic(name, 1, 1, topic_configs=chosen)])
        assert [code for _, code, _ in answer.topic_errors] == [0]
    finally:
        await admin.close()
    return name
