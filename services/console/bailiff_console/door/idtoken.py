"""ID tokens: signed by the provider with a key that it has published, for this console, in answer to this sign-in."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from joserfc.jws import extract_compact

LEEWAY_S = 60
KIND_OF_KEY = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class NotBelieved(Exception):
    """The token proves nothing. The text says why, for operators; nothing of the token is in it."""


def claims_of(
    token: str, keys: Sequence[Mapping[str, Any]], *, issuer: str, client_id: str, nonce: str, algorithms: Sequence[str],
    access_token: str | None = None, now: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What the token says, once all of it has been checked. keys: as published (JWK). Raises `NotBelieved`."""
    decoded = _verified(token, keys, algorithms)
    wanted: Any = {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": client_id},
        "exp": {"essential": True},
        "iat": {"essential": True},
    }
    said = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
    try:
        claims = CodeIDToken(decoded.claims, decoded.header, wanted, said)
        claims.validate(int(time.time() if now is None else now), LEEWAY_S)
    except (JoseError, TypeError, ValueError, AttributeError) as error:
        raise NotBelieved(f"the ID token is not acceptable: {error}") from None
    return dict(claims)


class UnknownKey(NotBelieved):
    """None of the keys has signed it; the provider may have new ones."""


def _verified(token: str, keys: Sequence[Mapping[str, Any]], algorithms: Sequence[str]) -> jwt.Token:
    try:
        header = extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise NotBelieved("the ID token is no signed token") from None
    algorithm, named = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise NotBelieved(f"the ID token is signed with {str(algorithm)[:20]}, and only {', '.join(algorithms)} count")
    for each in keys:
        if not _fits(each, algorithm) or (named is not None and each.get("kid") != named):
            continue
        try:
            return jwt.decode(token, JWKRegistry.import_key(dict(each)), [algorithm])
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            continue
    raise UnknownKey("no published key of the provider has signed the ID token")


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """A public key that is for signatures of this kind: never a shared secret, never one for encryption."""
    return (
        key.get("kty") == KIND_OF_KEY.get(algorithm[:2])
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    )
