"""Local sign-in without a password, for loopback only."""

from pathlib import Path

import pytest
from tests.unit.console.auth.kit import STRANGER, application, auth_with, browser, is_problem, roles_file, token_of

from bailiff_console.auth.settings import AuthSettings
from bailiff_service.settings import SettingsError, load_settings


async def test_local_sign_in_is_the_configured_user_as_operator() -> None:
    async with browser(application(auth_with(console_user="ada"))) as client:
        is_problem(await client.get("/api/me"), 401, "/auth/sign-in")
        answer = await client.get("/auth/sign-in", params={"to": "/pool-a/queue?all=1"})
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
            assert (await client.get("/auth/sign-in")).status_code == 303


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
