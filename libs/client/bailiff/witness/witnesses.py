"""What the follower of the seals brings checkpoints to: this process's own witness, and others over HTTP."""

import asyncio
import http.client
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self
from urllib.parse import urlsplit

from bailiff_log.checkpoints import cosigned_at
from bailiff_log.cosigner import Cosigner, Refusal, Refused, origin_hash
from bailiff_log.signed_notes import KeyKind, Note, NoteError, NoteKey, parse_signatures
from bailiff_log.witness_protocol import SIZE_TYPE, AddCheckpoint

TIMEOUT_S = 10.0
MAX_ANSWER = 64 * 1024


class Unreachable(Exception):
    """A witness did not answer, or cannot answer now."""


class Witness(Protocol):
    """Cosigns checkpoints that continue those before."""

    @property
    def key(self) -> NoteKey:
        """Its public key."""
        ...

    def size(self, origin: str) -> int:
        """Size of the newest checkpoint that it cosigned, as far as known; 0 for none."""
        ...

    async def add_checkpoint(self, checkpoint: str, log_keys: Sequence[NoteKey], old_size: int, proof: Sequence[bytes]) -> Note:
        """The checkpoint with its cosignature. Raises `Refused`, `Unreachable`; after STALE, `size` is its size."""
        ...


class OwnWitness:
    """The witness of this process."""

    def __init__(self, cosigner: Cosigner) -> None:
        self._cosigner = cosigner

    @property
    def key(self) -> NoteKey:
        """Its public key."""
        return self._cosigner.key

    def size(self, origin: str) -> int:
        """Size of the newest checkpoint that it cosigned; 0 for none."""
        return self._cosigner.size(origin)

    async def add_checkpoint(self, checkpoint: str, log_keys: Sequence[NoteKey], old_size: int, proof: Sequence[bytes]) -> Note:
        """The checkpoint with its cosignature. Raises `Refused`."""
        return self._cosigner.add_checkpoint(checkpoint, log_keys, old_size, proof)


@dataclass(frozen=True, slots=True)
class WitnessAddress:
    """A witness's key and address.

    Attributes:
        url: Where it answers over HTTP; empty if unknown.
    """

    key: NoteKey
    url: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `VKEY` or `VKEY URL`. Raises `NoteError`."""
        vkey, _, url = text.strip().partition(" ")
        url = url.strip().rstrip("/")
        if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
            raise NoteError(f"{url!r} is not an http or https URL")
        return cls(NoteKey.parse(vkey, KeyKind.COSIGNATURE), url)


class HttpWitness:
    """Another witness (C2SP tlog-witness)."""

    def __init__(self, address: WitnessAddress) -> None:
        self._address = address
        self._sizes: dict[str, int] = {}

    @property
    def key(self) -> NoteKey:
        """Its public key."""
        return self._address.key

    def size(self, origin: str) -> int:
        """Size of the newest checkpoint that it cosigned, as it said; 0 before it said so."""
        return self._sizes.get(origin, 0)

    async def add_checkpoint(
        self,
        checkpoint: str,
        log_keys: Sequence[NoteKey],  # noqa: ARG002 - it has its own list
        old_size: int,
        proof: Sequence[bytes],
    ) -> Note:
        """The checkpoint with its cosignature. Raises `Refused`, `Unreachable`."""
        body = bytes(AddCheckpoint(old_size, proof, checkpoint))
        status, kind, answer = await asyncio.to_thread(request, "POST", f"{self._address.url}/add-checkpoint", body)
        note = Note.parse(checkpoint)
        origin, size = note.text.split("\n")[:2]
        if status == 409 and kind.startswith(SIZE_TYPE) and answer.strip().isdecimal() and len(answer) < 20:
            self._sizes[origin] = int(answer)
            raise Refused(Refusal.STALE, f"it has cosigned {int(answer)} records", int(answer))
        if status == 429 or status >= 500:
            raise Unreachable(f"HTTP status {status}")
        if status != 200:
            why = {403: Refusal.NOT_SIGNED, 404: Refusal.NOT_SIGNED, 400: Refusal.MALFORMED}.get(status, Refusal.INCONSISTENT)
            raise Refused(why, f"HTTP status {status}: {REASONS.get(status, 'refused')}", self.size(origin))
        try:
            signatures = [each for each in parse_signatures(answer) if each.names(self.key)]
            cosigned = note.with_signatures(signatures)
            if cosigned_at(cosigned, self.key) is None:
                raise NoteError(f"the answer has no cosignature of {self.key.name}")
        except NoteError as error:
            raise Refused(Refusal.MALFORMED, str(error)) from None
        self._sizes[origin] = int(size)
        return cosigned


REASONS = {
    400: "it takes the request for malformed",
    403: "it does not accept the log's key",
    404: "it does not know the log; its operator adds the log's key",
    409: "it has cosigned another root of this size",
    422: "the checkpoint does not continue the one that it cosigned",
}


def newest_of(address: WitnessAddress, origin: str) -> Note | None:
    """The newest checkpoint that this witness has cosigned of a log, from its HTTP interface; None for none.

    Nothing is verified. Raises `Unreachable`, `NoteError`.
    """
    status, _, answer = request("GET", f"{address.url}/{origin_hash(origin)}/checkpoint")
    if status == 404:
        return None
    if status != 200:
        raise Unreachable(f"HTTP status {status}")
    return Note.parse(answer)


def request(method: str, url: str, body: bytes | None = None) -> tuple[int, str, str]:
    """Status, content type and text (at most `MAX_ANSWER` bytes). Redirects are not followed. Raises `Unreachable`."""
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=TIMEOUT_S, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request(method, parts.path or "/", body, {"content-type": "text/plain"} if body is not None else {})
        answer = connection.getresponse()
        text = answer.read(MAX_ANSWER).decode()
        return answer.status, answer.getheader("content-type", ""), text
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None
    finally:
        connection.close()
