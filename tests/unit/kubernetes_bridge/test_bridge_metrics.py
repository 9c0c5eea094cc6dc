"""The bridge is built again after an outage of Kafka; its metrics are served once."""

from prometheus_client import CollectorRegistry

from bailiff_kubernetes_bridge.metrics import BridgeMetrics
from bailiff_service.metrics import BRIDGE_LEADER


def test_the_metrics_of_a_bridge_that_is_built_again_replace_those_of_the_one_before() -> None:
    registry = CollectorRegistry()
    for value in (1, 2):
        metrics = BridgeMetrics()
        with metrics.served(registry):
            metrics.leader.set(value)
            assert registry.get_sample_value(BRIDGE_LEADER.name) == value
    assert registry.get_sample_value(BRIDGE_LEADER.name) is None
