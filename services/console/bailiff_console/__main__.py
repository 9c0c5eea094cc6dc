"""`python -m bailiff_console`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main

from .service import ConsoleService
from .settings import ConsoleSettings


def build(settings: ConsoleSettings, metrics: Metrics) -> ConsoleService:
    """The console on the real Kafka."""
    quick = settings.kafka.model_copy(update={"request_timeout_ms": min(settings.kafka.request_timeout_ms, 3000)})
    return ConsoleService(settings, metrics, KafkaBus(settings.kafka), KafkaBus(quick))


if __name__ == "__main__":
    sys.exit(main(ConsoleSettings, build))
