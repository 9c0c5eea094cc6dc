"""Sessions are stored in cookies: they survive a restart, are valid at a second console, and end everywhere."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.auth.kit import (
    HOST,
    PROXY,
    SECRET,
    Clock,
    application,
    auth_with,
    browser,
    is_problem,
    roles_file,
    sessions,
    token_of,
)

from bailiff_console.auth.auth_context import tokens_of
from bailiff_console.auth.principal import Principal
from bailiff_console.auth.sessions import RENEWED_AFTER_S, Session
from bailiff_console.auth.settings import AuthSettings

COOKIE = "bailiff-8640"


def copy_cookie(client: Any, other: Any) -> None:
    """Copies the session cookie into another browser."""
    other.cookies.clear()
    other.cookies.set(COOKIE, client.cookies[COOKIE])


async def test_sessions_survive_a_restart_and_are_valid_at_a_second_console() -> None:
    before, after = (application(auth_with(console_user="ada", console_secret=SECRET)) for _ in range(2))
    async with browser(before) as client, browser(after) as again:
        token = await token_of(client)
        copy_cookie(client, again)
        assert (await again.get("/api/me")).json()["name"] == "ada"
        headers = {"x-csrf-token": token, "origin": f"http://{HOST}"}
        assert (await again.post("/api/thing", json={}, headers=headers)).json() == {"by": "ada"}, "an open page keeps working"


async def test_a_missing_or_changed_secret_ends_all_sessions_at_restart() -> None:
    async with browser(application(auth_with(console_user="ada", console_secret=""))) as client:
        await token_of(client)
        for settings in ({"console_token": "another token, which is long enough"}, {"console_secret": "y" * 32}):
            async with browser(application(auth_with(console_user="ada", **settings))) as again:
                copy_cookie(client, again)
                is_problem(await again.get("/api/me"), 401)


async def test_a_sign_out_holds_at_other_consoles_and_after_a_restart() -> None:
    one, other = (application(auth_with(console_user="ada", console_secret=SECRET)) for _ in range(2))
    async with browser(one) as client, browser(other) as thief:
        token = await token_of(client)
        copy_cookie(client, thief)
        assert (await thief.get("/api/me")).status_code == 200
        assert (await client.post("/auth/sign-out", json={}, headers={"x-csrf-token": token})).status_code == 200
        is_problem(await thief.get("/api/me"), 401)
    async with browser(application(auth_with(console_user="ada", console_secret=SECRET))) as later:
        copy_cookie(thief, later)
        is_problem(await later.get("/api/me"), 401)


async def test_forged_cookies_are_refused() -> None:
    auth = auth_with(console_user="ada", console_secret=SECRET)
    async with browser(application(auth)) as client:
        await token_of(client)
        mine = client.cookies[COOKIE]
        corrupted = bytearray(base64.urlsafe_b64decode(mine))
        corrupted[30] ^= 1
        signing_in = tokens_of(auth.settings, auth.local_token, "signing in").make(["id", "ada", [], 0, 0])
        elsewhere = tokens_of(AuthSettings(console_secret=SECRET, console_url="http://localhost:1"), SECRET, "session").make(
            ["id", "ada", [], 2e9, 2e9]
        )
        for forged in (base64.urlsafe_b64encode(corrupted).decode(), mine[:-4], signing_in, elsewhere, "a" * 43, "é", "."):
            answer = await client.get("/api/me", headers={"cookie": f"{COOKIE}={forged}".encode()})
            is_problem(answer, 401)


def test_a_session_ends_when_idle_and_at_its_maximum_age() -> None:
    clock = Clock()
    found = sessions(clock)
    cookie = found.cookie(made := found.begin(Principal("ada")))
    for later in (99, 99, 50):
        clock.at += later
        session = found.find(cookie)
        assert session is made
        cookie = found.cookie(session)
    clock.at += 2
    assert found.find(cookie) is None
    assert made.ended.is_set()
    idle = found.begin(Principal("ada"))
    old = found.cookie(idle)
    clock.at += 99
    assert not found.is_over(idle)  # a check does not count as use
    clock.at += 1
    assert found.is_over(idle)
    assert idle.ended.is_set()
    assert sessions(clock).find(old) is None, "nor does a console that was started anew take it"


async def test_a_used_session_is_renewed() -> None:
    clock = Clock()
    auth = auth_with(console_user="ada")
    auth.sessions = sessions(clock, idle=10 * RENEWED_AFTER_S, most=1e6)
    async with browser(application(auth)) as client:
        await token_of(client)
        first = client.cookies[COOKIE]
        for _ in range(20):
            clock.at += RENEWED_AFTER_S
            answer = await client.get("/api/thing")
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "no-store"
        assert client.cookies[COOKIE] != first
        client.cookies.set(COOKIE, first)
        is_problem(await client.get("/api/thing"), 401)


def test_only_unexpired_revocations_are_stored(tmp_path: Path) -> None:
    clock = Clock()
    found = sessions(clock, tmp_path)
    cookies = [found.cookie(found.begin(Principal(f"user-{number}"))) for number in range(100)]
    assert len(found._open) == 0
    for cookie in cookies:
        session = found.find(cookie)
        assert isinstance(session, Session)
        found.end(session)
        del session
    assert len(list(tmp_path.iterdir())) == 100
    clock.at += 1e10  # files have the host's time
    found.end(found.begin(Principal("ada")))
    assert len(list(tmp_path.iterdir())) == 1


async def test_roles_are_read_again_after_a_restart(tmp_path: Path) -> None:
    header_settings: dict[str, Any] = {
        "console_sign_in": "header",
        "console_url": f"http://{HOST}",
        "console_proxies": (PROXY,),
        "console_groups_header": "x-groups",
        "console_secret": SECRET,
    }
    request_headers = {"peer": PROXY, "x-forwarded-user": "ada", "x-groups": "platform,others"}
    roles = roles_file(tmp_path, operators={"groups": ["platform"]})
    async with browser(application(auth_with(**header_settings, console_roles=roles)), **request_headers) as client:
        await token_of(client)
        assert (await client.get("/api/me")).json()["operator"] is True
        roles = roles_file(tmp_path, viewers={"users": ["bob"]})
        async with browser(application(auth_with(**header_settings, console_roles=roles)), **request_headers) as again:
            copy_cookie(client, again)
            is_problem(await again.get("/api/me"), 401)


@pytest.mark.parametrize("secret", ["short", "x" * 31])
def test_a_short_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 32 characters"):
        AuthSettings(console_secret=secret)
