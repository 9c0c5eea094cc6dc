"""Sign-in against an OpenID server of others: that of the certified Go library github.com/zitadel/oidc, on loopback."""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.kits.go_programs import builds, built, go
from tests.kits.waiting import until
from tests.unit.console.auth.kit import application, auth_with, browser, is_problem

from bailiff_console.auth.id_token import InvalidIdToken
from bailiff_console.auth.oidc import Provider
from bailiff_console.auth.settings import AuthSettings

SERVER = "github.com/zitadel/oidc/v3/example/server@v3.52.0"
URL, NAME = "https://bailiff.example.org", "bailiff.example.org"
PERSON = {"username": "test-user@localhost", "password": "verysecure"}

pytestmark = [builds, pytest.mark.slow]


@pytest.fixture
async def issuer() -> AsyncIterator[str]:
    """The running server's address."""
    program = built("bailiff-oidc-server", lambda folder: go(["install", SERVER], folder, {"GOBIN": str(folder)}) and None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port), "REDIRECT_URI": f"{URL}/auth/callback"}
    quiet = asyncio.subprocess.DEVNULL
    server = await asyncio.create_subprocess_exec(program / "server", env=environment, stdout=quiet, stderr=quiet)
    address = f"http://localhost:{port}/"

    def answers() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{address}.well-known/openid-configuration").status_code == 200
        return False

    try:
        await until(answers)
        yield address
    finally:
        server.terminate()
        await server.wait()


def console(issuer: str, secret: str = "secret") -> httpx.AsyncClient:
    """A browser at a console that is registered there."""
    client = {"oidc_issuer": issuer, "oidc_client_id": "web", "oidc_client_secret": secret}
    auth = auth_with(console_sign_in="oidc", console_url=URL, console_host="0.0.0.0", **client)
    return browser(application(auth), host=NAME, https=True, accept="text/html")


async def back_from_server(visitor: httpx.AsyncClient, **person: str) -> str:
    """Signs the person in at the server's own page; the address that it sends the browser back to."""
    sent = await visitor.get("/auth/sign-in", params={"to": "/pool-a"})
    assert sent.status_code == 303, sent.text
    async with httpx.AsyncClient(follow_redirects=True) as outside:
        page = await outside.get(sent.headers["location"])
        request = re.search(r'name="id" value="([^"]+)"', page.text)
        assert request is not None, page.text
        at = page.url.copy_with(query=None)
        answer = await outside.post(at, data={"id": request[1], **person}, follow_redirects=False)
        while answer.next_request is not None and answer.next_request.url.host != NAME:
            answer = await outside.send(answer.next_request, follow_redirects=False)
    assert answer.next_request is not None, answer.text
    return str(answer.next_request.url)


async def test_a_person_signs_in_and_a_code_is_good_once(issuer: str) -> None:
    async with console(issuer) as visitor:
        back = await back_from_server(visitor, **PERSON)
        answer = await visitor.get(back)
        assert (answer.status_code, answer.headers["location"]) == (303, "/pool-a"), answer.text
        me = (await visitor.get("/api/me")).json()
        assert (me["name"], me["mode"]) == (PERSON["username"], "oidc")
    async with console(issuer) as thief:
        is_problem(await thief.get(back, headers={"accept": "application/json"}), 400, "not started in this browser")


async def test_a_console_with_another_secret_is_refused(issuer: str) -> None:
    async with console(issuer, secret="wrong") as visitor:
        answer = await visitor.get(await back_from_server(visitor, **PERSON))
        assert answer.status_code >= 400
        assert (await visitor.get("/api/me")).status_code == 401


@pytest.mark.parametrize("address", ["http://127.0.0.1", "http://localhost"], ids=["another name", "without the slash"])
async def test_a_server_that_gives_another_issuer_is_refused(issuer: str, address: str) -> None:
    port = issuer.rstrip("/").rpartition(":")[2]
    async with console(f"{address}:{port}") as visitor:
        assert (await visitor.get("/auth/sign-in")).status_code == 502


async def test_what_user_info_says_of_somebody_else_names_nobody() -> None:
    """Whoever exchanges the access token on its way gets another person's answer."""
    settings = {"oidc_issuer": "https://sso.example", "oidc_client_id": "web", "console_url": URL}
    said = httpx.MockTransport(lambda _: httpx.Response(200, json={"sub": "2", "preferred_username": "admin"}))
    found = {"userinfo_endpoint": "https://sso.example/userinfo"}
    async with httpx.AsyncClient(transport=said) as http:
        provider = Provider(AuthSettings(**settings), http)
        with pytest.raises(InvalidIdToken, match="another subject"):
            await provider._with_user_info(found, {"sub": "1"}, "access")
        assert (await provider._with_user_info(found, {"sub": "2"}, "access"))["preferred_username"] == "admin"
