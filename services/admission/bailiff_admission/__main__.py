"""`python -m bailiff_admission`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_log import engine_store
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .service import AdmissionService
from .settings import AdmissionSettings


def build(settings: AdmissionSettings, metrics: Metrics) -> AdmissionService:
    """The service on the real Kafka. Stores its engine first, for replays; a failure is logged only."""
    try:
        engine_store.store_engine(settings.engines)
    except OSError as error:
        logger().warning("the engine could not be stored", engines=str(settings.engines), reason=str(error))
    return AdmissionService(settings, metrics, KafkaBus(settings.kafka), ClockAndIds())


if __name__ == "__main__":
    sys.exit(main(AdmissionSettings, build))
