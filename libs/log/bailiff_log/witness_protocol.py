"""The body of `add-checkpoint` (C2SP tlog-witness): a checkpoint, and the proof that it continues an earlier one."""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from .checkpoints import MAX_SIZE
from .signed_notes import MAX_NOTE, NoteError

MAX_PROOF = 63
MAX_BODY = MAX_NOTE + 64 * (MAX_PROOF + 1)  # bytes
SIZE_TYPE = "text/x.tlog.size"
_OLD = re.compile(r"old (0|[1-9][0-9]{0,15})")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request. old_size: where the proof begins. checkpoint: a note."""

    old_size: int
    proof: Sequence[bytes]
    checkpoint: str

    def __bytes__(self) -> bytes:
        lines = [f"old {self.old_size}", *(base64.b64encode(each).decode() for each in self.proof), "", self.checkpoint]
        return "\n".join(lines).encode()

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """The request in this body. Raises `NoteError`."""
        try:
            head, _, checkpoint = body.decode().partition("\n\n")
            old, *hashes = head.split("\n")
            proof = [base64.b64decode(each, validate=True) for each in hashes]
        except (UnicodeDecodeError, binascii.Error, ValueError):
            raise NoteError("not UTF-8, or a line of the proof is not base64") from None
        found = _OLD.fullmatch(old)
        if found is None or int(found[1]) > MAX_SIZE or len(proof) > MAX_PROOF or any(len(each) != 32 for each in proof):
            raise NoteError(f"expected `old SIZE`, at most {MAX_PROOF} hashes, an empty line, and a checkpoint")
        return cls(int(found[1]), proof, checkpoint)
