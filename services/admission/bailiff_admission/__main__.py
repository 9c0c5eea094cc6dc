"""`python -m bailiff_admission`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus import engines
from bailiff_bus.ambient import Ambient
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main

from .service import AdmissionService
from .settings import AdmissionSettings


def build(settings: AdmissionSettings, metrics: Metrics) -> AdmissionService:
    """The service on the real Kafka. Its engine is kept first, for whoever replays; nothing else hangs on that."""
    try:
        engines.keep(settings.engines)
    except OSError as error:
        logger().warning("the engine is not kept", engines=str(settings.engines), why=str(error))
    return AdmissionService(settings, metrics, KafkaBus(settings.kafka), Ambient())


if __name__ == "__main__":
    sys.exit(main(AdmissionSettings, build))
