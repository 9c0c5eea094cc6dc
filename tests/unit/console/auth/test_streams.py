"""Event streams end with their session, over real HTTP."""

import asyncio
from typing import Any

import httpx
import pytest
from tests.kits.oidc_provider import served
from tests.kits.waiting import until
from tests.unit.console.auth.kit import Clock, application, auth_with, sessions, token_of

from bailiff_console.auth.auth_context import AuthContext

PATIENCE_S = 20


@pytest.fixture
def auth() -> AuthContext:
    return auth_with(console_user="ada")


async def read_all(answer: httpx.Response) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return b"".join([piece async for piece in answer.aiter_bytes()])


async def test_a_sign_out_ends_the_streams_of_its_session_only(auth: AuthContext) -> None:
    async with served(application(auth)) as at, httpx.AsyncClient(base_url=at) as one, httpx.AsyncClient(base_url=at) as other:
        token, _ = await token_of(one), await token_of(other)
        async with one.stream("GET", "/api/live") as stream, other.stream("GET", "/api/live") as others:
            theirs = others.aiter_bytes()
            assert await anext(theirs) == b"event: board\n\n"
            signed_out = await one.post("/auth/sign-out", json={}, headers={"x-csrf-token": token})
            assert signed_out.json()["signed_out"] is True
            assert await read_all(stream) == b"event: board\n\n"
            assert (await other.get("/api/me")).status_code == 200
            assert not others.is_stream_consumed or not others.is_closed
            auth.sessions.end_streams()
            async with asyncio.timeout(PATIENCE_S):
                assert [piece async for piece in theirs] == []


async def test_a_stream_ends_when_its_session_expires(auth: AuthContext) -> None:
    clock = Clock()
    auth.sessions = sessions(clock, idle=100, most=1000)
    async with served(application(auth, poll_interval=0.01)) as at, httpx.AsyncClient(base_url=at) as client:
        await token_of(client)
        async with client.stream("GET", "/api/live") as stream:
            clock.at += 100
            assert await read_all(stream) == b"event: board\n\n"
        assert (await client.get("/api/me")).status_code == 401


async def test_a_response_in_progress_is_finished_when_the_session_ends(auth: AuthContext) -> None:
    app: Any = application(auth)
    arrived, resume = asyncio.Event(), asyncio.Event()

    @app.get("/api/slow")
    async def slow() -> dict[str, bool]:
        arrived.set()
        await resume.wait()
        return {"done": True}

    app.router.routes.insert(0, app.router.routes.pop())
    async with served(app) as at, httpx.AsyncClient(base_url=at) as client:
        await token_of(client)
        pending_response = asyncio.create_task(client.get("/api/slow"))
        await arrived.wait()
        auth.sessions.end_streams()
        resume.set()
        assert (await pending_response).json() == {"done": True}


async def test_a_closed_stream_leaves_no_tasks(auth: AuthContext) -> None:
    async with served(application(auth)) as at, httpx.AsyncClient(base_url=at) as client:
        await token_of(client)
        before = len(asyncio.all_tasks())
        async with client.stream("GET", "/api/live") as stream:
            assert await anext(stream.aiter_bytes()) == b"event: board\n\n"
        await until(lambda: len(asyncio.all_tasks()) <= before)
