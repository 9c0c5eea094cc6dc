"""`python -m bailiff_victim_selection`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.main import main
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import PoolService
from bailiff_service.settings import ServiceSettings, read_own_credentials

from .selector import compute_in_thread, run_selector


def build(settings: ServiceSettings, metrics: Metrics) -> PoolService:
    """The service on the real Kafka."""
    bus, clock_and_ids, credentials = KafkaBus(settings.kafka), ClockAndIds(), read_own_credentials(settings)
    return PoolService(
        "victim-selection",
        settings,
        metrics,
        bus,
        lambda projection: run_selector(projection, clock_and_ids, compute_in_thread, credentials),
    )


if __name__ == "__main__":
    sys.exit(main(ServiceSettings, build))
