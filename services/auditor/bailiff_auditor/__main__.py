"""`python -m bailiff_auditor`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main

from .alarms import Told
from .service import AuditorService
from .settings import AuditorSettings

TOLD: set[Told] = set()  # a service that lost Kafka is made anew, and need not say all of it again


def build(settings: AuditorSettings, metrics: Metrics) -> AuditorService:
    """The service on the real Kafka."""
    return AuditorService(settings, metrics, KafkaBus(settings.kafka), TOLD)


if __name__ == "__main__":
    sys.exit(main(AuditorSettings, build))
