"""The bridge's own metrics, beside those of every service. `bailiff_service.metrics` declares all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bailiff_service.metrics import (
    BRIDGE_ACTIONS,
    BRIDGE_ACTIONS_DUE,
    BRIDGE_ACTIONS_FAILED,
    BRIDGE_LEADER,
    BRIDGE_ROUND_SECONDS,
)


class BridgeMetrics:
    """Of one bridge: after an outage of Kafka another one is built, and served on the same registry."""

    def __init__(self) -> None:
        self.leader = Gauge(BRIDGE_LEADER.name, BRIDGE_LEADER.help, BRIDGE_LEADER.labels, registry=None)
        self.actions = Counter(BRIDGE_ACTIONS.name, BRIDGE_ACTIONS.help, BRIDGE_ACTIONS.labels, registry=None)
        self.failed = Counter(BRIDGE_ACTIONS_FAILED.name, BRIDGE_ACTIONS_FAILED.help, BRIDGE_ACTIONS_FAILED.labels, registry=None)
        self.due = Gauge(BRIDGE_ACTIONS_DUE.name, BRIDGE_ACTIONS_DUE.help, BRIDGE_ACTIONS_DUE.labels, registry=None)
        self.round_seconds = Histogram(
            BRIDGE_ROUND_SECONDS.name, BRIDGE_ROUND_SECONDS.help, BRIDGE_ROUND_SECONDS.labels, registry=None
        )

    @contextmanager
    def served(self, registry: CollectorRegistry) -> Iterator[None]:
        """Served on this registry until the block ends."""
        collectors = (self.leader, self.actions, self.failed, self.due, self.round_seconds)
        for collector in collectors:
            registry.register(collector)
        try:
            yield
        finally:
            for collector in collectors:
                registry.unregister(collector)
