"""Keyed pseudonyms for names: stable under one key, different under another."""

import hmac
import re
import secrets
from hashlib import sha256
from pathlib import Path

from bailiff.client.errors import UsageError
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_log.file_writing import write

KEY_BYTES = 32
DIGITS = 16  # 64 bits: a million names collide with a chance of 3 in 10⁸
FAMILY = re.compile(
    r"\b(P4|P40|P100|V100S?|T4G?|A2|A10G?|A16|A30|A40|A100X?|A800|H20|H100|H200|H800|GH200|B100|B200|B300|GB200|GB300|L4|L20|"
    r"L40S?|RTX|K80|M60|MI100|MI210|MI250X?|MI300[AX]?|MI325X|MI355X)\b",
    re.IGNORECASE,
)
WELL_KNOWN_CLASSES = tuple(entry.name for entry in DEFAULT_POLICY.priority_classes)


class Pseudonyms:
    """HMAC-SHA256 of kind and name. A pseudonym reveals neither length nor order of a name."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[tuple[str, str], str] = {}

    def digits(self, kind: str, text: str) -> str:
        """Hexadecimal digits for the text, different for each kind."""
        found = self._known.get((kind, text))
        if found is None:
            about = b"%d:%b" % (len(kind.encode()), f"{kind}{text}".encode())
            found = self._known[kind, text] = hmac.new(self._key, about, sha256).hexdigest()[:DIGITS]
        return found

    def name(self, kind: str, text: str) -> str:
        """`job-5f0c1d2e3a4b5c6d`; empty for an empty name."""
        return f"{kind}-{self.digits(kind, text)}" if text else ""

    def class_name(self, text: str) -> str:
        """Pseudonym of a priority class; Bailiff's default classes keep their names."""
        return text if text in WELL_KNOWN_CLASSES else self.name("class", text)

    def model(self, text: str) -> str:
        """`H100-5f0c1d2e3a4b5c6d`: the GPU family, if known, and a pseudonym of the model."""
        family = FAMILY.search(text)
        return f"{family.group().upper()}-{self.digits('model', text)}" if family else self.name("gpu", text)


def new_key() -> bytes:
    """A random key that is not stored."""
    return secrets.token_bytes(KEY_BYTES)


def kept_key(path: Path) -> bytes:
    """The key in the file, created if missing.

    Raises:
        ClientError: Others can read it.
    """
    try:
        if not path.exists():
            write(path, new_key().hex() + "\n", mode=0o600, only_new=True)
        if path.stat().st_mode & 0o077:
            text = f"{path}: other users can read it, and the key reveals the names behind pseudonyms"
            raise UsageError(text, f"chmod 600 {path}")
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: expected {2 * KEY_BYTES} hexadecimal digits", "use a new file")
    return key
