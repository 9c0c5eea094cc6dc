"""ASGI middleware: read-only methods, Host, bearer token, rejection of NUL, security headers, metrics."""

from collections.abc import Collection

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bailiff_service.access_tokens import is_token
from bailiff_service.host_header import host_name, is_address, is_loopback
from bailiff_service.metrics import Metrics
from bailiff_service.problems import ApiError, problem
from bailiff_service.rate_limits import RateLimit, network_of

ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'"),
)
SCHEME = b"bearer "
WRONG_PER_MINUTE = 20


class ApiMiddleware:
    """token: required as bearer token. hosts: names of this server in the header Host, besides localhost and addresses."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str], metrics: Metrics) -> None:
        self._app, self._token, self._metrics = app, token, metrics
        self._hosts = frozenset(name.lower() for name in hosts)
        self._wrong = RateLimit(WRONG_PER_MINUTE, "wrong tokens from one address")

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
        headers = dict(scope["headers"])
        if scope["method"] != "GET":
            return problem(405, "GET and HEAD only", headers={"allow": "GET, HEAD"})
        refused = self._wrong_host(headers.get(b"host", b"").decode("latin-1")) or self._wrong_token(
            headers.get(b"authorization", b""), scope["client"][0] if scope.get("client") else ""
        )
        if refused is not None:
            return refused
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            return problem(400, "the URL contains a NUL character")
        return None

    def _wrong_host(self, host: str) -> Response | None:
        """A page of a site that points its own name here (DNS rebinding) sends that name."""
        name = host_name(host)
        if name is None:
            return problem(400, f"header Host is not valid: {host[:100]!r}")
        if is_address(name) or is_loopback(name) or name.lower() in self._hosts:
            return None
        return problem(421, f"wrong host {name[:100]}: use an address, localhost, or a name in BAILIFF_API_HOSTS")

    def _wrong_token(self, authorization: bytes, address: str) -> Response | None:
        """Only wrong tokens are limited, so that nobody can lock out those who have the right one."""
        given = authorization[len(SCHEME) :] if authorization[: len(SCHEME)].lower() == SCHEME else b""
        if is_token(given, self._token):
            return None
        if given:
            try:
                self._wrong.hit(network_of(address))
            except ApiError as limited:
                return limited.response()
        return problem(
            401, "missing or wrong token: send the header Authorization: Bearer TOKEN", headers={"www-authenticate": "Bearer"}
        )
