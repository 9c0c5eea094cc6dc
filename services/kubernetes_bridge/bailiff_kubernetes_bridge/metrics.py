"""The bridge's own metrics, beside those of every service. `bailiff_service.metrics` declares all of them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bailiff_service.metrics import (
    BRIDGE_ACTIONS,
    BRIDGE_ACTIONS_DUE,
    BRIDGE_ACTIONS_FAILED,
    BRIDGE_LEADER,
    BRIDGE_ROUND_SECONDS,
)


class BridgeMetrics:
    """On the service's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge(BRIDGE_LEADER.name, BRIDGE_LEADER.help, BRIDGE_LEADER.labels, registry=registry)
        self.actions = Counter(BRIDGE_ACTIONS.name, BRIDGE_ACTIONS.help, BRIDGE_ACTIONS.labels, registry=registry)
        self.failed = Counter(
            BRIDGE_ACTIONS_FAILED.name, BRIDGE_ACTIONS_FAILED.help, BRIDGE_ACTIONS_FAILED.labels, registry=registry
        )
        self.due = Gauge(BRIDGE_ACTIONS_DUE.name, BRIDGE_ACTIONS_DUE.help, BRIDGE_ACTIONS_DUE.labels, registry=registry)
        self.round_seconds = Histogram(
            BRIDGE_ROUND_SECONDS.name, BRIDGE_ROUND_SECONDS.help, BRIDGE_ROUND_SECONDS.labels, registry=registry
        )
