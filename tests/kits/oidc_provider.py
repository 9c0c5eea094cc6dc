"""An OpenID provider for tests: real HTTP on loopback; every fault can be injected."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import uvicorn
from fastapi import FastAPI, Request
from joserfc import jws
from joserfc.jwk import RSAKey
from starlette.responses import JSONResponse, RedirectResponse, Response

CLIENT_ID, CLIENT_SECRET = "bailiff", "a secret: with / signs"
ACCESS_TOKEN = "unused"
SHORT_KEY = 2048

Signs = Callable[[dict[str, Any], dict[str, Any]], str]


def encoded(part: Mapping[str, Any]) -> str:
    """JSON encoded as one part of a token."""
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


@dataclass
class Principal:
    """The user at the browser."""

    name: str = "ada"
    groups: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)


def made_key(kid: str) -> RSAKey:
    """A new one."""
    return RSAKey.generate_key(SHORT_KEY, {"kid": kid, "use": "sig", "alg": "RS256"}, private=True)


@cache
def first_key() -> RSAKey:
    """One key for all tests, because key generation is slow."""
    return made_key("first")


class OidcProvider:
    """Signs in `principal` without a login form. issued: all tokens.

    Tests inject faults through `claims`, `sign`, `described` and `answered`.
    """

    def __init__(self) -> None:
        self.key = first_key()
        self.published = [self.key]
        self.principal = Principal()
        self.claims: dict[str, Any] = {}
        self.sign: Signs = self.signed
        self.described: dict[str, Any] = {}
        self.answered: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked_for_keys = 0
        self.issued: list[str] = []
        self.issuer = ""

    # --- signing

    def signed(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """A correct signature."""
        return jws.serialize_compact({**header, "alg": "RS256", "kid": self.key.kid}, json.dumps(claims).encode(), self.key)

    def unsigned(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """`alg: none`, and no signature."""
        return f"{encoded({**header, 'alg': 'none'})}.{encoded(claims)}."

    def signed_with_the_public_key(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """HMAC with the public key as secret: algorithm confusion."""
        body = f"{encoded({**header, 'alg': 'HS256', 'kid': self.key.kid})}.{encoded(claims)}"
        digest = hmac.digest(self.key.as_pem(private=False), body.encode(), "sha256")
        return f"{body}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    def signed_by_somebody(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """Signed with an unpublished key under a published key id."""
        other = made_key(str(self.key.kid))
        return jws.serialize_compact({**header, "alg": "RS256", "kid": other.kid}, json.dumps(claims).encode(), other)

    def new_key(self) -> None:
        """Rotate the signing key."""
        self.key = made_key(secrets.token_hex(4))
        self.published = [self.key]

    # --- HTTP

    def application(self) -> FastAPI:
        """The provider's four endpoints."""
        app = FastAPI(openapi_url=None)

        @app.get("/.well-known/openid-configuration")
        async def description() -> dict[str, Any]:
            return {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": f"{self.issuer}/bye",
                **self.described,
            }

        @app.get("/keys")
        async def keys() -> dict[str, Any]:
            self.asked_for_keys += 1
            return {"keys": [key.as_dict(private=False) for key in self.published]}

        @app.get("/authorize")
        async def authorize(request: Request) -> Response:
            requested = dict(request.query_params)
            assert requested["response_type"] == "code"
            assert requested["client_id"] == CLIENT_ID
            assert requested["code_challenge_method"] == "S256"
            assert "openid" in requested["scope"].split()
            code = secrets.token_urlsafe(16)
            self.codes[code] = requested
            back = {"code": code, "state": requested["state"], "iss": self.issuer, **self.answered}
            return RedirectResponse(f"{requested['redirect_uri']}?{urlencode(back)}", 302)

        @app.post("/token")
        async def token(request: Request) -> Response:
            credentials = base64.b64decode(request.headers.get("authorization", "Basic Og==").partition(" ")[2]).decode()
            name, _, secret = credentials.partition(":")
            if (unquote(name), unquote(secret)) != (CLIENT_ID, CLIENT_SECRET):
                return JSONResponse({"error": "invalid_client"}, 401)
            form = {key: values[0] for key, values in parse_qs((await request.body()).decode()).items()}
            requested = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if requested is None or challenge != requested["code_challenge"] or form["redirect_uri"] != requested["redirect_uri"]:
                return JSONResponse({"error": "invalid_grant"}, 400)
            now = int(time.time())
            claims = {
                "iss": self.issuer,
                "aud": CLIENT_ID,
                "sub": f"id-{self.principal.name}",
                "iat": now,
                "exp": now + 300,
                "nonce": requested["nonce"],
                "preferred_username": self.principal.name,
                "groups": self.principal.groups,
                **self.principal.more,
                **self.claims,
            }
            claims = {key: value for key, value in claims.items() if value is not None}
            self.issued += [ACCESS_TOKEN, id_token := self.sign({}, claims)]
            return JSONResponse({"access_token": ACCESS_TOKEN, "token_type": "Bearer", "id_token": id_token})

        return app


@contextlib.asynccontextmanager
async def served(app: Any, **config: Any) -> AsyncIterator[str]:
    """Serve the application on a free loopback port; yields its URL."""

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield

    settings = {"port": 0, "lifespan": "off", "log_config": None, "log_level": "critical", "ws": "none", "proxy_headers": False}
    server = Server(uvicorn.Config(app, **{**settings, **config}))
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(60):
            while not server.started:  # noqa: ASYNC110 - it has no event for that
                await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def running_provider() -> AsyncIterator[OidcProvider]:
    """A running provider."""
    provider = OidcProvider()
    async with served(provider.application()) as provider.issuer:
        yield provider


def query_of(address: str) -> dict[str, str]:
    """The query parameters of a URL."""
    return {key: values[0] for key, values in parse_qs(urlsplit(address).query).items()}
