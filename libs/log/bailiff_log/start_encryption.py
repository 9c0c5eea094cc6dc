"""Start commands whose private part only their node can read."""

from typing import Any

from pydantic import ValidationError

from bailiff_bus.messages.commands import EncryptedStartTask, StartBase, StartTask
from bailiff_core.model.job_spec import JobSpec

from .encryption import CannotDecrypt, decrypt, encrypt


def encrypt_start(command: StartTask, pool: str, encryption_key: str) -> EncryptedStartTask:
    """The command with its spec encrypted. encryption_key: of the node, public."""
    text = encrypt(command.spec.to_json(), encryption_key, _purpose(command, pool))
    return EncryptedStartTask(**_public_part(command), encrypted_spec=text)


def decrypt_start(command: EncryptedStartTask, pool: str, decryption_key: bytes) -> StartTask:
    """The inverse of `encrypt_start`. Raises `CannotDecrypt`."""
    content = decrypt(command.encrypted_spec, decryption_key, _purpose(command, pool))
    try:
        spec = JobSpec.model_validate_json(content)
    except ValidationError:
        raise CannotDecrypt("the decrypted spec is not valid") from None
    return StartTask(**_public_part(command), spec=spec)


def _purpose(command: StartBase, pool: str) -> str:
    """Binds the encrypted text to this command: it cannot be used in another one."""
    return f"bailiff-start-1 {pool} {command.node} {command.job} {command.attempt}"


def _public_part(command: StartBase) -> dict[str, Any]:
    return {name: getattr(command, name) for name in StartBase.model_fields}
