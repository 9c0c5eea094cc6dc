"""Protection of browser sessions: CSRF, response headers, cookies, redirects, rate and size limits."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kits.http import TOKEN
from tests.unit.console.actions.kit import running_console
from tests.unit.console.auth.kit import HOST, PROXY, application, auth_with, browser, is_problem, token_of

from bailiff_console.auth.safe_redirect import local_path

CSP = (
    "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HTTPS = {"console_sign_in": "header", "console_url": "https://bailiff.example.org", "console_proxies": ("10.1.2.3",)}


# --- cross-site requests


async def test_a_change_requires_csrf_token_origin_and_json() -> None:
    app = application(auth_with(console_user="ada"))
    async with browser(app) as client:
        token = await token_of(client)
        right = {"x-csrf-token": token, "content-type": "application/json", "origin": f"http://{HOST}"}
        assert (await client.post("/api/thing", content="{}", headers=right)).json() == {"by": "ada"}
        for wrong, status in (
            ({"x-csrf-token": ""}, 403),
            ({"x-csrf-token": "guess"}, 403),
            ({"x-csrf-token": "é".encode()}, 403),
            ({"origin": "http://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": "http://localhost:9999"}, 403),
            ({"origin": f"https://{HOST}"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
            ({"content-type": "text/plain"}, 415),
            ({"content-type": "application/x-www-form-urlencoded"}, 415),
            ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ):
            is_problem(await client.post("/api/thing", content="{}", headers={**right, **wrong}), status)
        is_problem(await client.delete("/api/thing"), 403)
        assert (await client.delete("/api/thing", headers={"x-csrf-token": token})).status_code == 200
        assert [name for name, _ in app.state.changes] == ["ada", "ada"]


async def test_a_csrf_token_is_valid_for_its_session_only() -> None:
    app = application(auth_with(console_user="ada"))
    async with browser(app) as one, browser(app) as other:
        token, _ = await token_of(one), await token_of(other)
        headers = {"x-csrf-token": token, "content-type": "application/json"}
        is_problem(await other.post("/api/thing", content="{}", headers=headers), 403, "x-csrf-token")


async def test_cross_site_reads_are_refused() -> None:
    async with browser(application(auth_with())) as client:
        await token_of(client)
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            assert (await client.get("/api/thing", headers={"sec-fetch-site": site})).status_code == status
        for origin, status in (
            ("https://evil.example", 403),
            ("http://localhost:9999", 403),
            ("null", 403),
            (f"http://{HOST}", 200),
        ):
            assert (await client.get("/api/thing", headers={"origin": origin})).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"), [({"sec-fetch-site": "cross-site"}, 403), ({"origin": "https://evil.example"}, 403), ({}, 200)]
)
async def test_a_foreign_page_opens_no_live_stream_with_the_visitors_cookie(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    live = "/api/pools/pool-a/live"
    async with running_console(tmp_path) as service, service.console.http.stream("GET", live, headers=headers) as answer:
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/event-stream") == (status == 200)


async def test_unused_methods_are_refused() -> None:
    async with browser(application(auth_with())) as client:
        await token_of(client)
        for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT"):
            is_problem(await client.request(method, "/api/thing"), 405)


# --- frames, scripts, caches


@pytest.mark.parametrize(
    "path", ["/", "/assets/x.js", "/api/me", "/api/thing", "/auth/sign-in", "/nowhere", "/healthz", "/api/none"]
)
async def test_every_response_has_security_headers(path: str) -> None:
    async with browser(application(auth_with())) as client:
        for _ in range(2):  # signed out, and signed in
            headers = (await client.get(path)).headers
            assert headers["content-security-policy"] == CSP
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert "camera=()" in headers["permissions-policy"]
            assert (headers.get("cache-control") == "no-store") == path.startswith(("/api", "/auth"))
            assert "strict-transport-security" not in headers
            assert "access-control-allow-origin" not in headers
            await token_of(client)


async def test_https_responses_have_strict_transport_security() -> None:
    proxy_headers = {"x-forwarded-user": "ada"}
    async with browser(
        application(auth_with(**HTTPS)), peer=PROXY, host="bailiff.example.org", https=True, **proxy_headers
    ) as client:
        answer = await client.get("/auth/sign-in", params={"token": TOKEN})
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


# --- sessions


async def test_the_cookie_is_opaque_http_only_and_same_site() -> None:
    async with browser(application(auth_with(console_user="ada-lovelace"))) as client:
        cookie = (await client.get("/auth/sign-in", params={"token": TOKEN})).headers["set-cookie"]
        assert {"Path=/", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
        assert "lovelace" not in cookie
        assert "Secure" not in cookie
    proxy_headers = {"x-forwarded-user": "ada"}
    async with browser(
        application(auth_with(**HTTPS)), peer=PROXY, host="bailiff.example.org", https=True, **proxy_headers
    ) as client:
        cookie = (await client.get("/auth/sign-in", params={"token": TOKEN})).headers["set-cookie"]
        assert cookie.startswith("__Host-bailiff=")
        assert {"Secure", "Path=/", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
        assert "pool" not in cookie.lower()


def session_cookie(client: httpx.AsyncClient) -> str:
    (name,) = [name for name in client.cookies if name.startswith("bailiff")]
    return client.cookies[name]


async def test_session_fixation_is_prevented() -> None:
    app = application(auth_with(console_user="ada"))
    async with browser(app) as victim, browser(app) as attacker:
        fixed = "a" * 43
        victim.cookies.set("bailiff-8640", fixed)
        await victim.get("/auth/sign-in", params={"token": TOKEN})
        assert fixed not in [cookie.value for cookie in victim.cookies.jar][-1:]
        attacker.cookies.set("bailiff-8640", fixed)
        is_problem(await attacker.get("/api/me"), 401)


async def test_sign_in_replaces_the_session() -> None:
    app = application(auth_with(console_user="ada"))
    async with browser(app) as client, browser(app) as thief:
        await token_of(client)
        old = session_cookie(client)
        thief.cookies.set("bailiff-8640", old)
        assert (await thief.get("/api/me")).status_code == 200
        await token_of(client)
        assert session_cookie(client) != old
        is_problem(await thief.get("/api/me"), 401)


async def test_a_duplicate_cookie_is_refused() -> None:
    async with browser(application(auth_with())) as client:
        await token_of(client)
        mine = session_cookie(client)
        client.cookies.clear()
        assert (await client.get("/api/me", headers={"cookie": f"other=1; bailiff-8640={mine}"})).status_code == 200
        is_problem(await client.get("/api/me", headers={"cookie": f"bailiff-8640=x; bailiff-8640={mine}"}), 401)


async def test_sign_out_requires_the_token_and_revokes_the_session() -> None:
    app = application(auth_with(console_user="ada"))
    async with browser(app) as client, browser(app) as thief:
        token = await token_of(client)
        thief.cookies.set("bailiff-8640", session_cookie(client))
        is_problem(await client.post("/auth/sign-out", json={}), 403)
        answer = await client.post("/auth/sign-out", json={}, headers={"x-csrf-token": token})
        assert answer.json() == {"signed_out": True, "provider": None}
        assert "Max-Age=0" in answer.headers["set-cookie"]
        is_problem(await thief.get("/api/me"), 401)


# --- redirect after sign-in


@pytest.mark.parametrize(
    "to",
    [
        *("//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example"),
        *("/\n/evil.example", "http:evil.example", "javascript:alert(1)", "/a\x00b", "", "pool-a", "///evil.example"),
        *("/%0d%0aset-cookie:x\r\n", " /x", "/api/me", "/auth/sign-in", "/auth", "/" + "a" * 3000, "//[", "/x\x7f"),
        "data:text/html,x",
    ],
)
async def test_redirects_to_other_sites_are_refused(to: str) -> None:
    assert local_path(to) == "/"
    async with browser(application(auth_with())) as client:
        assert (await client.get("/auth/sign-in", params={"to": to, "token": TOKEN})).headers["location"] == "/"


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("/", "/"),
        ("/pool-a/jobs/train-1", "/pool-a/jobs/train-1"),
        ("/pool-a?x=1&y=http://a/b#z", "/pool-a?x=1&y=http://a/b#z"),
        ("/pool/jobs/a%2Fb", "/pool/jobs/a%2Fb"),
        ("/wörter", "/w%C3%B6rter"),
        ("/a//b", "/a//b"),
        ("/apix", "/apix"),
    ],
)
def test_local_redirects_are_allowed(to: str, expected: str) -> None:
    assert local_path(to) == expected


# --- rate and size limits


async def test_changes_are_rate_limited_per_user(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**HTTPS, "console_posts_per_minute": 3}
    app = application(auth_with(**settings))
    about = {"peer": PROXY, "host": "bailiff.example.org", "https": True}
    async with (
        browser(app, **about, **{"x-forwarded-user": "ada"}) as ada,
        browser(app, **about, **{"x-forwarded-user": "bob"}) as bob,
    ):
        hers, his = {"x-csrf-token": await token_of(ada)}, {"x-csrf-token": await token_of(bob)}
        proposals = [await ada.post("/api/thing", json={}, headers=hers) for _ in range(4)]
        assert [answer.status_code for answer in proposals] == [200, 200, 200, 429]
        is_problem(proposals[-1], 429, "more than 3", "retry in")
        assert 1 <= int(proposals[-1].headers["retry-after"]) <= 60
        assert (await bob.post("/api/thing", json={}, headers=his)).status_code == 200
        assert (await ada.get("/api/thing")).status_code == 200


async def test_sign_ins_are_rate_limited_by_client_address() -> None:
    settings: dict[str, Any] = {**HTTPS, "console_sign_ins_per_minute": 2}
    async with browser(application(auth_with(**settings)), peer=PROXY, host="bailiff.example.org", https=True) as client:

        def sign_in_from(address: str) -> Any:
            return client.get("/auth/sign-in", headers={"x-forwarded-user": "ada", "x-forwarded-for": address})

        assert [(await sign_in_from("203.0.113.9")).status_code for _ in range(3)] == [303, 303, 429]
        is_problem(await sign_in_from("6.6.6.6, 203.0.113.9"), 429)  # addresses set by the client do not count
        assert (await sign_in_from("203.0.113.10")).status_code == 303
        assert [(await sign_in_from(f"2001:db8::{end}")).status_code for end in (1, 2, 3)] == [303, 303, 429]
        assert (await sign_in_from("2001:db8:0:1::1")).status_code == 303


async def test_a_body_above_the_limit_is_refused_for_any_declared_length() -> None:
    app = application(auth_with(console_largest_body_bytes=1024))
    async with browser(app) as client:
        headers = {"x-csrf-token": await token_of(client), "content-type": "application/json"}

        async def pieces() -> Any:
            for _ in range(3):
                yield b"x" * 500

        assert (await client.post("/api/thing", content=b"x" * 1024, headers=headers)).status_code == 200
        is_problem(await client.post("/api/thing", content=b"x" * 1025, headers=headers), 413)
        is_problem(await client.post("/api/thing", content=pieces(), headers=headers), 413)
        for length in ("9" * 30, "-1", "x"):
            is_problem(await client.post("/api/thing", content=b"", headers={**headers, "content-length": length}), 413)
        assert len(app.state.changes) == 1
