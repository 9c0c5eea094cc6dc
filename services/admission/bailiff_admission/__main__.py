"""`python -m bailiff_admission`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.ambient import Ambient
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main

from .service import AdmissionService
from .settings import AdmissionSettings


def build(settings: AdmissionSettings, metrics: Metrics) -> AdmissionService:
    """The service on the real Kafka."""
    return AdmissionService(settings, metrics, KafkaBus(settings.kafka), Ambient())


if __name__ == "__main__":
    sys.exit(main(AdmissionSettings, build))
