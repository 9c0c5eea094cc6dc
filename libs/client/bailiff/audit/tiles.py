"""The sealed log as C2SP tlog-tiles: a folder that any client of transparency logs reads, below an address or as files.

An entry is the hash of a record (32 bytes), since a record may be longer than an entry bundle allows. Bailiff's Merkle leaves are
RFC 6962 leaves of these hashes, so the tree is that of the seals, and `checkpoint` is the newest seal's, with its cosignatures.

Full tiles never change. What is there already is compared, not written; a partial tile is removed once a checkpoint is over the
full one. The checkpoint is written last: a run that is interrupted leaves the folder as it was, with tiles for the next one.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bailiff.client import safe_write
from bailiff.client.errors import CheckFailed, NotAsSealed, UsageError
from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed
from bailiff_bus.port import Message
from bailiff_core.records.merkle import leaf_hash, root_of
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.checkpoints import Checkpoint, log_key
from bailiff_log.signed_notes import Note, NoteError

WIDTH = 256  # hashes in a full tile
CHECKPOINT, KEY = "checkpoint", "key"
LENGTH_BYTES = 2


@dataclass
class TilesWritten:
    """What an export wrote.

    Attributes:
        before: Records that the folder had already.
    """

    records: int
    before: int
    files: int


def tile_path(level: int | str, index: int, width: int) -> str:
    """`tile/0/x001/234`, and `tile/0/x001/234.p/17` for a partial tile of 17 hashes.

    Args:
        level: `entries` for a bundle of entries.
    """
    digits = f"{index:03d}" if index < 1000 else f"{index:0{-(-len(str(index)) // 3) * 3}d}"
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    name = "/".join([*(f"x{each}" for each in groups[:-1]), groups[-1]])
    return f"tile/{level}/{name}" + (f".p/{width}" if width < WIDTH else "")


@dataclass
class _Tree:
    """Makes the tiles of a log, leaf by leaf.

    Attributes:
        entries: Of the bundle that is not full.
        levels: Hashes of the tile of each level that is not full.
    """

    size: int = 0
    entries: list[bytes] = field(default_factory=list)
    levels: list[list[bytes]] = field(default_factory=list)
    _full: list[int] = field(default_factory=list)

    def add(self, entry: bytes) -> Iterator[tuple[str, bytes]]:
        """The next entry; path and content of each tile that it fills."""
        self.size += 1
        self.entries.append(entry)
        if len(self.entries) == WIDTH:
            yield tile_path("entries", self.size // WIDTH - 1, WIDTH), _bundle(self.entries)
            self.entries = []
        level, found = 0, leaf_hash(entry)
        while True:
            if level == len(self.levels):
                self.levels.append([])
                self._full.append(0)
            tile = self.levels[level]
            tile.append(found)
            if len(tile) < WIDTH:
                return
            yield tile_path(level, self._full[level], WIDTH), b"".join(tile)
            found = root_of(tile)
            self.levels[level], self._full[level], level = [], self._full[level] + 1, level + 1

    def partial(self) -> Iterator[tuple[str, bytes]]:
        """The tiles that are not full."""
        if self.entries:
            yield tile_path("entries", self.size // WIDTH, len(self.entries)), _bundle(self.entries)
        for level, tile in enumerate(self.levels):
            if tile:
                yield tile_path(level, self._full[level], len(tile)), b"".join(tile)


def _bundle(entries: Sequence[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(LENGTH_BYTES, "big") + each for each in entries)


async def write_tiles(
    folder: Path, pool: str, messages: AsyncIterator[Message], seal: LogSealed, cosignatures: Sequence[CheckpointCosigned] = ()
) -> TilesWritten:
    """Writes the records under this seal, of a log that is read from its first record.

    Raises:
        ClientError: The folder holds another log or a longer one, the log is not the sealed one, or a file cannot be written.
    """
    before = _size_of(folder, seal)
    verifier, tree, files = ChainVerifier(pool), _Tree(), 0
    async for message in messages:
        if verifier.verify(message) is None:
            continue
        for path, content in tree.add(bytes.fromhex(verifier.head.hash)):
            files += _put(folder / path, content)
        if tree.size == seal.size:
            break
    partial = dict(tree.partial())
    if tree.size != seal.size or _root(tree) != seal.root:
        raise NotAsSealed(seal.size)
    for path, content in partial.items():
        files += _put(folder / path, content)
    note = Note.parse(seal.checkpoint)
    files += _put(folder / KEY, f"{log_key(note.text.partition(chr(10))[0], seal.key)}\n".encode(), replace=True)
    files += _put(folder / CHECKPOINT, str(_cosigned(note, cosignatures)).encode(), replace=True)
    _remove_partial(folder, {folder / path for path in partial})
    return TilesWritten(seal.size, before, files)


def _root(tree: _Tree) -> str:
    """The root over all leaves: each level's unfinished tile is followed by what is below it."""
    found: list[bytes] = []
    for tile in tree.levels:
        found = [*tile, *([root_of(found)] if found else [])]
    return root_of(found).hex()


def _size_of(folder: Path, seal: LogSealed) -> int:
    """How many records the folder has; it must be the beginning of the same log."""
    try:
        there = Checkpoint.parse(Note.parse((folder / CHECKPOINT).read_text(encoding="utf-8")).text)
    except FileNotFoundError:
        return 0
    except (OSError, UnicodeDecodeError, NoteError) as error:
        raise UsageError(f"{folder / CHECKPOINT}: cannot be read: {error}") from None
    origin = seal.checkpoint.partition("\n")[0]
    if there.origin != origin:
        raise UsageError(f"{folder} has the tiles of {there.origin}, not of {origin}", "use another folder")
    if there.size > seal.size:
        text = f"{folder} has {there.size} records, but the newest seal is over {seal.size}: the log was cut, or is an older copy"
        raise CheckFailed(text, "see: bailiff audit verify")
    return there.size


def _put(path: Path, content: bytes, *, replace: bool = False) -> bool:
    """Writes the file beside and renames it; whether it was written. A tile that is there must be the same."""
    try:
        there = path.read_bytes()
    except OSError:
        there = None
    if there == content:
        return False
    if there is not None and not replace:
        text = f"{path} has other hashes than the log: one of them was changed"
        raise CheckFailed(text, "see: bailiff audit verify; a new folder is written anew")
    safe_write.put(path, content)
    return True


def _cosigned(note: Note, cosignatures: Sequence[CheckpointCosigned]) -> Note:
    """The checkpoint with the signatures of its witnesses."""
    signatures = list(note.signatures)
    for each in cosignatures:
        try:
            other = Note.parse(each.checkpoint)
        except NoteError:
            continue
        if other.text == note.text:
            signatures += [each for each in other.signatures if each not in signatures]
    return Note(note.text, tuple(signatures))


def _remove_partial(folder: Path, kept: set[Path]) -> None:
    """Removes partial tiles of earlier checkpoints."""
    for path in folder.glob("tile/**/*.p/*"):
        if path not in kept:
            path.unlink()
    for path in folder.glob("tile/**/*.p"):
        if not any(path.iterdir()):
            path.rmdir()
