"""Text for one reader: HPKE (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305."""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from .keys import from_text, to_text

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


class CannotDecrypt(Exception):
    """The text was encrypted for another key or another purpose, or was changed."""


def encrypt(plaintext: bytes, encryption_key: str, purpose: str) -> str:
    """The encrypted text, base64url. encryption_key: the reader's, public. purpose: must be the same to decrypt it."""
    key = X25519PublicKey.from_public_bytes(from_text(encryption_key))
    return to_text(SUITE.encrypt(plaintext, key, purpose.encode()))


def is_encryption_key(text: str) -> bool:
    """Whether something can be encrypted for this public key: some values of 32 bytes are no usable key."""
    try:
        encrypt(b"", text, "")
    except ValueError:
        return False
    return True


def decrypt(text: str, decryption_key: bytes, purpose: str) -> bytes:
    """The inverse of `encrypt`. Raises `CannotDecrypt`."""
    try:
        return bytes(SUITE.decrypt(from_text(text), X25519PrivateKey.from_private_bytes(decryption_key), purpose.encode()))
    except (ValueError, InvalidTag):
        raise CannotDecrypt(f"{purpose}: encrypted for another key or purpose, or changed") from None
