"""`python -m bailiff_node_agent`: settings from `BAILIFF_*` and the file named by `BAILIFF_SETTINGS`."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .service import NodeAgentService
from .settings import NodeAgentSettings


def build(settings: NodeAgentSettings, metrics: Metrics) -> NodeAgentService:
    """The service, connected to Kafka."""
    return NodeAgentService(settings, metrics, KafkaBus(settings.kafka), ClockAndIds())


if __name__ == "__main__":
    sys.exit(main(NodeAgentSettings, build))
