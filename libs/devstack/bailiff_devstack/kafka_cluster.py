"""A Kafka cluster of several brokers on this machine, for tests in which one of them fails."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from bailiff_bus.kafka_settings import KafkaSettings

from . import jars
from .identity import wait_until
from .kafka import EmbeddedKafka, Member, fresh_cluster, voter
from .kafka_java import KafkaStartError
from .kafka_serving import serves
from .managed import Managed
from .ports import free_ports

CLUSTER_TIMEOUT_S = 60.0


class KafkaCluster(Managed):
    """Several brokers, each of them a voter: topics have up to three replicas, and one broker may fail at any time.

    `brokers` can be killed, paused and started one by one. Calls block.
    """

    def __init__(self, state_dir: Path, *, size: int = 3, progress: jars.Progress = lambda _: None) -> None:
        ports = free_ports(2 * size)
        pairs = list(zip(ports[:size], ports[size:], strict=True))
        self._clients = [client for client, _ in pairs]
        self._cluster, replicas = fresh_cluster(), min(size, 3)
        voters = ",".join(voter(number, controller) for number, (_, controller) in enumerate(pairs, 1))
        self.brokers = [
            EmbeddedKafka(
                state_dir / f"broker-{number}",
                progress=progress,
                member=Member(number, pair, self._cluster, voters, replicas),
            )
            for number, pair in enumerate(pairs, 1)
        ]

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def settings(self, role: str) -> KafkaSettings:  # noqa: ARG002 - everybody may do everything
        """Connection settings of a principal."""
        return KafkaSettings(bootstrap=self.bootstrap)

    def running(self) -> bool:
        """Whether every broker's process exists."""
        return all(broker.running() for broker in self.brokers)

    def start(self) -> Self:
        """Start the brokers that are not running, concurrently: a single one has no quorum."""
        self.brokers[0].prepare()  # downloads of the first start happen once
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(EmbeddedKafka.start, self.brokers))
        # Topics created before all brokers are registered would have fewer replicas.
        if not wait_until(lambda: all(serves(each, self._cluster, self._clients) for each in self._clients), CLUSTER_TIMEOUT_S):
            self.stop()
            raise KafkaStartError(f"not all brokers at {self.bootstrap} are registered after {CLUSTER_TIMEOUT_S:g} s")
        return self

    def stop(self) -> None:
        """Stop all brokers. The last ones have no quorum and cannot shut down cleanly, so the grace is short."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: broker.stop(grace_s=5.0), self.brokers))

    close = stop
