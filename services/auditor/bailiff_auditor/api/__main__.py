"""`python -m bailiff_auditor.api`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_service.main import main
from bailiff_service.metrics import Metrics

from .service import ApiService
from .settings import ApiSettings


def build(settings: ApiSettings, metrics: Metrics) -> ApiService:
    """The service on the real PostgreSQL."""
    return ApiService(settings, metrics)


if __name__ == "__main__":
    sys.exit(main(ApiSettings, build))
