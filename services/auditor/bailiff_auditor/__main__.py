"""`python -m bailiff_auditor`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .alarms import AlarmKey
from .service import AuditorService
from .settings import AuditorSettings

RAISED_ALARMS: set[AlarmKey] = set()  # survives a restart of the service after a Kafka outage


def build(settings: AuditorSettings, metrics: Metrics) -> AuditorService:
    """The service on the real Kafka."""
    return AuditorService(settings, metrics, KafkaBus(settings.kafka), RAISED_ALARMS)


if __name__ == "__main__":
    sys.exit(main(AuditorSettings, build))
