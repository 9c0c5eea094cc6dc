"""Errors as `application/problem+json` (RFC 9457), each with what was found and what is allowed."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from starlette.responses import Response

TITLES = {
    400: "the request does not fit", 401: "nobody is signed in", 403: "not permitted", 404: "there is no such thing",
    405: "not in this way", 408: "the request took too long", 409: "not now", 413: "too large", 415: "JSON only",
    421: "another address", 422: "the request does not fit", 429: "too many requests", 500: "an error in this program",
    502: "the sign-in provider", 503: "not now", 504: "no answer in time",
}  # fmt: skip

Fault = dict[str, Any]
"""One thing that does not fit: `where`, `text`, and as far as they are known `line`, `found`, `allowed`."""


class Refused(Exception):
    """The request is refused with this status. `detail` is a sentence: what was wrong, and what to do."""

    def __init__(self, status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.faults, self.headers = list(faults), dict(headers or {})

    def answer(self) -> Response:
        """As it goes out."""
        body: dict[str, Any] = {"title": TITLES.get(self.status, "refused"), "status": self.status, "detail": self.detail}
        if self.faults:
            body["faults"] = self.faults
        content = orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
        return Response(content, self.status, headers=self.headers, media_type="application/problem+json")
