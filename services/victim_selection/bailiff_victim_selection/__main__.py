"""`python -m bailiff_victim_selection`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.ambient import Ambient
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main
from bailiff_bus.settings import ServiceSettings

from .service import VictimSelectionService


def build(settings: ServiceSettings, metrics: Metrics) -> VictimSelectionService:
    """The service on the real Kafka."""
    return VictimSelectionService(settings, metrics, KafkaBus(settings.kafka), Ambient())


if __name__ == "__main__":
    sys.exit(main(ServiceSettings, build))
