"""Local sign-in with the console's token, for loopback only."""

from pathlib import Path

import pytest
from tests.kits.http import TOKEN
from tests.unit.console.auth.kit import STRANGER, application, auth_with, browser, is_problem, roles_file, token_of

from bailiff_console.auth.settings import AuthSettings
from bailiff_service.settings import SettingsError, load_settings


async def test_local_sign_in_is_the_configured_user_as_operator() -> None:
    async with browser(application(auth_with(console_user="ada"))) as client:
        is_problem(await client.get("/api/me"), 401, "/auth/sign-in")
        answer = await client.get("/auth/sign-in", params={"to": "/pool-a/queue?all=1", "token": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/pool-a/queue?all=1")
        me = (await client.get("/api/me")).json()
        assert me.pop("csrf")
        assert me.pop("time").endswith("Z")
        assert me == {"name": "ada", "mode": "local", "operator": True, "projects": None, "sign_out": False}


async def test_foreign_host_names_are_refused_against_dns_rebinding() -> None:
    app = application(auth_with(console_user="ada"))
    for host in ("evil.example", "evil.example:8640", "10.0.0.7:8640", "localhost.evil.example", "127.0.0.1.evil.example:8640"):
        async with browser(app, host=host) as client:
            is_problem(await client.get("/auth/sign-in"), 421, "this machine only")
            is_problem(await client.get("/"), 421)
    for host in ("localhost", "localhost:8640", "127.0.0.1:8640", "[::1]:8640", "LOCALHOST:8640"):
        async with browser(app, host=host) as client:
            assert (await client.get("/auth/sign-in", params={"token": TOKEN})).status_code == 303


@pytest.mark.slow
@pytest.mark.parametrize("host", ["", "a b", "localhost:8640/evil", "[::1", "localhost@evil.example"])
async def test_an_invalid_host_header_is_refused(host: str) -> None:
    async with browser(application(auth_with())) as client:
        is_problem(await client.get("/api/me", headers={"host": host}), 400, "Host")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "bailiff.example.org"])
def test_non_loopback_addresses_are_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="listen on"):
        load_settings(AuthSettings, console_host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_addresses_are_accepted(host: str) -> None:
    assert load_settings(AuthSettings, console_host=host).console_sign_in == "local"


async def test_in_a_container_only_loopback_host_names_are_accepted() -> None:
    auth = auth_with(console_host="0.0.0.0", console_in_container=True, console_url="http://127.0.0.1:8640")
    async with browser(application(auth), peer="172.18.0.1", host="evil.example:8640") as client:
        is_problem(await client.get("/auth/sign-in"), 421)
    for host in ("127.0.0.1:8640", "localhost:8640"):
        async with browser(application(auth), peer="172.18.0.1", host=host) as client:
            await token_of(client)


async def test_health_is_served_to_any_peer_and_host() -> None:
    async with browser(application(auth_with()), host="10.0.0.7:1", peer=STRANGER) as client:
        assert (await client.get("/healthz")).json() == {"alive": True}


async def test_a_roles_file_sets_the_role_of_the_local_user(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, submitters={"vision": {"users": ["ada"]}})
    async with browser(application(auth_with(console_user="ada", console_roles=roles))) as client:
        await token_of(client)
        me = (await client.get("/api/me")).json()
        assert (me["operator"], me["projects"]) == (False, ["vision"])


async def test_consoles_on_two_ports_have_separate_cookies() -> None:
    one, other = application(auth_with(console_user="ada")), application(auth_with(console_user="bob"))
    async with browser(one, host="localhost:1001") as first, browser(other, host="localhost:1002") as second:
        await token_of(first)
        second.cookies.update(first.cookies)  # browsers share cookies across ports
        await token_of(second)
        first.cookies.update(second.cookies)
        assert (await first.get("/api/me")).json()["name"] == "ada"
        assert (await second.get("/api/me")).json()["name"] == "bob"


def test_an_invalid_console_user_is_refused_at_startup() -> None:
    with pytest.raises(SettingsError, match="not a valid user name"):
        auth_with(console_user="a\nb")


# --- the token


async def test_without_the_token_there_is_no_session() -> None:
    async with browser(application(auth_with(console_user="ada"))) as client:
        for params in ({}, {"token": ""}, {"token": TOKEN[:-1]}, {"token": f"{TOKEN} "}, {"token": "é" * 40}):
            answer = await client.get("/auth/sign-in", params=params)
            assert answer.status_code in (401, 403)
            assert "set-cookie" not in answer.headers
        page = await client.get("/auth/sign-in", params={"to": '/pool-a/"x'}, headers={"accept": "text/html"})
        assert (page.status_code, page.text.count('name="token"')) == (401, 1)
        assert 'value="/pool-a/%22x"' in page.text
        is_problem(await client.get("/api/me"), 401, "/auth/sign-in")


async def test_the_token_does_not_stay_in_the_address() -> None:
    async with browser(application(auth_with(console_user="ada"))) as client:
        answer = await client.get("/auth/sign-in", params={"token": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert TOKEN not in answer.headers["set-cookie"]
        assert answer.headers["cache-control"] == "no-store"


async def test_wrong_tokens_are_limited_and_lock_nobody_out() -> None:
    async with browser(application(auth_with(console_sign_ins_per_minute=3))) as client:
        wrong = [(await client.get("/auth/sign-in", params={"token": "guess"})).status_code for _ in range(4)]
        assert wrong == [403, 403, 403, 429]
        assert (await client.get("/auth/sign-in", params={"token": TOKEN})).status_code == 303


async def test_the_token_is_made_at_the_first_start_and_sessions_outlive_the_next_one(tmp_path: Path) -> None:
    settings = {"console_token": None, "state_dir": tmp_path}
    first = auth_with(**settings)
    file = tmp_path / "console.token"
    token = file.read_text().strip()
    assert (file.stat().st_mode & 0o777, token, len(token) >= 43) == (0o600, first.local_token, True)
    async with browser(application(first)) as client:
        await client.get("/auth/sign-in", params={"token": token})
        async with browser(application(auth_with(**settings))) as later:
            later.cookies.update(client.cookies)
            assert (await later.get("/api/me")).status_code == 200
        file.unlink()
        async with browser(application(auth_with(**settings))) as later:
            later.cookies.update(client.cookies)
            assert (await later.get("/api/me")).status_code == 401


def test_a_token_that_others_can_read_or_guess_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at least 32"):
        auth_with(console_token="short")
    auth_with(console_token=None, state_dir=tmp_path)
    (tmp_path / "console.token").chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        auth_with(console_token=None, state_dir=tmp_path)
