"""Several Kafka brokers on this machine, for what must outlive one of them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from bailiff_devstack import jars
from bailiff_devstack.identity import wait_until
from bailiff_devstack.kafka import EmbeddedKafka, Member, fresh_cluster, voter
from bailiff_devstack.kafka_java import KafkaStartError
from bailiff_devstack.kafka_serving import serves
from bailiff_devstack.ports import free_ports
from bailiff_devstack.started import Started

KNOWN_WITHIN_S = 60.0


class KafkaCluster(Started):
    """Several brokers, each of which votes: topics have up to three copies, and one broker may die at any time.

    `brokers` are to be killed, paused and started one by one. Used as a broker is: calls block.
    """

    def __init__(self, state_dir: Path, *, size: int = 3, progress: jars.Progress = lambda _: None) -> None:
        ports = free_ports(2 * size)
        pairs = list(zip(ports[:size], ports[size:], strict=True))
        self._clients = [client for client, _ in pairs]
        self._cluster, copies = fresh_cluster(), min(size, 3)
        voters = ",".join(voter(number, controller) for number, (_, controller) in enumerate(pairs, 1))
        self.brokers = [
            EmbeddedKafka(
                state_dir / f"broker-{number}",
                progress=progress,
                member=Member(number, pair, self._cluster, voters, copies),
            )
            for number, pair in enumerate(pairs, 1)
        ]

    @property
    def bootstrap(self) -> str:
        """What a client connects to: all of them."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def running(self) -> bool:
        """Whether every broker's process is there."""
        return all(broker.running() for broker in self.brokers)

    def start(self) -> Self:
        """Start those that do not run, at once: alone none of them would come up."""
        self.brokers[0].prepare()  # what the first start on a machine fetches and makes is fetched and made once
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(EmbeddedKafka.start, self.brokers))
        # Topics made while a broker does not know all the others yet would have fewer copies.
        if not wait_until(lambda: all(serves(each, self._cluster, self._clients) for each in self._clients), KNOWN_WITHIN_S):
            self.stop()
            raise KafkaStartError(f"the brokers at {self.bootstrap} do not all know each other after {KNOWN_WITHIN_S:g} s")
        return self

    def stop(self) -> None:
        """End all of them in order. The last ones would wait for a quorum that is gone, so they get little time."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: broker.stop(grace_s=5.0), self.brokers))

    close = stop
