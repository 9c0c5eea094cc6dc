"""`python -m bailiff_eviction_executor`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_bus.ambient import Ambient
from bailiff_bus.domains import FollowingService
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.metrics import Metrics
from bailiff_bus.runtime import main
from bailiff_bus.settings import ServiceSettings

from .executor import Executor


def build(settings: ServiceSettings, metrics: Metrics) -> FollowingService:
    """The service on the real Kafka."""
    bus, ambient = KafkaBus(settings.kafka), Ambient()
    return FollowingService("eviction-executor", settings, metrics, bus, lambda view: Executor(view, ambient, metrics).run())


if __name__ == "__main__":
    sys.exit(main(ServiceSettings, build))
