"""Sign-in with OpenID Connect: authorization code flow with PKCE. The provider's tokens never reach the browser.

Authlib builds the authorization URL and validates the claims. Its Starlette client (1.9) does not replace the rest, because it

* keeps state, nonce and verifier in a signed but readable session cookie that can be replayed (a cache makes it single use, but
  must then be shared by all consoles); here the cookie is encrypted, and single use is shared through `Revocations`;
* reports an `error` of the provider before it checks the state, and ignores the response's `iss` (RFC 9207);
* accepts a discovery document of another issuer, and endpoints without https;
* takes the allowed signature algorithms from the provider, not from `oidc_algorithms`;
* fetches the keys again on every token with an unknown key id, without a minimum interval;
* does not percent-encode client id and secret in HTTP Basic authentication (RFC 6749, 2.3.1).
"""

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

from bailiff_bus.kafka_settings import secret_of
from bailiff_service.logs import logger

from .id_token import InvalidIdToken, UnknownKey, verified_claims
from .name_validation import usable_groups, usable_name
from .settings import AuthSettings, is_protected

TIMEOUT_S = 10.0
DISCOVERY = "/.well-known/openid-configuration"
KEYS_REFRESH_S = 60.0
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderError(Exception):
    """The provider's response is missing or not valid. The text is for operators, in the log."""


@dataclass(frozen=True, slots=True)
class LoginState:
    """A sign-in in progress, of one browser. to: the page to return to."""

    state: str
    nonce: str
    verifier: str
    to: str


class Provider:
    """One OpenID provider. Its discovery document is fetched at the first sign-in."""

    def __init__(
        self, settings: AuthSettings, http: httpx.AsyncClient | None = None, now: Callable[[], float] = time.time
    ) -> None:
        assert settings.oidc_issuer is not None
        assert settings.oidc_client_id is not None
        assert settings.console_url is not None
        self._settings, self._issuer, self._client_id = settings, settings.oidc_issuer, settings.oidc_client_id
        self.redirect_uri = f"{settings.console_url.rstrip('/')}/auth/callback"
        self._http, self._now = http, now
        self._tls: ssl.SSLContext | None = None
        self._discovery: Mapping[str, Any] | None = None
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._keys_at = float("-inf")
        self._lock = asyncio.Lock()

    async def begin(self, to: str) -> tuple[LoginState, str]:
        """A new login state, and the authorization URL to redirect to."""
        discovery = await self._discovery_document()
        login_state = LoginState(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(48), to)
        address = prepare_grant_uri(
            discovery["authorization_endpoint"],
            client_id=self._client_id,
            response_type="code",
            redirect_uri=self.redirect_uri,
            scope=self._settings.oidc_scopes,
            state=login_state.state,
            nonce=login_state.nonce,
            code_challenge=create_s256_code_challenge(login_state.verifier),
            code_challenge_method="S256",
        )
        return login_state, address

    async def finish(self, login_state: LoginState, code: str, issuer: str | None) -> tuple[str, tuple[str, ...], str]:
        """Exchange the code. Returns name, groups and subject. Raises `InvalidIdToken`, `ProviderError`."""
        discovery = await self._discovery_document()
        issuer_required = discovery.get("authorization_response_iss_parameter_supported") is True
        if (issuer is not None or issuer_required) and issuer != self._issuer:
            raise InvalidIdToken("the response is from another issuer than the configured one")
        token, access = await self._exchange(discovery, login_state, code)
        claims = await self._claims(discovery, token, access, login_state.nonce)
        return self._identity(await self._with_user_info(discovery, claims, access))

    async def sign_out_address(self) -> str | None:
        """The provider's sign-out URL, if it publishes one."""
        if self._discovery is None:
            return None
        at = self._discovery.get("end_session_endpoint")
        if not isinstance(at, str) or not is_protected(at):
            return None
        return f"{at}{'&' if '?' in at else '?'}{urlencode({'client_id': self._client_id})}"

    async def _claims(self, discovery: Mapping[str, Any], token: str, access: str | None, nonce: str) -> dict[str, Any]:
        checks: dict[str, Any] = {
            "issuer": self._issuer,
            "client_id": self._client_id,
            "nonce": nonce,
            "access_token": access,
            "algorithms": self._settings.oidc_algorithms,
            "now": self._now(),
        }
        try:
            return verified_claims(token, await self._published_keys(discovery), **checks)
        except UnknownKey:
            if self._now() - self._keys_at < KEYS_REFRESH_S:
                raise
            return verified_claims(token, await self._published_keys(discovery, refresh=True), **checks)

    async def _with_user_info(self, discovery: Mapping[str, Any], claims: dict[str, Any], access: str | None) -> dict[str, Any]:
        """The claims; where they do not name the user, with what UserInfo says of the same subject."""
        at = discovery.get("userinfo_endpoint")
        if self._settings.oidc_name_claim in claims or access is None or not isinstance(at, str) or not is_protected(at):
            return claims
        found = await self._json("GET", at, headers={"authorization": f"Bearer {access}"})
        if found.get("sub") != claims.get("sub"):
            raise InvalidIdToken("the provider's UserInfo endpoint answered for another subject")
        return {**found, **claims}

    def _identity(self, claims: Mapping[str, Any]) -> tuple[str, tuple[str, ...], str]:
        claim = self._settings.oidc_name_claim
        name = usable_name(claims.get(claim))
        if name is None:
            raise InvalidIdToken(
                f"the ID token has no usable name in the claim {claim}, nor has UserInfo (BAILIFF_OIDC_NAME_CLAIM)"
            )
        if claim == "email" and claims.get("email_verified") is not True:
            raise InvalidIdToken("the e-mail address is not verified by the provider and cannot be the user name")
        groups = claims.get(self._settings.oidc_groups_claim)
        subject = usable_name(claims.get("sub"))
        if subject is None:
            raise InvalidIdToken("the ID token has no usable subject in the claim sub")
        return name, usable_groups(groups if isinstance(groups, list) else [groups]), subject

    async def _exchange(self, discovery: Mapping[str, Any], login_state: LoginState, code: str) -> tuple[str, str | None]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": login_state.verifier,
        }
        auth: httpx.BasicAuth | None = None
        secret = secret_of(self._settings.oidc_client_secret)
        methods = discovery.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if secret and "client_secret_basic" in methods:
            auth = httpx.BasicAuth(quote(self._client_id, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": self._client_id} | ({"client_secret": secret} if secret else {})
        found = await self._json("POST", discovery["token_endpoint"], data=form, auth=auth)
        token, access = found.get("id_token"), found.get("access_token")
        if not isinstance(token, str):
            raise ProviderError("the token endpoint returned no ID token")
        return token, access if isinstance(access, str) else None

    async def _discovery_document(self) -> Mapping[str, Any]:
        async with self._lock:
            if self._discovery is None:
                found = await self._json("GET", self._issuer.rstrip("/") + DISCOVERY)
                if found.get("issuer") != self._issuer:
                    raise ProviderError(
                        f"the discovery document names issuer {str(found.get('issuer'))[:200]!r}; oidc_issuer is {self._issuer!r}"
                    )
                for name in ENDPOINTS:
                    if not isinstance(found.get(name), str) or not is_protected(found[name]):
                        raise ProviderError(f"the discovery document has no {name} with https://")
                self._discovery = found
            return self._discovery

    async def _published_keys(self, discovery: Mapping[str, Any], *, refresh: bool = False) -> Sequence[Mapping[str, Any]]:
        async with self._lock:
            if refresh or not self._keys:
                found = (await self._json("GET", discovery["jwks_uri"])).get("keys")
                if not isinstance(found, list):
                    raise ProviderError("the document at jwks_uri has no keys")
                self._keys = [key for key in found if isinstance(key, dict)]
                self._keys_at = self._now()
            return self._keys

    async def _json(self, method: str, address: str, headers: Mapping[str, str] | None = None, **given: Any) -> dict[str, Any]:
        if self._http is None and self._tls is None:
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)  # reads every certificate of this machine
        http = self._http or httpx.AsyncClient(timeout=TIMEOUT_S, verify=self._tls or True)
        try:
            answer = await http.request(method, address, headers={"accept": "application/json", **(headers or {})}, **given)
            found = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderError(f"{method} {address}: {type(error).__name__}: {error}") from None
        except ValueError:
            found = None
        finally:
            if self._http is None:
                await http.aclose()
        if not isinstance(found, dict):
            raise ProviderError(f"{method} {address}: expected status 200 with a JSON object, found status {answer.status_code}")
        return found


def log_failure(error: Exception) -> None:
    """Log the details, which the user does not see."""
    logger().warning(f"sign-in failed: {error}")
