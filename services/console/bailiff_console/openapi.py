"""Writes the OpenAPI document of the console's API.

python -m bailiff_console.openapi docs/schemas/console.json            write
python -m bailiff_console.openapi --check docs/schemas/console.json    check that it is current
"""

import sys
from typing import Any

from bailiff_service import openapi

from .app import application

if __name__ == "__main__":
    nothing: Any = None  # no route is called
    sys.exit(openapi.main(application(nothing, nothing, dict, nothing, nothing, nothing).openapi(), __doc__ or ""))
