"""What is sent: JSON by orjson, with the type of each list and the cursor that goes on."""

from typing import Any

import orjson
from starlette.responses import Response

JSON_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class Answer(Response):
    """Data as JSON. Times are UTC."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return orjson.dumps(content, option=JSON_OPTIONS)
