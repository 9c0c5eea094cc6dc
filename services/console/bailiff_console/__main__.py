"""`python -m bailiff_console`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.kafka import KafkaBus
from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .service import ConsoleService
from .settings import ConsoleSettings


def build(settings: ConsoleSettings, metrics: Metrics) -> ConsoleService:
    """The console on Kafka. The second connection has a short timeout: it probes whether Kafka answers."""
    probe = settings.kafka.model_copy(update={"request_timeout_ms": min(settings.kafka.request_timeout_ms, 3000)})
    return ConsoleService(settings, metrics, KafkaBus(settings.kafka), KafkaBus(probe))


if __name__ == "__main__":
    sys.exit(main(ConsoleSettings, build))
