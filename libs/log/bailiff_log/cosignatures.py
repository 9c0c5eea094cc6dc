"""Messages of `bailiff.cosignatures`: read, and verified with keys of witnesses and of the log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused
from bailiff_bus.port import Message

from .checkpoints import Checkpoint, cosigned_at, log_key
from .signed_notes import KeyKind, Note, NoteError, NoteKey

LATEST_TIME = 2**33  # s
CosignatureBody = CheckpointCosigned | CheckpointRefused


def parse_cosignature(message: Message, pool: str) -> CosignatureBody | None:
    """The body of a message of `bailiff.cosignatures`; None if it is unreadable or of another pool."""
    try:
        found = unwrap(message, accept=(CheckpointCosigned, CheckpointRefused))
    except InvalidMessage:
        return None
    return found.body if found.pool == pool and isinstance(found.body, CosignatureBody) else None


def cosigned_note(body: CosignatureBody) -> str:
    """The note with the cosignature."""
    return body.checkpoint if isinstance(body, CheckpointCosigned) else body.cosigned


@dataclass(frozen=True, slots=True)
class Cosigned:
    """A verified cosignature. at: s UTC, by the witness's clock."""

    checkpoint: Checkpoint
    witness: NoteKey
    at: int

    @classmethod
    def parse(cls, text: str, witness: NoteKey) -> Self | None:
        """The checkpoint in this note, if the witness cosigned it."""
        try:
            note = Note.parse(text)
            at = cosigned_at(note, witness)
            return None if at is None or at > LATEST_TIME else cls(Checkpoint.parse(note.text), witness, at)
        except NoteError:
            return None

    @classmethod
    def published(cls, body: CosignatureBody, log_keys: Iterable[str]) -> Self | None:
        """The checkpoint in this message, if the witness that it names cosigned it and a sealing key of the log signed it."""
        try:
            note = Note.parse(cosigned_note(body))
            origin = note.text.partition("\n")[0]
            if not any(note.signed_by(log_key(origin, key)) for key in log_keys):
                return None
            return cls.parse(str(note), NoteKey.parse(body.witness, KeyKind.COSIGNATURE))
        except NoteError:
            return None
