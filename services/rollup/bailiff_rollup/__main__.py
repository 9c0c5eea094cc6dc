"""`python -m bailiff_rollup`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .service import RollupService
from .settings import RollupSettings


def build(settings: RollupSettings, metrics: Metrics) -> RollupService:
    """The service on the real Kafka."""
    return RollupService(settings, metrics, KafkaBus(settings.kafka))


if __name__ == "__main__":
    sys.exit(main(RollupSettings, build))
