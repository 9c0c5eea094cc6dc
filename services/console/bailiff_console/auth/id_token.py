"""Verifies OpenID Connect ID tokens: signature, issuer, audience, nonce, expiry."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry
from joserfc.jws import extract_compact

LEEWAY_S = 60
KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class InvalidIdToken(Exception):
    """The ID token is not valid. The text says why, for operators, without contents of the token."""


def verified_claims(
    token: str,
    keys: Sequence[Mapping[str, Any]],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    algorithms: Sequence[str],
    access_token: str | None = None,
    now: float | None = None,
) -> dict[str, Any]:
    """The verified claims. keys: the provider's JWKs. Raises `InvalidIdToken`."""
    decoded = _verified(token, keys, algorithms)
    expected: Any = {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": client_id},
        "exp": {"essential": True},
        "iat": {"essential": True},
    }
    params = {"nonce": nonce, "client_id": client_id, "access_token": access_token}
    try:
        claims = CodeIDToken(decoded.claims, decoded.header, expected, params)
        claims.validate(int(time.time() if now is None else now), LEEWAY_S)
    except (JoseError, TypeError, ValueError, AttributeError) as error:
        raise InvalidIdToken(f"the ID token is not acceptable: {error}") from None
    return dict(claims)


class UnknownKey(InvalidIdToken):
    """No known key matches the signature; the provider may have rotated keys."""


def _verified(token: str, keys: Sequence[Mapping[str, Any]], algorithms: Sequence[str]) -> jwt.Token:
    try:
        header = extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise InvalidIdToken("the ID token is not a signed JWT") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise InvalidIdToken(f"the ID token is signed with {str(algorithm)[:20]}; allowed: {', '.join(algorithms)}")
    for each in keys:
        if not _fits(each, algorithm) or (key_id is not None and each.get("kid") != key_id):
            continue
        try:
            return jwt.decode(token, JWKRegistry.import_key(dict(each)), [algorithm])
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            continue
    raise UnknownKey("no published key of the provider matches the ID token's signature")


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Whether this is a public signature key for the algorithm; never a shared secret or an encryption key."""
    return (
        key.get("kty") == KEY_TYPES.get(algorithm[:2])
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    )
