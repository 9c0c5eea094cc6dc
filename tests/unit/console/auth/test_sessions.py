"""Sessions are in the browsers: they outlive a restart, hold at a second console, and end when they are to end, everywhere."""

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


def moved(client: Any, other: Any) -> None:
    """The cookie of one browser in another."""
    other.cookies.clear()
    other.cookies.set(COOKIE, client.cookies[COOKIE])


async def test_a_restart_signs_nobody_out_and_a_second_console_knows_who_it_is() -> None:
    before, after = (application(auth_with(console_user="ada", console_secret=SECRET)) for _ in range(2))
    async with browser(before) as client, browser(after) as again:
        token = await token_of(client)
        moved(client, again)
        assert (await again.get("/api/me")).json()["name"] == "ada"
        headers = {"x-csrf-token": token, "origin": f"http://{HOST}"}
        assert (await again.post("/api/thing", json={}, headers=headers)).json() == {"by": "ada"}, "a page that is open goes on"


async def test_without_a_secret_or_with_another_a_restart_signs_everybody_out() -> None:
    async with browser(application(auth_with(console_user="ada", console_secret=""))) as client:
        await token_of(client)
        for settings in ({}, {"console_secret": "y" * 32}):
            async with browser(application(auth_with(console_user="ada", **settings))) as again:
                moved(client, again)
                is_problem(await again.get("/api/me"), 401)


async def test_who_signs_out_at_one_console_is_signed_out_at_the_other_and_after_a_restart() -> None:
    one, other = (application(auth_with(console_user="ada", console_secret=SECRET)) for _ in range(2))
    async with browser(one) as client, browser(other) as thief:
        token = await token_of(client)
        moved(client, thief)
        assert (await thief.get("/api/me")).status_code == 200
        assert (await client.post("/auth/sign-out", json={}, headers={"x-csrf-token": token})).status_code == 200
        is_problem(await thief.get("/api/me"), 401)
    async with browser(application(auth_with(console_user="ada", console_secret=SECRET))) as later:
        moved(thief, later)
        is_problem(await later.get("/api/me"), 401)


async def test_a_cookie_that_somebody_made_or_changed_is_nobodys() -> None:
    auth = auth_with(console_user="ada", console_secret=SECRET)
    async with browser(application(auth)) as client:
        await token_of(client)
        mine = client.cookies[COOKIE]
        bent = bytearray(base64.urlsafe_b64decode(mine))
        bent[30] ^= 1
        signing_in = tokens_of(auth.settings, "signing in").make(["id", "ada", [], 0, 0])
        elsewhere = tokens_of(AuthSettings(console_secret=SECRET, console_url="http://localhost:1"), "session").make(
            ["id", "ada", [], 2e9, 2e9]
        )
        for forged in (base64.urlsafe_b64encode(bent).decode(), mine[:-4], signing_in, elsewhere, "a" * 43, "é", "."):
            answer = await client.get("/api/me", headers={"cookie": f"{COOKIE}={forged}".encode()})
            is_problem(answer, 401)


def test_a_session_ends_when_nobody_uses_it_and_in_any_case_after_a_time() -> None:
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
    assert not found.is_over(idle)  # looking is no use of it
    clock.at += 1
    assert found.is_over(idle)
    assert idle.ended.is_set()
    assert sessions(clock).find(old) is None, "nor does a console that was started anew take it"


async def test_a_session_that_is_used_does_not_end_although_its_first_cookie_would_have() -> None:
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


def test_of_sessions_nothing_stays_here_and_of_sign_outs_what_is_still_needed(tmp_path: Path) -> None:
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
    clock.at += 1e10  # files have the time of this machine
    found.end(found.begin(Principal("ada")))
    assert len(list(tmp_path.iterdir())) == 1


async def test_what_somebody_may_do_is_what_the_roles_say_after_the_restart(tmp_path: Path) -> None:
    header_settings: dict[str, Any] = {
        "console_sign_in": "header", "console_url": f"http://{HOST}", "console_proxies": (PROXY,),
        "console_groups_header": "x-groups", "console_secret": SECRET,
    }  # fmt: skip
    request_headers = {"peer": PROXY, "x-forwarded-user": "ada", "x-groups": "platform,others"}
    roles = roles_file(tmp_path, operators={"groups": ["platform"]})
    async with browser(application(auth_with(**header_settings, console_roles=roles)), **request_headers) as client:
        await token_of(client)
        assert (await client.get("/api/me")).json()["operator"] is True
        roles = roles_file(tmp_path, viewers={"users": ["bob"]})
        async with browser(application(auth_with(**header_settings, console_roles=roles)), **request_headers) as again:
            moved(client, again)
            is_problem(await again.get("/api/me"), 401)


@pytest.mark.parametrize("secret", ["short", "x" * 31])
def test_a_secret_that_can_be_guessed_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 32 characters"):
        AuthSettings(console_secret=secret)
