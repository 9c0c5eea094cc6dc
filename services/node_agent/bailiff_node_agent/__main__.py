"""`python -m bailiff_node_agent`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.ambient import Ambient
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main

from .service import NodeAgentService
from .settings import NodeAgentSettings


def build(settings: NodeAgentSettings, metrics: Metrics) -> NodeAgentService:
    """The service on the real Kafka."""
    return NodeAgentService(settings, metrics, KafkaBus(settings.kafka), Ambient())


if __name__ == "__main__":
    sys.exit(main(NodeAgentSettings, build))
