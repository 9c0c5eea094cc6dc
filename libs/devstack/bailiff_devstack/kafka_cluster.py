"""A Kafka cluster of several brokers on this machine, for tests in which one of them fails."""

from collections.abc import Sequence
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
from .ports import LOOPBACK, free_ports

CLUSTER_TIMEOUT_S = 60.0


class KafkaCluster(Managed):
    """Several brokers, each of them a voter: topics have up to three replicas, and one broker may fail at any time.

    `brokers` can be killed, paused and started one by one. Calls block. hosts: of each broker, its address and the beginning of
    its command, which takes it to the network namespace that has this address; by default all are on the loopback.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        size: int = 3,
        hosts: Sequence[tuple[str, tuple[str, ...]]] = (),
        progress: jars.Progress = lambda _: None,
    ) -> None:
        ports = free_ports(2 * size)
        self._hosts = list(hosts) or [(LOOPBACK, ())] * size
        places = [(ports[at], ports[size + at], *self._hosts[at]) for at in range(size)]
        self._clients = ports[:size]
        self._cluster, replicas = fresh_cluster(), min(size, 3)
        voters = ",".join(voter(number, controller, host) for number, (_, controller, host, _) in enumerate(places, 1))
        self.brokers = [
            EmbeddedKafka(
                state_dir / f"broker-{number}",
                progress=progress,
                member=Member(number, (client, controller), self._cluster, voters, replicas, host, enter),
            )
            for number, (client, controller, host, enter) in enumerate(places, 1)
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
        if not wait_until(self._all_registered, CLUSTER_TIMEOUT_S):
            self.stop()
            raise KafkaStartError(f"not all brokers at {self.bootstrap} are registered after {CLUSTER_TIMEOUT_S:g} s")
        return self

    def _all_registered(self) -> bool:
        addresses = zip(self._clients, self._hosts, strict=True)
        return all(serves(port, self._cluster, self._clients, host=host) for port, (host, _) in addresses)

    def stop(self) -> None:
        """Stop all brokers. The last ones have no quorum and cannot shut down cleanly, so the grace is short."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: broker.stop(grace_s=5.0), self.brokers))

    close = stop
