"""The console on one's own machine: signed in without asking, for this machine alone."""

from pathlib import Path

import pytest
from tests.unit.console.auth.kit import STRANGER, application, auth_with, browser, is_problem, roles_file, token_of

from bailiff_console.auth.settings import AuthSettings
from bailiff_service.settings import SettingsError, load_settings


async def test_whoever_opens_the_page_is_its_one_person_and_an_operator() -> None:
    async with browser(application(auth_with(console_user="ada"))) as client:
        is_problem(await client.get("/api/me"), 401, "/auth/sign-in")
        answer = await client.get("/auth/sign-in", params={"to": "/pool-a/queue?all=1"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/pool-a/queue?all=1")
        me = (await client.get("/api/me")).json()
        assert me.pop("csrf")
        assert me.pop("time").endswith("Z")
        assert me == {"name": "ada", "mode": "local", "operator": True, "projects": None, "sign_out": False}


async def test_a_name_that_is_not_this_machines_is_refused_so_that_no_site_can_rebind_its_own_to_us() -> None:
    app = application(auth_with(console_user="ada"))
    for host in ("evil.example", "evil.example:8640", "10.0.0.7:8640", "localhost.evil.example", "127.0.0.1.evil.example:8640"):
        async with browser(app, host=host) as client:
            is_problem(await client.get("/auth/sign-in"), 421, "this machine only")
            is_problem(await client.get("/"), 421)
    for host in ("localhost", "localhost:8640", "127.0.0.1:8640", "[::1]:8640", "LOCALHOST:8640"):
        async with browser(app, host=host) as client:
            assert (await client.get("/auth/sign-in")).status_code == 303


@pytest.mark.parametrize("host", ["", "a b", "localhost:8640/evil", "[::1", "localhost@evil.example"])
async def test_a_host_that_is_no_host_is_refused(host: str) -> None:
    async with browser(application(auth_with())) as client:
        is_problem(await client.get("/api/me", headers={"host": host}), 400, "Host")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "bailiff.example.org"])
def test_it_does_not_listen_where_others_could_reach_it(host: str) -> None:
    with pytest.raises(SettingsError, match="listen on"):
        load_settings(AuthSettings, console_host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_it_listens_on_loopback(host: str) -> None:
    assert load_settings(AuthSettings, console_host=host).console_sign_in == "local"


async def test_in_a_container_it_listens_for_the_loopback_that_is_led_there_under_its_names_alone() -> None:
    auth = auth_with(console_host="0.0.0.0", console_in_container=True, console_url="http://127.0.0.1:8640")
    async with browser(application(auth), peer="172.18.0.1", host="evil.example:8640") as client:
        is_problem(await client.get("/auth/sign-in"), 421)
    for host in ("127.0.0.1:8640", "localhost:8640"):
        async with browser(application(auth), peer="172.18.0.1", host=host) as client:
            await token_of(client)


async def test_health_is_told_to_whoever_asks_under_whatever_name() -> None:
    async with browser(application(auth_with()), host="10.0.0.7:1", peer=STRANGER) as client:
        assert (await client.get("/healthz")).json() == {"alive": True}


async def test_with_a_file_of_roles_the_one_person_has_the_role_that_it_says(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, submitters={"vision": {"users": ["ada"]}})
    async with browser(application(auth_with(console_user="ada", console_roles=roles))) as client:
        await token_of(client)
        me = (await client.get("/api/me")).json()
        assert (me["operator"], me["projects"]) == (False, ["vision"])


async def test_two_consoles_on_one_machine_do_not_sign_each_other_out() -> None:
    one, other = application(auth_with(console_user="ada")), application(auth_with(console_user="bob"))
    async with browser(one, host="localhost:1001") as first, browser(other, host="localhost:1002") as second:
        await token_of(first)
        second.cookies.update(first.cookies)  # a browser does not tell ports apart
        await token_of(second)
        first.cookies.update(second.cookies)
        assert (await first.get("/api/me")).json()["name"] == "ada"
        assert (await second.get("/api/me")).json()["name"] == "bob"


def test_a_user_that_cannot_stand_in_the_log_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="not a valid user name"):
        auth_with(console_user="a\nb")
