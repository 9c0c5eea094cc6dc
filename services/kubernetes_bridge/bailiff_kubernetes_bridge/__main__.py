"""`python -m bailiff_kubernetes_bridge`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .service import KubernetesBridge
from .settings import BridgeSettings


def build(settings: BridgeSettings, metrics: Metrics) -> KubernetesBridge:
    """The bridge on Kafka. It is built again after an outage of Kafka."""
    return KubernetesBridge(settings, metrics, KafkaBus(settings.kafka), SYSTEM)


if __name__ == "__main__":
    sys.exit(main(BridgeSettings, build))
