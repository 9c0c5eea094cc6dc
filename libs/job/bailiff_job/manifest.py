"""`manifest.json`: what one rank's checkpoint holds, written last, so that what has one is whole."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NAME = "manifest.json"
VERSION = 1
READ_BYTES = 4 << 20
HASHERS = min(8, os.cpu_count() or 1)


class Damaged(Exception):
    """A checkpoint is not what its manifest says. The message says what differs."""


@dataclass(frozen=True)
class File:
    """One file of a checkpoint: its path below the folder with `/` between the parts, its size, its SHA-256 in hex."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """agreed: all ranks of the gang were to save this very step. microseconds: what saving took."""

    job: str
    attempt: int
    rank: int
    world_size: int
    step: int
    agreed: bool
    files: tuple[File, ...]
    microseconds: int

    @property
    def size(self) -> int:
        """Bytes of all files together, the manifest not counted."""
        return sum(file.bytes for file in self.files)

    def to_bytes(self) -> bytes:
        """As it stands on disk."""
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1).encode() + b"\n"


def digest(path: Path) -> str:
    """SHA-256 of a file in hex."""
    hashed = hashlib.sha256()
    buffer = memoryview(bytearray(READ_BYTES))
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer):
            hashed.update(buffer[:got])
    return hashed.hexdigest()


def names_in(folder: Path) -> list[str]:
    """Every file below the folder, in order. Raises `ValueError` for what is neither a file nor a folder, as links are."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise ValueError(f"{path.relative_to(folder)} is neither a file nor a folder; a checkpoint holds nothing else")
        found += [Path(place, name).relative_to(folder).as_posix() for name in files]
    return sorted(found)


def read_manifest(folder: Path) -> Manifest:
    """What the folder says that it holds. Raises `Damaged` where it says nothing sensible."""
    try:
        data: Any = json.loads((folder / NAME).read_bytes())
        if data["v"] != VERSION:
            raise Damaged(f"its manifest is of version {data['v']!r}, and this release knows {VERSION}")
        files = tuple(File(str(file["name"]), int(file["bytes"]), str(file["sha256"])) for file in data["files"])
        numbers = {name: int(data[name]) for name in ("attempt", "rank", "world_size", "step", "microseconds")}
        return Manifest(job=str(data["job"]), agreed=data["agreed"] is True, files=files, **numbers)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Damaged(f"its manifest cannot be read: {type(problem).__name__}: {problem}") from None


def verify(folder: Path, manifest: Manifest) -> None:
    """Read every file. Raises `Damaged` for the first one that is missing, of another size or of another content."""
    for file in manifest.files:
        if ".." in Path(file.name).parts or Path(file.name).is_absolute():
            raise Damaged(f"its manifest names a file outside of it, {file.name!r}")
        try:
            size = (folder / file.name).stat().st_size
        except OSError as problem:
            raise Damaged(f"{file.name} cannot be read: {problem.strerror or problem}") from None
        if size != file.bytes:
            raise Damaged(f"{file.name} has {size} bytes, and {file.bytes} were saved")
    with ThreadPoolExecutor(HASHERS, thread_name_prefix="bailiff-job-hash") as pool:
        digests = pool.map(_digest_or_damaged, [folder / file.name for file in manifest.files])
        for file, found in zip(manifest.files, digests):
            if found != file.sha256:
                raise Damaged(f"{file.name} is not what was saved: its SHA-256 differs")


def _digest_or_damaged(path: Path) -> str:
    try:
        return digest(path)
    except OSError as problem:
        raise Damaged(f"{path.name} cannot be read: {problem.strerror or problem}") from None
