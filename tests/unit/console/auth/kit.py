"""A small application behind the authentication middleware, and browsers that use it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import yaml
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse
from tests.kits.http import TOKEN, problem

from bailiff_console import problems
from bailiff_console.auth import routes
from bailiff_console.auth.auth_context import AuthContext, build_auth_context, tokens_of
from bailiff_console.auth.middleware import AuthMiddleware
from bailiff_console.auth.principal import Principal
from bailiff_console.auth.revocations import Revocations
from bailiff_console.auth.sessions import Sessions
from bailiff_console.auth.settings import AuthSettings

HOST = "localhost:8640"
SECRET = "x" * 32
PROXY, STRANGER = "10.1.2.3", "203.0.113.9"


class Clock:
    """A settable clock, in seconds."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


def sessions(clock: Clock, folder: Path | None = None, *, idle: float = 100, most: float = 250, **settings: Any) -> Sessions:
    auth_settings = AuthSettings(console_secret=SECRET, **settings)
    signed_out = Revocations(folder, most, clock)
    return Sessions(
        idle, most, tokens_of(auth_settings, SECRET, "session", clock), signed_out, lambda name, _: Principal(name), clock
    )


def auth_with(**settings: Any) -> AuthContext:
    """Returns the authentication context for these settings."""
    return build_auth_context(AuthSettings(**{"console_token": TOKEN, **settings}))


def application(auth: AuthContext, poll_interval: float = 5.0) -> FastAPI:
    """Returns an application with routes for reads, changes and a stream."""
    app = FastAPI(openapi_url=None)
    app.state.auth = auth
    app.include_router(routes.router)
    problems.register(app)
    app.state.changes = []

    @app.get("/api/thing")
    async def thing() -> dict[str, str]:
        return {"thing": "here"}

    @app.get("/healthz")
    async def healthz() -> dict[str, bool]:
        return {"alive": True}

    @app.post("/api/thing")
    async def change(request: Request, principal: routes.SignedIn) -> dict[str, str]:
        app.state.changes.append((principal.name, await request.body()))
        return {"by": principal.name}

    @app.delete("/api/thing")
    async def remove(principal: routes.SignedIn) -> dict[str, str]:
        app.state.changes.append((principal.name, b""))
        return {"by": principal.name}

    @app.get("/api/live")
    async def live() -> StreamingResponse:
        async def events() -> AsyncIterator[bytes]:
            yield b"event: board\n\n"
            await asyncio.Event().wait()

        return StreamingResponse(events(), media_type="text/event-stream")

    @app.get("/{path:path}")
    async def page(path: str) -> dict[str, str]:
        return {"page": path}

    app.add_middleware(AuthMiddleware, auth=auth, poll_interval=poll_interval)
    return app


def browser(app: Any, *, peer: str = "127.0.0.1", host: str = HOST, https: bool = False, **headers: str) -> httpx.AsyncClient:
    """Returns a client that keeps cookies and does not follow redirects."""
    transport = httpx.ASGITransport(app, client=(peer, 4711), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=f"http{'s' if https else ''}://{host}", headers=headers)


async def token_of(client: httpx.AsyncClient) -> str:
    """Signs in. Returns the CSRF token."""
    answer = await client.get("/auth/sign-in", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    me = await client.get("/api/me")
    assert me.status_code == 200, me.text
    token = me.json()["csrf"]
    assert isinstance(token, str)
    return token


def roles_file(folder: Path, **roles: Any) -> Path:
    """Writes the roles file. Returns its path."""
    path = folder / "roles.yaml"
    path.write_text(yaml.safe_dump(roles))
    return path


def is_problem(answer: httpx.Response, status: int, *words: str) -> None:
    """Asserts a problem with this status whose detail has these words."""
    details = problem(answer, status)
    assert details["status"] == status
    assert details["title"]
    for word in words:
        assert word in details["detail"]
