"""Keys of one node: they sign its reports, and decrypt what is meant for it alone.

They lie in a folder per node, made at the first start (mode 0600): `key`, `encryption.key`, `root.pub`, and `certificate.json` if
an operator issued one (`bailiff_log.credentials`). Without a certificate the node enrols by a token, or waits for an operator.
"""

from dataclasses import dataclass, field
from pathlib import Path

from bailiff_core.model.certificate import Certificate
from bailiff_log.credentials import CERTIFICATE, ENCRYPTION_KEY, PRIVATE_KEY, ROOT_KEY, encryption_key_id, read_credentials
from bailiff_log.enrolment import EnrolmentToken, InvalidToken, read_token
from bailiff_log.keys import KEY_BYTES, KeyFileError, existing_or_new_key, from_text, key_id


@dataclass(frozen=True, slots=True)
class NodeCredentials:
    """private_key: Ed25519. decryption_key: X25519. root_key: of the pool, public. token: to enrol with."""

    private_key: bytes = field(repr=False)
    decryption_key: bytes = field(repr=False)
    root_key: str
    certificate: Certificate | None = None
    token: EnrolmentToken | None = None

    @property
    def key(self) -> str:
        """The public key that the node is enrolled with."""
        return key_id(self.private_key)

    @property
    def encryption_key(self) -> str:
        """The public key for what is meant for this node."""
        return encryption_key_id(self.decryption_key)


def read_node_credentials(folder: Path, token: str | None = None) -> NodeCredentials:
    """The node's keys, made where there are none. token: as `bailiff node enrol` prints it; it also has the root key.

    Raises `KeyFileError`.
    """
    if (folder / CERTIFICATE).exists():
        found = read_credentials(folder)
        return NodeCredentials(found.private_key, found.decryption_key, found.root_key, found.certificate)
    try:
        enrolment = read_token(token) if token else None
    except InvalidToken as error:
        raise KeyFileError(f"BAILIFF_ENROLMENT_TOKEN: {error}") from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    root_file = folder / ROOT_KEY
    if not root_file.exists() and (folder.parent / ROOT_KEY).exists():
        root_file = folder.parent / ROOT_KEY  # one for all nodes of this process
    if enrolment is not None and not root_file.exists():
        root_file.write_text(f"{enrolment.root_key}\n", encoding="ascii")
    private, decryption = existing_or_new_key(folder / PRIVATE_KEY), existing_or_new_key(folder / ENCRYPTION_KEY)
    return NodeCredentials(private, decryption, _root_key(root_file), token=enrolment)


def _root_key(path: Path) -> str:
    """Raises `KeyFileError`: without the root key the agent cannot tell whom to obey."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise KeyFileError(
            f"{path}: missing; put the pool's root key there (bailiff key show), or enrol with a token (bailiff node enrol)"
        ) from None
    try:
        valid = len(from_text(text)) == KEY_BYTES
    except ValueError:
        valid = False
    if not valid:
        raise KeyFileError(f"{path}: not a public key")
    return text
