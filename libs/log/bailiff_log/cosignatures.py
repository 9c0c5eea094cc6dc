"""Messages of `bailiff.cosignatures`: read, and verified with keys of witnesses and of the log."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused
from bailiff_bus.port import Message
from bailiff_core.canonical import canonical_json

from .checkpoints import Checkpoint, cosigned_at, log_key
from .keys import from_text, is_signed_bytes, sign_bytes, to_text
from .signed_notes import KeyKind, Note, NoteError, NoteKey

LATEST_TIME = 2**33  # s
MAX_WITNESSES = 20
"""Of which a reader keeps what they say, beside those that it knows: anybody may invent witnesses."""
CosignatureBody = CheckpointCosigned | CheckpointRefused


def parse_cosignature(message: Message, pool: str) -> CosignatureBody | None:
    """The body of a message of `bailiff.cosignatures`; None if it is unreadable, of another pool, or an unsigned refusal."""
    try:
        found = unwrap(message, accept=(CheckpointCosigned, CheckpointRefused))
    except InvalidMessage:
        return None
    body = found.body
    if found.pool != pool or not isinstance(body, CosignatureBody):
        return None
    return body if isinstance(body, CheckpointCosigned) or _is_signed(body, pool) else None


def signed_refusal(body: CheckpointRefused, pool: str, private: bytes) -> CheckpointRefused:
    """The refusal with the signature of the witness that it names."""
    return body.model_copy(update={"signature": to_text(sign_bytes(private, _signed_text(body, pool)))})


def _is_signed(body: CheckpointRefused, pool: str) -> bool:
    try:
        witness = NoteKey.parse(body.witness, KeyKind.COSIGNATURE)
    except NoteError:
        return False
    return body.signature is not None and is_signed_bytes(witness.public, from_text(body.signature), _signed_text(body, pool))


def _signed_text(body: CheckpointRefused, pool: str) -> bytes:
    data = {name: value for name, value in body.to_data().items() if name != "signature"}
    return b"bailiff/refused/v1\n" + canonical_json({**data, "pool": pool})


def cosigned_note(body: CosignatureBody) -> str:
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
    def published(cls, body: CosignatureBody, log_keys: Iterable[str] | None) -> Self | None:
        """The checkpoint in this message, if the witness that it names cosigned it and a sealing key of the log signed it.

        log_keys: None: whoever signed it, as where the witness is known.
        """
        try:
            note = Note.parse(cosigned_note(body))
            origin = note.text.partition("\n")[0]
            if log_keys is not None and not any(note.signed_by(log_key(origin, key)) for key in log_keys):
                return None
            return cls.parse(str(note), NoteKey.parse(body.witness, KeyKind.COSIGNATURE))
        except NoteError:
            return None


def witness_keys(named: Iterable[str]) -> frozenset[str]:
    """The keys of witnesses that somebody names, each as `VKEY` or `VKEY URL`. Raises `NoteError`."""
    return frozenset(str(NoteKey.parse((each.split() or [""])[0], KeyKind.COSIGNATURE)) for each in named)


class Kept:
    """Chooses what a reader keeps of one log's cosignatures, whatever anybody publishes: what says more than the same witness
    has said before, of the witnesses that it knows and of the first others.

    known: their keys. Without the log's own signature on a checkpoint, give it nothing of others.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = frozenset(known)
        self._others: set[str] = set()
        self._sizes: dict[tuple[str, str, str], int] = {}

    def knows(self, witness: str) -> bool:
        """Whether it is one of them."""
        return witness in self._known or witness in self._others

    def add(self, kind: str, witness: str, origin: str, size: int) -> bool:
        """Whether to keep this message, which the witness has signed. kind: its name. size: of what it has cosigned."""
        if not self.knows(witness):
            if kind != CheckpointCosigned.__name__ or len(self._others) >= MAX_WITNESSES:
                return False
            self._others.add(witness)
        if self.size(kind, witness, origin) >= size:
            return False
        self._sizes[kind, witness, origin] = size
        return True

    def size(self, kind: str, witness: str, origin: str) -> int:
        """The most records that this witness has said so of; -1: it has said nothing."""
        return self._sizes.get((kind, witness, origin), -1)
