"""Sign-in with OpenID Connect: the code flow with PKCE. Tokens stay here: the browser gets a session of our own."""

import asyncio
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from bailiff_bus.logs import logger
from bailiff_bus.settings import secret_of

from .idtoken import NotBelieved, UnknownKey, claims_of
from .names import usable_groups, usable_name
from .settings import DoorSettings, is_protected

TIMEOUT_S = 10.0
DISCOVERY = "/.well-known/openid-configuration"
KEYS_AGAIN_S = 60.0
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderFailed(Exception):
    """The provider does not answer as it should. The text is for operators, and goes to the log."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in under way, of one browser. to: where it goes afterwards."""

    state: str
    nonce: str
    verifier: str
    to: str


class Provider:
    """One OpenID provider, as it describes itself. It is asked when the first person signs in."""

    def __init__(
        self, settings: DoorSettings, http: httpx.AsyncClient | None = None, now: Callable[[], float] = time.time
    ) -> None:
        assert settings.oidc_issuer is not None
        assert settings.oidc_client_id is not None
        assert settings.console_url is not None
        self._told, self._issuer, self._client_id = settings, settings.oidc_issuer, settings.oidc_client_id
        self.back = f"{settings.console_url.rstrip('/')}/auth/back"
        self._http, self._now = http, now
        self._tls: ssl.SSLContext | None = None
        self._described: Mapping[str, Any] | None = None
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._keys_at = float("-inf")
        self._asking = asyncio.Lock()

    async def begin(self, to: str) -> tuple[Attempt, str]:
        """A new attempt, and the address at the provider where the browser goes with it."""
        about = await self._description()
        attempt = Attempt(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), to)
        address = prepare_grant_uri(
            about["authorization_endpoint"], client_id=self._client_id, response_type="code", redirect_uri=self.back,
            scope=self._told.oidc_scopes, state=attempt.state, nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.verifier), code_challenge_method="S256",
        )  # fmt: skip
        return attempt, address

    async def finish(self, attempt: Attempt, code: str, issuer: str | None) -> tuple[str, tuple[str, ...]]:
        """Name and groups of whoever came back with this code. Raises `NotBelieved`, `ProviderFailed`."""
        about = await self._description()
        wanted = about.get("authorization_response_iss_parameter_supported") is True
        if (issuer is not None or wanted) and issuer != self._issuer:
            raise NotBelieved("the answer comes from another provider than the one that was asked")
        token, access = await self._exchange(about, attempt, code)
        claims = await self._claims(about, token, access, attempt.nonce)
        return self._named(claims)

    async def sign_out_address(self) -> str | None:
        """Where the provider itself signs people out, if it says so."""
        if self._described is None:
            return None
        at = self._described.get("end_session_endpoint")
        if not isinstance(at, str) or not is_protected(at):
            return None
        return f"{at}{'&' if '?' in at else '?'}{urlencode({'client_id': self._client_id})}"

    async def _claims(self, about: Mapping[str, Any], token: str, access: str | None, nonce: str) -> dict[str, Any]:
        said: dict[str, Any] = {
            "issuer": self._issuer, "client_id": self._client_id, "nonce": nonce, "access_token": access,
            "algorithms": self._told.oidc_algorithms, "now": self._now(),
        }  # fmt: skip
        try:
            return claims_of(token, await self._published(about), **said)
        except UnknownKey:
            if self._now() - self._keys_at < KEYS_AGAIN_S:
                raise
            return claims_of(token, await self._published(about, again=True), **said)

    def _named(self, claims: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        claim = self._told.oidc_name_claim
        name = usable_name(claims.get(claim))
        if name is None:
            raise NotBelieved(f"the ID token has no usable name in the claim {claim} (BAILIFF_OIDC_NAME_CLAIM)")
        if claim == "email" and claims.get("email_verified") is not True:
            raise NotBelieved("the provider has not verified the mail address that would be the name")
        groups = claims.get(self._told.oidc_groups_claim)
        return name, usable_groups(groups if isinstance(groups, list) else [groups])

    async def _exchange(self, about: Mapping[str, Any], attempt: Attempt, code: str) -> tuple[str, str | None]:
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": self.back, "code_verifier": attempt.verifier,
        }  # fmt: skip
        auth: httpx.BasicAuth | None = None
        secret = secret_of(self._told.oidc_client_secret)
        methods = about.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret and "client_secret_basic" in methods:
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": self._client_id} | ({"client_secret": secret} if secret else {})
        found = await self._json("POST", about["token_endpoint"], data=form, auth=auth)
        token, access = found.get("id_token"), found.get("access_token")
        if not isinstance(token, str):
            raise ProviderFailed("its token endpoint gave no ID token")
        return token, access if isinstance(access, str) else None

    async def _description(self) -> Mapping[str, Any]:
        async with self._asking:
            if self._described is None:
                found = await self._json("GET", self._issuer.rstrip("/") + DISCOVERY)
                if found.get("issuer") != self._issuer:
                    raise ProviderFailed(
                        f"it calls itself {str(found.get('issuer'))[:200]!r}, and oidc_issuer is {self._issuer!r}"
                    )
                for name in ENDPOINTS:
                    if not isinstance(found.get(name), str) or not is_protected(found[name]):
                        raise ProviderFailed(f"its description has no {name} that begins with https://")
                self._described = found
            return self._described

    async def _published(self, about: Mapping[str, Any], *, again: bool = False) -> Sequence[Mapping[str, Any]]:
        async with self._asking:
            if again or not self._keys:
                found = (await self._json("GET", about["jwks_uri"])).get("keys")
                if not isinstance(found, list):
                    raise ProviderFailed("what it publishes at jwks_uri holds no keys")
                self._keys = [key for key in found if isinstance(key, dict)]
                self._keys_at = self._now()
            return self._keys

    async def _json(self, method: str, address: str, **given: Any) -> dict[str, Any]:
        if self._http is None and self._tls is None:
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)  # reads every certificate of this machine
        http = self._http or httpx.AsyncClient(timeout=TIMEOUT_S, verify=self._tls or True)
        try:
            answer = await http.request(method, address, headers={"accept": "application/json"}, **given)
            found = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderFailed(f"{method} {address}: {type(error).__name__}: {error}") from None
        except ValueError:
            found = None
        finally:
            if self._http is None:
                await http.aclose()
        if not isinstance(found, dict):
            raise ProviderFailed(f"{method} {address}: expected status 200 with a JSON object, found status {answer.status_code}")
        return found


def tell(error: Exception) -> None:
    """For operators: what the person at the browser is not told in detail."""
    logger().warning(f"somebody could not be signed in: {error}")
