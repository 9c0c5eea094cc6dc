"""Copies of the private parts of jobs: encrypted for one reader, and checked against the digest in the log."""

import json

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import ValidationError

from bailiff_core.canonical import canonical_json
from bailiff_core.model.job_spec import JobSpec, spec_digest

from .credentials import encryption_key_id
from .encryption import CannotDecrypt, decrypt, encrypt


def new_reader() -> tuple[bytes, str]:
    """A private key for one copy, and the public key that belongs to it."""
    private = X25519PrivateKey.generate().private_bytes_raw()
    return private, encryption_key_id(private)


def encrypt_copy(pool: str, grant: int, spec: bytes, salt: str, encryption_key: str) -> str:
    """spec: canonical JSON. encryption_key: the reader's, public."""
    return encrypt(b'{"salt":"%b","spec":%b}' % (salt.encode(), spec), encryption_key, _purpose(pool, grant))


def decrypt_copy(pool: str, grant: int, encrypted: str, decryption_key: bytes, digest: str) -> JobSpec:
    """The spec with this digest. Raises `CannotDecrypt`: anybody who may write to the topic may have sent another one."""
    content = decrypt(encrypted, decryption_key, _purpose(pool, grant))
    try:
        found = json.loads(content)
        text, salt = canonical_json(found["spec"]), bytes.fromhex(found["salt"])
        spec = JobSpec.model_validate_json(text)
    except (ValueError, KeyError, TypeError, ValidationError):
        raise CannotDecrypt("the copy is not valid") from None
    if spec_digest(salt, text) != digest:
        raise CannotDecrypt("the copy is not what the log recorded")
    return spec


def _purpose(pool: str, grant: int) -> str:
    """Binds the encrypted text to its grant."""
    return f"bailiff-job-spec-copy-1 {pool} {grant}"
