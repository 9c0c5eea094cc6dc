"""A witness's memory and key: cosigns a checkpoint only if it continues the newest one that it cosigned of that log.

The newest cosigned checkpoint of each log is a file, written before the cosignature leaves this module; it never goes back.
The rules are those of C2SP tlog-witness.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path

from bailiff_core.records.merkle import EMPTY, consistent

from .checkpoints import Checkpoint, checkpoint_signed_by, cosign
from .file_writing import replacing
from .signed_notes import Note, NoteError, NoteKey

SUFFIX = ".note"


class Refusal(Enum):
    """Why a checkpoint is not cosigned."""

    MALFORMED = "malformed"
    NOT_SIGNED = "not signed by the log"
    STALE = "the proof begins elsewhere"
    INCONSISTENT = "inconsistent"


class Refused(Exception):
    """A checkpoint is not cosigned. size: of the newest one that was cosigned, 0 for none."""

    def __init__(self, why: Refusal, text: str, size: int = 0) -> None:
        super().__init__(text)
        self.why, self.size = why, size


class MemoryUnusable(Exception):
    """The folder cannot be used: in use by another process, unreadable, or full. The text says which."""


def origin_hash(origin: str) -> str:
    """SHA-256 of the origin, in hex: the name of a log's file, and of its checkpoint over HTTP."""
    return hashlib.sha256(origin.encode()).hexdigest()


class Cosigner:
    """One witness. folder: its memory, locked for this process. wall: µs UTC. Raises `MemoryUnusable`."""

    def __init__(self, folder: Path, key: NoteKey, private: bytes, wall: Callable[[], int]) -> None:
        self.key, self._private, self._folder, self._wall = key, private, folder, wall
        self._lock = _locked(folder)
        try:
            self._newest = dict(map(self._read, sorted(folder.glob(f"*{SUFFIX}"))))
        except (MemoryUnusable, OSError) as error:
            self.close()
            raise error if isinstance(error, MemoryUnusable) else MemoryUnusable(f"{folder}: {error.strerror}") from None

    def close(self) -> None:
        """Unlock the folder."""
        os.close(self._lock)

    @property
    def logs(self) -> Iterable[str]:
        """The origins of the logs that were cosigned."""
        return self._newest.keys()

    def newest(self, origin: str) -> Note | None:
        """The newest cosigned checkpoint of a log, with the cosignature."""
        found = self._newest.get(origin)
        return found[0] if found is not None else None

    def newest_by_hash(self, name: str) -> Note | None:
        """As `newest`, by `origin_hash`."""
        return next((note for origin, (note, _) in self._newest.items() if origin_hash(origin) == name), None)

    def size(self, origin: str) -> int:
        """Size of the newest cosigned checkpoint of a log; 0 for none."""
        found = self._newest.get(origin)
        return found[1].size if found is not None else 0

    def root(self, origin: str) -> bytes:
        """Root of the newest cosigned checkpoint of a log; empty for none."""
        found = self._newest.get(origin)
        return found[1].root if found is not None else b""

    def add_checkpoint(self, text: str, log_keys: Sequence[NoteKey], old_size: int, proof: Sequence[bytes]) -> Note:
        """The checkpoint with the cosignature, which is on disk. Raises `Refused`, `MemoryUnusable`.

        log_keys: keys of this log. proof: consistency proof from the tree of `old_size` to the checkpoint's. Of a log without a
        cosigned checkpoint the first one is believed.
        """
        try:
            note, checkpoint = checkpoint_signed_by(text, log_keys)
        except NoteError as error:
            raise Refused(Refusal.NOT_SIGNED, str(error)) from None
        self._check(checkpoint, old_size, proof)
        cosigned = Note(note.text, tuple(each for each in note.signatures if any(map(each.names, log_keys))))
        cosigned = cosigned.with_signatures([cosign(note.text, self.key, self._private, self._wall() // 1_000_000)])
        self._write(checkpoint.origin, str(cosigned))
        self._newest[checkpoint.origin] = cosigned, checkpoint
        return cosigned

    def _check(self, new: Checkpoint, old_size: int, proof: Sequence[bytes]) -> None:
        size, root = self.size(new.origin), self.root(new.origin)
        if old_size > new.size:
            raise Refused(Refusal.MALFORMED, f"the proof begins at {old_size}, after the checkpoint's {new.size}", size)
        if old_size != size:
            raise Refused(Refusal.STALE, f"the newest cosigned checkpoint is over {size} records, not {old_size}", size)
        if size:
            continues = consistent(size, new.size, proof, root, new.root)
        else:
            continues = not proof and (new.size > 0 or new.root == EMPTY)
        if not continues:
            text = f"the checkpoint over {new.size} records does not continue the cosigned one over {size}"
            raise Refused(Refusal.INCONSISTENT, text, size)

    def _read(self, path: Path) -> tuple[str, tuple[Note, Checkpoint]]:
        try:
            note = Note.parse(path.read_text(encoding="utf-8"))
            checkpoint = Checkpoint.parse(note.text)
        except ValueError as error:
            raise MemoryUnusable(f"{path}: {error}") from None
        if path.name != origin_hash(checkpoint.origin) + SUFFIX:
            raise MemoryUnusable(f"{path}: contains a checkpoint of another log")
        return checkpoint.origin, (note, checkpoint)

    def _write(self, origin: str, text: str) -> None:
        path = self._folder / f"{origin_hash(origin)}{SUFFIX}"
        try:
            with replacing(path) as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise MemoryUnusable(f"{path}: cannot be written: {error.strerror}") from None


def _locked(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise MemoryUnusable(f"{folder}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise MemoryUnusable(f"{folder}: another witness is running with this folder") from None
    return lock
