"""Sign-in with an OpenID provider on loopback: valid responses, and invalid ones of every kind."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kits.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, query_of, running_provider
from tests.unit.console.auth.kit import application, auth_with, browser, is_problem, roles_file

from bailiff_console.auth.settings import AuthSettings
from bailiff_service.settings import SettingsError, load_settings

NAME = "bailiff.example.org"
URL = f"https://{NAME}"


@pytest.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    async with running_provider() as made:
        yield made


def console(provider: OidcProvider, **more: Any) -> Any:
    profile = {
        "console_sign_in": "oidc",
        "console_url": URL,
        "console_host": "0.0.0.0",
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
    }
    return application(auth_with(**{**profile, **more}))


def visitor(app: Any) -> httpx.AsyncClient:
    return browser(app, host=NAME, https=True, accept="text/html")


async def to_provider(client: httpx.AsyncClient, to: str = "/pool-a") -> str:
    """Follows the redirect to the provider. Returns the address of its redirect back."""
    sent = await client.get("/auth/sign-in", params={"to": to})
    assert sent.status_code == 303, sent.text
    async with httpx.AsyncClient(verify=False) as outside:
        back = await outside.get(sent.headers["location"])
    assert back.status_code == 302, back.text
    assert back.headers["location"].startswith(f"{URL}/auth/callback?")
    return back.headers["location"]


async def sign_in(client: httpx.AsyncClient) -> httpx.Response:
    """Signs in through the provider. Returns the last response."""
    return await client.get(await to_provider(client))


@pytest.mark.slow
async def test_sign_in_through_the_provider(provider: OidcProvider, tmp_path: Path) -> None:
    provider.principal.groups = ["vision-team", "staff"]
    roles = roles_file(tmp_path, submitters={"vision": {"groups": ["vision-team"]}})
    async with visitor(console(provider, console_roles=roles)) as client:
        answer = await sign_in(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/pool-a")
        me = await client.get("/api/me")
        profile = me.json()
        assert (profile["name"], profile["mode"], profile["projects"], profile["sign_out"]) == ("ada", "oidc", ["vision"], True)
        seen = "".join(str(part) for part in (answer.headers, answer.text, me.headers, me.text, dict(client.cookies)))
        assert provider.issued
        assert not [part for token in provider.issued for part in token.split(".") if part in seen]
        out = await client.post("/auth/sign-out", json={}, headers={"x-csrf-token": profile["csrf"]})
        assert out.json()["provider"].startswith(f"{provider.issuer}/bye?client_id={CLIENT_ID}")


async def test_each_redirect_has_new_state_nonce_and_challenge(provider: OidcProvider) -> None:
    async with visitor(console(provider)) as client:
        first, second = [query_of((await client.get("/auth/sign-in")).headers["location"]) for _ in range(2)]
        for name in ("state", "nonce", "code_challenge"):
            assert len(first[name]) >= 32
            assert first[name] != second[name]
        assert first["redirect_uri"] == f"{URL}/auth/callback"
        assert first["code_challenge_method"] == "S256"


@pytest.mark.slow
async def test_a_sign_in_can_finish_once_at_another_console_with_the_same_secret(provider: OidcProvider) -> None:
    one, other, stranger = (console(provider, console_secret=secret * 32) for secret in "xxy")
    async with visitor(one) as client, visitor(other) as again, visitor(stranger) as third:
        back = await to_provider(client)
        ((name, value),) = client.cookies.items()
        third.cookies.set(name, value)
        assert (await third.get(back)).status_code == 400
        again.cookies.set(name, value)
        assert (await again.get(back)).headers["location"] == "/pool-a"
        assert (await again.get("/api/me")).json()["name"] == "ada"
        for each in (again, client):  # a copied cookie
            each.cookies.set(name, value)
            assert (await each.get(back)).status_code == 400


Breaks = Callable[[OidcProvider], object]


def claiming(**claims: Any) -> Breaks:
    return lambda provider: provider.claims.update(claims)


def signing(name: str) -> Breaks:
    return lambda provider: setattr(provider, "sign", getattr(provider, name))


BROKEN: tuple[tuple[Breaks, int], ...] = (
    (signing("unsigned"), 403),
    (signing("signed_with_the_public_key"), 403),
    (signing("signed_by_somebody"), 403),
    (lambda provider: setattr(provider, "sign", lambda *_: "no.token"), 403),
    (lambda provider: setattr(provider, "sign", lambda *_: "ey" * 50_000), 403),
    (claiming(iss="https://evil.example"), 403),
    (claiming(iss=None), 403),
    (claiming(aud="somebody-else"), 403),
    (claiming(aud=["bailiff", "somebody-else"]), 403),
    (claiming(aud=["bailiff", "somebody-else"], azp="somebody-else"), 403),
    (claiming(aud=None), 403),
    (claiming(nonce="another"), 403),
    (claiming(nonce=None), 403),
    (claiming(exp=1), 403),
    (claiming(exp=None), 403),
    (claiming(exp="tomorrow"), 403),
    (claiming(iat=None), 403),
    (claiming(nbf=9_999_999_999), 403),
    (claiming(sub=None), 403),
    (claiming(at_hash="wrong"), 403),
    (claiming(preferred_username=None), 403),
    (claiming(preferred_username=["ada"]), 403),
    (claiming(preferred_username="a\nb"), 403),
    (lambda provider: provider.answered.update(iss="https://evil.example"), 403),
    (lambda provider: provider.answered.update(error="access_denied"), 403),
    (lambda provider: provider.answered.update(code=""), 400),
    (lambda provider: provider.answered.update(code="x" * 5000), 400),
    (lambda provider: provider.answered.update(code="guessed"), 502),
    (lambda provider: provider.answered.update(state="another"), 400),
)


@pytest.mark.slow
async def test_invalid_tokens_are_refused() -> None:
    async with running_provider() as provider, visitor(console(provider, console_sign_ins_per_minute=1000)) as client:
        original = dict(provider.__dict__)
        for at, (breaks, status) in enumerate(BROKEN):
            breaks(provider)
            answer = await sign_in(client)
            assert answer.status_code == status, (at, answer.text)
            assert "You are not signed in" in answer.text
            assert (await client.get("/api/me")).status_code == 401
            provider.__dict__.update({**original, "claims": {}, "answered": {}})
        assert (await sign_in(client)).status_code == 303  # each failure was due to its fault alone


async def test_two_audiences_are_accepted_with_our_azp(provider: OidcProvider) -> None:
    provider.claims.update(aud=[CLIENT_ID, "others"], azp=CLIENT_ID)
    async with visitor(console(provider)) as client:
        assert (await sign_in(client)).status_code == 303


async def test_a_callback_in_another_browser_is_refused(provider: OidcProvider) -> None:
    app = console(provider)
    async with visitor(app) as attacker, visitor(app) as victim:
        back = await to_provider(attacker)
        assert (await victim.get(back)).status_code == 400
        await to_provider(victim)
        assert (await victim.get(back)).status_code == 400
        assert (await victim.get("/api/me")).status_code == 401


@pytest.mark.slow
async def test_a_code_is_accepted_once(provider: OidcProvider) -> None:
    async with visitor(console(provider)) as client:
        back = await to_provider(client)
        assert (await client.get(back)).status_code == 303
        assert (await client.get(back)).status_code == 400


@pytest.mark.slow
async def test_provider_keys_are_fetched_again_after_a_minimum_interval(provider: OidcProvider, monkeypatch: Any) -> None:
    app = console(provider)
    async with visitor(app) as client:
        assert (await sign_in(client)).status_code == 303
        assert (await sign_in(client)).status_code == 303
        assert provider.asked_for_keys == 1
        provider.new_key()
        assert (await sign_in(client)).status_code == 403  # the minimum interval has not passed
        app.state.auth.provider._keys_at -= 61
        assert (await sign_in(client)).status_code == 303
        assert provider.asked_for_keys == 2


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://evil.example/keys"},
        {"token_endpoint": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
async def test_invalid_provider_metadata_is_refused(provider: OidcProvider, described: dict[str, Any]) -> None:
    provider.described.update(described)
    async with visitor(console(provider)) as client:
        assert (await client.get("/auth/sign-in")).status_code == 502


async def test_an_unreachable_provider_is_a_502(provider: OidcProvider) -> None:
    app = console(provider, oidc_issuer="http://127.0.0.1:1")
    async with browser(app, host=NAME, https=True) as client:
        is_problem(await client.get("/auth/sign-in"), 502, "provider")


async def test_provider_errors_are_escaped(provider: OidcProvider) -> None:
    provider.answered.update(error="<script>alert(1)</script>")
    async with visitor(console(provider)) as client:
        answer = await sign_in(client)
        assert "<script>" not in answer.text
        assert "&lt;script&gt;" in answer.text


@pytest.mark.slow
async def test_an_email_claim_must_be_verified(provider: OidcProvider) -> None:
    provider.principal.more = {"email": "ada@example.org"}
    async with visitor(console(provider, oidc_name_claim="email")) as client:
        assert (await sign_in(client)).status_code == 403
        provider.principal.more["email_verified"] = True
        assert (await sign_in(client)).status_code == 303
        assert (await client.get("/api/me")).json()["name"] == "ada@example.org"


async def test_a_user_without_a_role_has_no_access(provider: OidcProvider, tmp_path: Path) -> None:
    roles = roles_file(tmp_path, viewers={"groups": ["staff"]})
    async with visitor(console(provider, console_roles=roles)) as client:
        answer = await sign_in(client)
        assert answer.status_code == 403
        assert "ada has no access" in answer.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs console_url"),
        ({"console_url": URL}, "needs oidc_issuer and oidc_client_id"),
        ({"console_url": URL, "oidc_issuer": "http://login.example", "oidc_client_id": "x"}, "begins with https"),
        *(
            (
                {
                    "console_url": URL,
                    "oidc_issuer": "https://l.example",
                    "oidc_client_id": "x",
                    "oidc_algorithms": ("RS256", bad),
                },
                bad,
            )
            for bad in ("none", "HS256")
        ),
        ({"console_url": URL, "oidc_issuer": "https://l.example", "oidc_client_id": "x", "oidc_scopes": "profile"}, "openid"),
    ],
)
def test_insecure_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(AuthSettings, console_sign_in="oidc", **json.loads(json.dumps(settings)))
