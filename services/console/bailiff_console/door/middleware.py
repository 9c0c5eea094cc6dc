"""Around the application: every request is checked here, and every answer gets its headers."""

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bailiff_console.problems import Refused

from .body import bounded, check_size, discard
from .cookies import SESSION, cookie_name, read_cookie, set_cookie
from .csrf import check_change, check_json, check_reading
from .gate import Gate
from .headers import with_security
from .proxies import FORWARDED_FOR
from .sessions import Session

READING = ("GET", "HEAD")
CHANGING = ("POST", "DELETE")
OPEN = ("/healthz", "/readyz")
LOOK_EVERY_S = 5.0
DISCARDED = 8  # times the largest body


class Door:
    """An ASGI middleware. It puts `session` and `origin` into `request.state`."""

    def __init__(self, app: ASGIApp, gate: Gate, look_every: float = LOOK_EVERY_S) -> None:
        self._app, self._gate, self._look_every = app, gate, look_every

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        https = (self._gate.settings.console_url or "").startswith("https:")

        session: Session | None = None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], *self._renewed(session, scope)]
                message = {**message, "headers": with_security(headers, scope["path"], https=https)}
            await send(message)

        try:
            session = self._checked(scope)
        except Refused as refused:
            if refused.status == 413:
                await discard(receive, DISCARDED * self._gate.settings.console_largest_body_bytes)
            await refused.answer()(scope, receive, answer)
            return
        receive = bounded(receive, self._gate.settings.console_largest_body_bytes)
        if session is None:
            await self._app(scope, receive, answer)
        else:
            await self._while_signed_in(session, scope, receive, answer)

    def _renewed(self, session: Session | None, scope: Scope) -> list[tuple[bytes, bytes]]:
        """With answers that nobody stores: the cookie that says that the session is used."""
        if session is None or not scope["path"].startswith("/api/") or not self._gate.sessions.is_to_be_renewed(session):
            return []
        origin = scope["state"]["origin"]
        return [(b"set-cookie", set_cookie(cookie_name(SESSION, origin), self._gate.sessions.cookie(session), origin).encode())]

    def _checked(self, scope: Scope) -> Session | None:
        """The session, if there is one. Raises `Refused`."""
        gate, path, method = self._gate, scope["path"], scope["method"]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if method not in (*READING, *CHANGING):
            raise Refused(
                405, f"this console takes {', '.join((*READING, *CHANGING))}", headers={"allow": "GET, HEAD, POST, DELETE"}
            )
        check_size(headers, gate.settings.console_largest_body_bytes)
        if path in OPEN:
            return None
        state = scope.setdefault("state", {})
        origin = state["origin"] = gate.origin.of(headers)
        peer = scope["client"][0] if scope.get("client") else ""
        address = gate.proxies.client_of(peer, headers.get(FORWARDED_FOR, ""))
        session = gate.sessions.find(read_cookie(headers.get("cookie", ""), cookie_name(SESSION, origin)))
        if gate.by_header is not None:
            session = self._as_the_proxy_says(session, peer, scope, path)
        state["session"] = session
        if path.startswith("/auth/") and method in READING:
            gate.rates.sign_in(address)
        elif path == "/api" or path.startswith("/api/"):
            check_reading(headers)
            if session is None:
                raise Refused(401, "nobody is signed in in this browser, or the session is over: /auth/sign-in")
        if method in CHANGING:
            self._check_change(headers, method, origin, session)
        return session

    def _as_the_proxy_says(self, session: Session | None, peer: str, scope: Scope, path: str) -> Session | None:
        """The session, if it is still of the person whom the proxy names; with the groups that it names now."""
        gate = self._gate
        assert gate.by_header is not None
        try:
            name, groups = gate.by_header.named(peer, scope["headers"])
        except Refused as refused:
            if refused.status == 403 or path.startswith("/auth/"):
                raise
            name, groups = "", ()
        if session is None:
            return None
        person = gate.person(name, groups) if name == session.person.name else None
        if person is None:
            gate.sessions.end(session)
            return None
        session.person = person
        return session

    def _check_change(self, headers: Mapping[str, str], method: str, origin: str, session: Session | None) -> None:
        if session is None:
            raise Refused(401, "nobody is signed in in this browser, or the session is over: /auth/sign-in")
        check_change(headers, origin, session)
        if method == "POST":
            check_json(headers)
        self._gate.rates.change(session.person.name)

    async def _while_signed_in(self, session: Session, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer. One that has no end of its own ends with the session: nobody goes on watching after signing out."""
        endless = False

        async def answer(message: Message) -> None:
            nonlocal endless
            if message["type"] == "http.response.start":
                endless = all(name.lower() != b"content-length" for name, _ in message["headers"])
            await send(message)

        work = asyncio.ensure_future(self._app(scope, receive, answer))
        ended = asyncio.ensure_future(session.ended.wait())
        try:
            while not work.done():
                waits = {each for each in (work, ended) if not each.done()}
                await asyncio.wait(waits, timeout=self._look_every, return_when=asyncio.FIRST_COMPLETED)
                if endless and not work.done() and self._gate.sessions.is_over(session):
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
