"""The bridge's own metrics, beside those of every service. `bailiff_service.metrics` declares all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from bailiff_service.metrics import BRIDGE_ACTIONS, BRIDGE_ACTIONS_DUE, BRIDGE_ACTIONS_FAILED, BRIDGE_LEADER, BRIDGE_ROUND_SECONDS


class BridgeMetrics:
    """Of one bridge: after an outage of Kafka another one is built, and served on the same registry."""

    def __init__(self) -> None:
        self.leader = BRIDGE_LEADER.gauge(None)
        self.actions = BRIDGE_ACTIONS.counter(None)
        self.failed = BRIDGE_ACTIONS_FAILED.counter(None)
        self.due = BRIDGE_ACTIONS_DUE.gauge(None)
        self.round_seconds = BRIDGE_ROUND_SECONDS.histogram(None)

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
