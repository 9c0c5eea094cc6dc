"""Checkpoints (C2SP tlog-checkpoint): size and root of a log's Merkle tree as a signed note, and witnesses' cosignatures.

The *origin* identifies the log: `bailiff/POOL/IDENTITY`, and `/N` after the N-th accepted loss of sealed records, since what
follows does not continue the checkpoints before. A cosignature (`cosignature/v1`) says that a witness has seen this root, and
that it continues every one that the witness cosigned for this origin.
"""

import base64
import binascii
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from .keys import from_text, is_signed_bytes, sign_bytes
from .signed_notes import KeyKind, Note, NoteError, NoteKey, NoteSignature, signed_note

PREFIX = "bailiff"
ROOT_BYTES = 32
MAX_SIZE = 2**53 - 1
_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_ORIGIN = re.compile(rf"{PREFIX}/([^/]+)/([0-9a-f]{{64}})(?:/([1-9][0-9]*))?")
_TIME = struct.Struct(">Q")


def origin_of(pool: str, identity: str, losses: int = 0) -> str:
    """The origin of a log. identity: hash of its first record. losses: number of accepted losses of sealed records."""
    return f"{PREFIX}/{pool}/{identity}" + (f"/{losses}" if losses else "")


def parse_origin(origin: str) -> tuple[str, str, int] | None:
    """Pool, identity and losses of an origin; None for logs of others."""
    found = _ORIGIN.fullmatch(origin)
    return (found[1], found[2], int(found[3] or 0)) if found is not None else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tree of a log. size: leaves. root: 32 bytes."""

    origin: str
    size: int
    root: bytes

    def __str__(self) -> str:
        """The text of its note."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The checkpoint in the text of a note; extension lines are ignored. Raises `NoteError`."""
        lines = text.split("\n")
        if len(lines) < 4 or not all(lines[:-1]) or lines[-1] or not _SIZE.fullmatch(lines[1]):
            raise NoteError("not a checkpoint: expected the lines origin, size and root")
        try:
            root = base64.b64decode(lines[2], validate=True)
        except (binascii.Error, ValueError):
            root = b""
        if len(root) != ROOT_BYTES or int(lines[1]) > MAX_SIZE:
            raise NoteError("not a checkpoint: its root is not 32 bytes as base64, or its size is too large")
        return cls(lines[0], int(lines[1]), root)


def log_key(origin: str, sealing_key: str) -> NoteKey:
    """The key of a log's checkpoints: its sealing key under the log's origin. sealing_key: base64url. Raises `ValueError`."""
    return NoteKey(origin, KeyKind.NOTE, from_text(sealing_key))


def sign_checkpoint(checkpoint: Checkpoint, private: bytes) -> str:
    """The checkpoint as a note, signed with the log's sealing key."""
    return str(signed_note(str(checkpoint), checkpoint.origin, private))


def checkpoint_signed_by(text: str, keys: Iterable[NoteKey]) -> tuple[Note, Checkpoint]:
    """The checkpoint in a note that at least one of the log's keys signed. Raises `NoteError`."""
    note = Note.parse(text)
    checkpoint = Checkpoint.parse(note.text)
    signed = [note.signed_by(key) for key in keys if key.name == checkpoint.origin]  # every signature is verified
    if not any(signed):
        raise NoteError(f"no key of the log {checkpoint.origin} signed this checkpoint")
    return note, checkpoint


# --- cosignatures


def witness_key(name: str, private: bytes) -> NoteKey:
    """A witness's public key. Raises `NoteError` for an invalid name."""
    return NoteKey.of(name, KeyKind.COSIGNATURE, private)


def cosign(text: str, key: NoteKey, private: bytes, time: int) -> NoteSignature:
    """The cosignature of a checkpoint's text. time: s UTC."""
    return NoteSignature(key.name, key.id, _TIME.pack(time) + sign_bytes(private, _cosigned(text, time)))


def cosigned_at(note: Note, key: NoteKey) -> int | None:
    """When this witness cosigned the note's text, s UTC; None if it did not. Raises `NoteError` for an invalid cosignature."""
    times = []
    for each in note.signatures:
        if each.names(key):
            time = int.from_bytes(each.value[: _TIME.size], "big")
            if not is_signed_bytes(key.public, each.value[_TIME.size :], _cosigned(note.text, time)):
                raise NoteError(f"the cosignature of {key.name} is not valid")
            times.append(time)
    return max(times, default=None)


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()
