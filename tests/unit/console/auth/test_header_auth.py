"""Sign-in by a reverse proxy's header, accepted from trusted proxies only."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.auth.kit import PROXY, STRANGER, application, auth_with, browser, is_problem, roles_file, token_of

from bailiff_console.auth.auth_context import AuthContext
from bailiff_console.auth.settings import AuthSettings
from bailiff_service.settings import SettingsError, load_settings

URL = "https://bailiff.example.org"
NAME = "bailiff.example.org"


def auth(**more: Any) -> AuthContext:
    defaults = {"console_sign_in": "header", "console_url": URL, "console_proxies": ("10.1.0.0/16",), "console_host": "0.0.0.0"}
    return auth_with(**{**defaults, "console_groups_header": "X-Forwarded-Groups", **more})


async def test_the_proxy_gives_user_and_groups(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, submitters={"vision": {"groups": ["vision-team"]}}, operators={"users": ["root"]})
    proxy_headers = {"x-forwarded-user": "ada", "x-forwarded-groups": "staff, vision-team"}
    async with browser(application(auth(console_roles=roles)), peer=PROXY, host=NAME, https=True, **proxy_headers) as client:
        await token_of(client)
        me = (await client.get("/api/me")).json()
        assert (me["name"], me["mode"], me["operator"], me["projects"]) == ("ada", "header", False, ["vision"])


async def test_headers_from_untrusted_peers_are_refused() -> None:
    app = application(auth())
    for path in ("/", "/api/me", "/auth/sign-in", "/api/thing"):
        async with browser(app, peer=STRANGER, host=NAME, https=True, **{"x-forwarded-user": "root"}) as client:
            is_problem(await client.get(path), 403, "is not a trusted proxy")
            spoofed = {"x-forwarded-for": PROXY, "forwarded": f"for={PROXY}", "x-real-ip": PROXY}
            is_problem(await client.get(path, headers=spoofed), 403, "is not a trusted proxy")


async def test_duplicate_headers_are_refused() -> None:
    async with browser(application(auth()), peer=PROXY, host=NAME, https=True) as client:
        twice = [("x-forwarded-user", "root"), ("X-Forwarded-User", "ada")]
        is_problem(await client.get("/auth/sign-in", headers=twice), 401, "2 times")
        is_problem(await client.get("/auth/sign-in"), 401, "missing")
        groups = [("x-forwarded-user", "ada"), ("x-forwarded-groups", "a"), ("x-forwarded-groups", "b")]
        is_problem(await client.get("/auth/sign-in", headers=groups), 401, "2 times")


@pytest.mark.parametrize("name", ["", "   ", "a" * 129, "ada\x00", "ada\x1b[31m", "é" * 200])
async def test_invalid_user_names_are_refused(name: str) -> None:
    async with browser(application(auth()), peer=PROXY, host=NAME, https=True) as client:
        is_problem(await client.get("/auth/sign-in", headers={"x-forwarded-user": name.encode()}), 401)


async def test_a_session_ends_when_the_proxy_names_another_user() -> None:
    async with browser(application(auth()), peer=PROXY, host=NAME, https=True) as client:
        ada, bob = {"x-forwarded-user": "ada"}, {"x-forwarded-user": "bob"}
        assert (await client.get("/auth/sign-in", headers=ada)).status_code == 303
        assert (await client.get("/api/me", headers=ada)).json()["name"] == "ada"
        is_problem(await client.get("/api/me", headers=bob), 401)
        is_problem(await client.get("/api/me", headers=ada), 401)  # the first session has ended
        assert (await client.get("/auth/sign-in", headers=ada)).status_code == 303
        is_problem(await client.get("/api/me"), 401)


async def test_a_removed_group_loses_its_role_at_the_next_request(tmp_path: Path) -> None:
    roles = roles_file(tmp_path, operators={"groups": ["platform"]}, viewers={"groups": ["staff"]})
    async with browser(application(auth(console_roles=roles)), peer=PROXY, host=NAME, https=True) as client:
        message = {"x-forwarded-user": "ada", "x-forwarded-groups": "platform,staff"}
        await client.get("/auth/sign-in", headers=message)
        assert (await client.get("/api/me", headers=message)).json()["operator"] is True
        assert (await client.get("/api/me", headers={**message, "x-forwarded-groups": "staff"})).json()["operator"] is False
        is_problem(await client.get("/api/me", headers={**message, "x-forwarded-groups": ""}), 401)
        is_problem(await client.get("/auth/sign-in", headers={"x-forwarded-user": "eve"}), 403, "eve has no access")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs console_proxies"),
        ({"console_proxies": ("10.0.0.0/8",)}, "needs console_url"),
        ({"console_proxies": ("10.0.0.1/8",), "console_url": URL}, "expected addresses or networks"),
        ({"console_proxies": ("10.0.0.0/8",), "console_url": "bailiff.example.org"}, "expected an address such as"),
        ({"console_proxies": ("10.0.0.0/8",), "console_url": f"{URL}/page"}, "expected an address such as"),
    ],
)
def test_insecure_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(AuthSettings, console_sign_in="header", **settings)
