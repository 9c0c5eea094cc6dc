"""Signed notes (C2SP signed-note): a text with signatures of named Ed25519 keys, as transparency logs publish them.

A key is written as a *vkey*: its name, its id and its public bytes, joined by `+`. A signature names key and id; signatures of
other keys are kept and ignored.
"""

import base64
import binascii
import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Self

from .keys import is_signed_bytes, public_key, sign_bytes

SIGNATURE_LINE = "\u2014 "  # an em dash
MAX_NOTE = 16 * 1024  # characters
MAX_SIGNATURES = 32
ID_BYTES = 4


class NoteError(ValueError):
    """A note, key or signature is malformed or invalid. The text says which, and why."""


class KeyKind(IntEnum):
    """What a key signs; part of its id."""

    NOTE = 1
    COSIGNATURE = 4


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A named Ed25519 public key, 32 bytes."""

    name: str
    kind: KeyKind
    public: bytes

    @property
    def id(self) -> bytes:
        """The first four bytes of the SHA-256 of name, kind and key."""
        return hashlib.sha256(f"{self.name}\n".encode() + bytes([self.kind]) + self.public).digest()[:ID_BYTES]

    def __str__(self) -> str:
        """The vkey."""
        return f"{self.name}+{self.id.hex()}+{base64_text(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, text: str, kind: KeyKind) -> Self:
        """The key of this vkey. Raises `NoteError` for anything but an Ed25519 key of this kind."""
        parts = text.strip().split("+", 2)
        if len(parts) != 3 or not is_key_name(parts[0]):
            raise NoteError(f"{text!r} is not a key of a signed note: expected NAME+ID+KEY")
        content = _unb64(parts[2])
        if len(content) != 33 or content[0] != kind:
            raise NoteError(f"{parts[0]}: expected an Ed25519 key of the type {kind:#04x} ({kind.name.lower()})")
        found = cls(parts[0], kind, content[1:])
        if found.id.hex() != parts[1]:
            raise NoteError(f"{parts[0]}: the id {parts[1]} is not this key's: the text is incomplete or changed")
        return found

    @classmethod
    def of(cls, name: str, kind: KeyKind, private: bytes) -> Self:
        """The key of this private key. Raises `NoteError` for an invalid name."""
        if not is_key_name(name):
            raise NoteError(f"{name!r} cannot be the name of a key: it is empty, too long, or has spaces or +")
        return cls(name, kind, public_key(private))


def is_key_name(text: str) -> bool:
    """Whether keys may have this name."""
    return 0 < len(text) <= 255 and "+" not in text and text.isprintable() and not any(each.isspace() for each in text)


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line. value: the bytes after the key's id."""

    name: str
    key_id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"{SIGNATURE_LINE}{self.name} {base64_text(self.key_id + self.value)}\n"

    @classmethod
    def parse(cls, line: str) -> Self:
        """The signature in this line, without its line feed. Raises `NoteError`."""
        name, space, content = line.removeprefix(SIGNATURE_LINE).partition(" ")
        raw = _unb64(content)
        if not line.startswith(SIGNATURE_LINE) or not space or not is_key_name(name) or len(raw) <= ID_BYTES:
            raise NoteError("a line after the text of the note is not a signature")
        return cls(name, raw[:ID_BYTES], raw[ID_BYTES:])

    def names(self, key: NoteKey) -> bool:
        """Whether it names this key. Nothing is verified."""
        return self.name == key.name and self.key_id == key.id


@dataclass(frozen=True, slots=True)
class Note:
    """text: with its final line feed."""

    text: str
    signatures: tuple[NoteSignature, ...] = ()

    def __str__(self) -> str:
        return self.text + "\n" + "".join(map(str, self.signatures))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The note, with no signature verified. Raises `NoteError`."""
        if len(text) > MAX_NOTE:
            raise NoteError(f"a note of {len(text)} characters is too long")
        if any(unicodedata.category(each) == "Cc" and each != "\n" for each in text) or not _is_utf8(text):
            raise NoteError("a note contains control characters or is not UTF-8")
        body, separator, rest = text.rpartition("\n\n")
        if not separator or not body or not rest.endswith("\n"):
            raise NoteError("not a signed note: expected a text, an empty line, and signatures")
        return cls(f"{body}\n", parse_signatures(rest))

    def signed_by(self, key: NoteKey) -> bool:
        """Whether this key signed the note's text. Raises `NoteError` if a signature names the key and is not valid."""
        own = [each for each in self.signatures if each.names(key)]
        for each in own:
            if not is_signed_bytes(key.public, each.value, self.text.encode()):
                raise NoteError(f"the signature of {key.name} is not valid")
        return bool(own)

    def with_signatures(self, more: Sequence[NoteSignature]) -> Self:
        """The note with these signatures, too."""
        return replace(self, signatures=(*self.signatures, *more))


def parse_signatures(text: str) -> tuple[NoteSignature, ...]:
    """Signature lines, each with its line feed. Raises `NoteError`."""
    lines = text.split("\n")
    if lines.pop() or not 0 < len(lines) <= MAX_SIGNATURES:
        raise NoteError(f"expected 1 to {MAX_SIGNATURES} signature lines")
    return tuple(map(NoteSignature.parse, lines))


def signed_note(text: str, name: str, private: bytes) -> Note:
    """A note with one signature over its text, which ends with a line feed. Raises `NoteError`."""
    return Note(text, (NoteSignature(name, NoteKey.of(name, KeyKind.NOTE, private).id, sign_bytes(private, text.encode())),))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def base64_text(raw: bytes) -> str:
    """Standard base64, as transparency logs write it."""
    return base64.b64encode(raw).decode()


def _unb64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
