"""ASGI middleware: read-only methods, bearer token, rejection of NUL, security headers, metrics."""

import hmac

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bailiff_service.metrics import Metrics
from bailiff_service.problems import problem

ALWAYS = (
    (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'"),
)  # fmt: skip


class ApiMiddleware:
    """token: required as bearer token; None: no authentication."""

    def __init__(self, app: ASGIApp, token: str | None, metrics: Metrics) -> None:
        self._app, self._token, self._metrics = app, token, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head_only = scope["method"] == "HEAD"

        async def send_response(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.api_responses.labels(str(message["status"])).inc()
                message = {**message, "headers": [*message["headers"], *ALWAYS]}
            elif head_only:
                message = {**message, "body": b""}
            await send(message)

        if head_only:
            scope = {**scope, "method": "GET", "bailiff.head_only": True}
        await (self._rejection(scope) or self._app)(scope, receive, send_response)

    def _rejection(self, scope: Scope) -> Response | None:
        if scope["method"] != "GET":
            return problem(405, "GET and HEAD only", headers={"allow": "GET, HEAD"})
        if self._token is not None:
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(authorization, b"Bearer " + self._token.encode()):
                return problem(
                    401,
                    "missing or wrong token: send the header Authorization: Bearer TOKEN",
                    headers={"www-authenticate": "Bearer"},
                )
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            return problem(400, "the URL contains a NUL character")
        return None
