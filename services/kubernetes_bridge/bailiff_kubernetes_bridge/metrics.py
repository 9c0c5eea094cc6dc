"""The bridge's own metrics, beside those of every service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class BridgeMetrics:
    """On the service's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leader = Gauge("bailiff_bridge_leader", "Whether this replica of the Kubernetes bridge acts.", registry=registry)
        self.actions = Counter(
            "bailiff_bridge_actions", "Requests sent and objects changed by the bridge.", ("pool", "action"), registry=registry
        )
        self.failed = Counter(
            "bailiff_bridge_actions_failed", "Changes that the API server refused.", ("pool", "action"), registry=registry
        )
        self.actions_due = Gauge(
            "bailiff_bridge_actions_due", "Actions that the last round found, requests on their way included.", ("pool",),
            registry=registry,
        )  # fmt: skip
        self.round_seconds = Histogram("bailiff_bridge_round_seconds", "Time to compute what is to be done.", registry=registry)
