"""Writes the OpenAPI document of the HTTP API.

python -m bailiff_auditor.api.openapi docs/schemas/api.json            write
python -m bailiff_auditor.api.openapi --check docs/schemas/api.json    check that it is current
"""

import sys

from bailiff_service import openapi
from bailiff_service.metrics import Metrics

from .app import application

if __name__ == "__main__":
    sys.exit(openapi.main(application(None, None, Metrics(), token="").openapi(), __doc__ or ""))
