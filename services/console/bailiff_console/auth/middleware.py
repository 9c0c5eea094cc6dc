"""ASGI middleware: checks every request and adds headers to every response."""

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bailiff_service.problems import ApiError

from .auth_context import AuthContext
from .body import bounded, check_size, discard
from .cookies import SESSION, cookie_name, read_cookie, set_cookie
from .csrf import check_change, check_json, check_reading
from .headers import with_security
from .proxies import FORWARDED_FOR
from .sessions import Session

READING = ("GET", "HEAD")
CHANGING = ("POST", "DELETE")
OPEN = ("/healthz", "/readyz")
TYPING = "/api/shells/"
POLL_S = 5.0
MAX_DISCARDED = 8  # multiples of the maximum body size


class AuthMiddleware:
    """Sets `session`, `origin` and the client's `address` in `request.state`."""

    def __init__(self, app: ASGIApp, auth: AuthContext, poll_interval: float = POLL_S) -> None:
        self._app, self._auth, self._poll_interval = app, auth, poll_interval

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        https = (self._auth.settings.console_url or "").startswith("https:")

        session: Session | None = None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *self._renewed(session, scope)]
                message = {**message, "headers": with_security(headers, scope["path"], https=https)}
            await send(message)

        try:
            session = self._checked(scope)
        except ApiError as error:
            if error.status == 413:
                await discard(receive, MAX_DISCARDED * self._auth.settings.console_largest_body_bytes)
            await error.response()(scope, receive, answer)
            return
        receive = bounded(receive, self._auth.settings.console_largest_body_bytes)
        if session is None:
            await self._app(scope, receive, answer)
        else:
            await self._while_signed_in(session, scope, receive, answer)

    def _renewed(self, session: Session | None, scope: Scope) -> list[tuple[bytes, bytes]]:
        """The renewed session cookie, with API responses (they are not cached)."""
        if session is None or not scope["path"].startswith("/api/") or not self._auth.sessions.is_to_be_renewed(session):
            return []
        origin = scope["state"]["origin"]
        return [(b"set-cookie", set_cookie(cookie_name(SESSION, origin), self._auth.sessions.cookie(session), origin).encode())]

    def _checked(self, scope: Scope) -> Session | None:
        """Check the request. Returns its session, if any. Raises `ApiError`."""
        auth, path, method = self._auth, scope["path"], scope["method"]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if method not in (*READING, *CHANGING):
            raise ApiError(
                405, f"allowed methods: {', '.join((*READING, *CHANGING))}", headers={"allow": "GET, HEAD, POST, DELETE"}
            )
        check_size(headers, auth.settings.console_largest_body_bytes)
        if path in OPEN:
            return None
        state = scope.setdefault("state", {})
        origin = state["origin"] = auth.origin.of(headers)
        peer = scope["client"][0] if scope.get("client") else ""
        address = auth.proxies.client_of(peer, headers.get(FORWARDED_FOR, ""))
        session = auth.sessions.find(read_cookie(headers.get("cookie", ""), cookie_name(SESSION, origin)))
        if auth.header_auth is not None:
            session = self._check_proxy_user(session, peer, scope, path)
        state["session"] = session
        state["address"] = address
        if path.startswith("/auth/") and method in READING and auth.local_token is None:
            auth.count_sign_in(address)
        elif path == "/api" or path.startswith("/api/"):
            check_reading(headers, origin)
            if session is None:
                raise ApiError(401, "not signed in, or the session has expired: /auth/sign-in")
        if method in CHANGING:
            self._check_change(headers, method, path, origin, session)
        return session

    def _check_proxy_user(self, session: Session | None, peer: str, scope: Scope, path: str) -> Session | None:
        """The session if the proxy still names its user, with the groups that the proxy names now."""
        auth = self._auth
        assert auth.header_auth is not None
        try:
            name, groups = auth.header_auth.authenticate(peer, scope["headers"])
        except ApiError as error:
            if error.status == 403 or path.startswith("/auth/"):
                raise
            name, groups = "", ()
        if session is None:
            return None
        principal = auth.principal(name, groups) if name == session.principal.name else None
        if principal is None:
            auth.sessions.end(session)
            return None
        session.principal = principal
        return session

    def _check_change(self, headers: Mapping[str, str], method: str, path: str, origin: str, session: Session | None) -> None:
        if session is None:
            raise ApiError(401, "not signed in, or the session has expired: /auth/sign-in")
        check_change(headers, origin, session)
        if method == "POST":
            check_json(headers)
        if not path.startswith(TYPING):  # as many as keys are pressed; the shell was one change
            self._auth.changes.hit(session.principal.name)

    async def _while_signed_in(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. A streaming response ends when the session ends."""
        streaming = False

        async def answer(message: Message) -> None:
            nonlocal streaming
            if message["type"] == "http.response.start":
                streaming = all(name.lower() != b"content-length" for name, _ in message["headers"])
            await send(message)

        work = asyncio.ensure_future(self._app(scope, receive, answer))
        ended = asyncio.ensure_future(session.ended.wait())
        try:
            while not work.done():
                pending = {each for each in (work, ended) if not each.done()}
                await asyncio.wait(pending, timeout=self._poll_interval, return_when=asyncio.FIRST_COMPLETED)
                if streaming and not work.done() and self._auth.sessions.is_over(session):
                    await _stopped(work)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
        finally:
            ended.cancel()
            await _stopped(work)
        work.result()


async def _stopped(work: "asyncio.Future[None]") -> None:
    if not work.done():
        work.cancel()
        await asyncio.wait({work})
