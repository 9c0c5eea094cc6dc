"""What a participant signs and decrypts with: its private keys, its certificate, and the pool's root key (the public half).

They lie in one folder, of mode 0700:

* `root.pub`: the root key of the pools, public;
* `certificate.json`: signed with the root key;
* `key`, `encryption.key`: private, Ed25519 and X25519, made at the first start.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bailiff_core.model.certificate import ALL_POOLS, Certificate, Role

from .certificates import issue_certificate
from .file_writing import write
from .keys import KeyFileError, existing_or_new_key, key_id, read_private_key, to_text

DAY = 86_400_000_000  # µs
VALID_FOR = 365 * DAY
ROOT_KEY, CERTIFICATE, PRIVATE_KEY, ENCRYPTION_KEY = "root.pub", "certificate.json", "key", "encryption.key"


@dataclass(frozen=True, slots=True)
class Credentials:
    """private_key: Ed25519. decryption_key: X25519. root_key: public. Never shown: `repr` has the certificate alone."""

    private_key: bytes
    decryption_key: bytes
    certificate: Certificate
    root_key: str

    def __repr__(self) -> str:
        return f"Credentials({self.certificate.role} {self.certificate.name})"


def read_credentials(folder: Path) -> Credentials:
    """The credentials in this folder. Raises `KeyFileError`: a file is missing, invalid, or does not fit another."""
    root_key, text = _read_text(folder / ROOT_KEY), _read_text(folder / CERTIFICATE)
    try:
        certificate = Certificate.model_validate_json(text)
    except ValidationError:
        raise KeyFileError(f"{folder / CERTIFICATE}: not a certificate; issue it again: bailiff key certify") from None
    private, decryption = read_private_key(folder / PRIVATE_KEY), read_private_key(folder / ENCRYPTION_KEY)
    if certificate.key != key_id(private) or certificate.encryption_key != encryption_key_id(decryption):
        raise KeyFileError(f"{folder / CERTIFICATE}: is for other keys than those beside it; issue it again: bailiff key certify")
    return Credentials(private, decryption, certificate, root_key)


def make_credentials(
    folder: Path, root_private_key: bytes, *, role: Role, name: str, pool: str = ALL_POOLS, not_before: int, expires: int
) -> Credentials:
    """Writes a certificate for the keys in this folder, made first where there are none. Times: µs UTC. Raises `KeyFileError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    private, decryption = existing_or_new_key(folder / PRIVATE_KEY), existing_or_new_key(folder / ENCRYPTION_KEY)
    certificate = issue_certificate(
        root_private_key,
        key=key_id(private),
        role=role,
        name=name,
        pool=pool,
        not_before=not_before,
        expires=expires,
        encryption_key=encryption_key_id(decryption),
    )
    try:
        write(folder / ROOT_KEY, f"{key_id(root_private_key)}\n")
        write(folder / CERTIFICATE, certificate.to_json() + b"\n")
    except OSError as error:
        raise KeyFileError(f"{folder}: cannot be written: {error.strerror}") from None
    return Credentials(private, decryption, certificate, key_id(root_private_key))


def issued_credentials(folder: Path, root_key_file: Path, *, role: Role, name: str, now: int) -> Credentials:
    """The credentials in this folder for every pool of the root key, made or renewed where less than half of their time is left.

    The root key's file is made first if there is none. The certificate is valid from a day before now (µs UTC), so that a clock
    that is set back does not invalidate it. Raises `KeyFileError`.
    """
    root = existing_or_new_key(root_key_file)
    if (folder / CERTIFICATE).exists():
        found = read_credentials(folder)
        if found.root_key == key_id(root) and found.certificate.expires - now > VALID_FOR // 2:
            return found
    return make_credentials(folder, root, role=role, name=name, not_before=now - DAY, expires=now + VALID_FOR)


def encryption_key_id(private_key: bytes) -> str:
    """The public half of an X25519 key, as in certificates."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # see `keys`

    return to_text(X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw())


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: cannot be read: {error}") from None
