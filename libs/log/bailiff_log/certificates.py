"""Certificates: the pool's root key signs which key may act in which role, for which pool, until when.

The signature covers the canonical JSON of
`["bailiff-certificate-1", key, role, name, pool, not_before, expires, encryption_key]`.
"""

from collections.abc import Collection
from functools import lru_cache

from bailiff_core.model.certificate import ALL_POOLS, Certificate, Role
from bailiff_core.records.wire import time_text

from .keys import is_signed, sign_fields

CERTIFICATE_TAG = "bailiff-certificate-1"


class InvalidCertificate(Exception):
    """A certificate does not permit what its key did. The text says why."""


def issue_certificate(
    root_private_key: bytes,
    *,
    key: str,
    role: Role,
    name: str,
    pool: str = ALL_POOLS,
    not_before: int,
    expires: int,
    encryption_key: str | None = None,
) -> Certificate:
    """A certificate signed with the root key. key, encryption_key: public keys. not_before, expires: µs UTC."""
    fields = [CERTIFICATE_TAG, key, role, name, pool, not_before, expires, encryption_key]
    return Certificate(
        key=key,
        role=role,
        name=name,
        pool=pool,
        not_before=not_before,
        expires=expires,
        encryption_key=encryption_key,
        signature=sign_fields(root_private_key, fields),
    )


def check_certificate(
    certificate: Certificate, *, root_keys: Collection[str], pool: str, roles: Collection[Role], at: int, revoked: Collection[str]
) -> None:
    """Raises `InvalidCertificate` unless one of the root keys permits one of these roles in this pool at this time, µs UTC."""
    name = f"the certificate of {certificate.role} {certificate.name}"
    if certificate.role not in roles:
        raise InvalidCertificate(f"{name} does not permit to act as {' or '.join(sorted(roles))}")
    if certificate.pool not in (ALL_POOLS, pool):
        raise InvalidCertificate(f"{name} is for pool {certificate.pool}, not for {pool}")
    if certificate.key in revoked:
        raise InvalidCertificate(f"{name}: its key {certificate.key} was revoked")
    if not certificate.not_before <= at <= certificate.expires:
        span = f"{time_text(certificate.not_before)} to {time_text(certificate.expires)}"
        raise InvalidCertificate(f"{name} is valid from {span}, not at {time_text(at)}")
    if not any(_is_issued_by(root_key, certificate) for root_key in root_keys):
        raise InvalidCertificate(f"{name} is not signed with the pool's root key")


@lru_cache(maxsize=4096)  # participants send the same certificate with every message
def _is_issued_by(root_key: str, certificate: Certificate) -> bool:
    each = certificate
    fields = [CERTIFICATE_TAG, each.key, each.role, each.name, each.pool, each.not_before, each.expires, each.encryption_key]
    return is_signed(root_key, each.signature, fields)
