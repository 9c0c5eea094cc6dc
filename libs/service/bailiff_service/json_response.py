"""JSON responses, serialized by orjson."""

from typing import Any

import orjson
from starlette.responses import Response

JSON_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class JsonResponse(Response):
    """Data as JSON. Times are UTC."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Serialize the content. Bytes are sent unchanged."""
        return content if isinstance(content, bytes) else orjson.dumps(content, option=JSON_OPTIONS)
