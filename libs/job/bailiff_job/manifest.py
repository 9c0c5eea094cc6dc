"""`manifest.json`: the content of one rank's checkpoint. It is written last, so a checkpoint that has one is complete."""

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


class DamagedCheckpoint(Exception):
    """A checkpoint differs from its manifest. The message has the difference."""


@dataclass(frozen=True)
class File:
    """One file of a checkpoint: its path below the folder with `/` between the parts, its size, its SHA-256 in hex."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The manifest of a checkpoint.

    Attributes:
        agreed: All ranks of the gang agreed to checkpoint this step.
        microseconds: Duration of the write.
    """

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
        """The file's content."""
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
    """Names of all files below the folder, sorted.

    Raises:
        ValueError: The folder contains something else than files and folders, such as a link.
    """
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(parent, name)
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise ValueError(f"{path.relative_to(folder)} is neither a file nor a folder; a checkpoint can hold nothing else")
        found += [Path(parent, name).relative_to(folder).as_posix() for name in files]
    return sorted(found)


def read_manifest(folder: Path) -> Manifest:
    """The manifest in the folder.

    Raises:
        DamagedCheckpoint: It is missing, not readable, or of another version.
    """
    try:
        data: Any = json.loads((folder / NAME).read_bytes())
        if data["v"] != VERSION:
            raise DamagedCheckpoint(f"its manifest has version {data['v']!r}; this release supports {VERSION}")
        files = tuple(File(str(file["name"]), int(file["bytes"]), str(file["sha256"])) for file in data["files"])
        numbers = {name: int(data[name]) for name in ("attempt", "rank", "world_size", "step", "microseconds")}
        return Manifest(job=str(data["job"]), agreed=data["agreed"] is True, files=files, **numbers)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise DamagedCheckpoint(f"its manifest cannot be read: {type(problem).__name__}: {problem}") from None


def verify(folder: Path, manifest: Manifest) -> None:
    """Read every file.

    Raises:
        DamagedCheckpoint: A file is missing, or differs in size or content.
    """
    for file in manifest.files:
        if ".." in Path(file.name).parts or Path(file.name).is_absolute():
            raise DamagedCheckpoint(f"its manifest lists a file outside of its folder, {file.name!r}")
        try:
            size = (folder / file.name).stat().st_size
        except OSError as problem:
            raise DamagedCheckpoint(f"{file.name} cannot be read: {problem.strerror or problem}") from None
        if size != file.bytes:
            raise DamagedCheckpoint(f"{file.name} has {size} bytes instead of {file.bytes}")
    with ThreadPoolExecutor(HASHERS, thread_name_prefix="bailiff-job-hash") as pool:
        digests = pool.map(_digest_or_damaged, [folder / file.name for file in manifest.files])
        for file, found in zip(manifest.files, digests):
            if found != file.sha256:
                raise DamagedCheckpoint(f"{file.name} has changed: its SHA-256 differs")


def _digest_or_damaged(path: Path) -> str:
    try:
        return digest(path)
    except OSError as problem:
        raise DamagedCheckpoint(f"{path.name} cannot be read: {problem.strerror or problem}") from None
