"""The checkpoint from which a task can resume: the newest one that its job has committed in this node's file system.

A checkpoint is `attempt-NNNN/step-NNNNNNNN[.rank-NNNN]` with a `manifest.json`; its content is verified when it is restored.
"""

import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ATTEMPT = re.compile(r"attempt-(\d{4,9})")
STEP = re.compile(r"step-(\d{8,16})(?:\.rank-(\d{4,9}))?")
MAX_MANIFEST_BYTES = 1 << 20
IDENTITY = ".bailiff-checkpoints"


def shared_identity(folder: Path) -> str:
    """Identifies a folder that several nodes share: written once, by the first agent."""
    own, name = folder / f".bailiff-{secrets.token_hex(8)}", folder / IDENTITY
    if not name.exists():
        own.write_text(secrets.token_hex(16))
        own.chmod(0o644)
        with suppress(OSError):  # another agent was first, or this file system has no hard links
            name.hardlink_to(own)
        if name.exists():
            own.unlink()
        else:
            own.replace(name)
    return name.read_text().strip()


def newest(folder: Path, rank: int) -> Path | None:
    """The committed checkpoint of the highest attempt and step for this rank; for a gang, one at an agreed step."""
    return next((path for path in _candidates(folder, rank) if _is_committed(path)), None)


def _candidates(folder: Path, rank: int) -> Iterator[Path]:
    found = []
    for attempt, path in _named(folder, ATTEMPT):
        for step, saved in _named(path, STEP):
            if step[2] is None or int(step[2]) == rank:
                found.append((int(attempt[1]), int(step[1]), step[2] is not None, saved))
    return (path for *_, path in sorted(found, reverse=True))


def _named(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Path]]:
    try:
        paths = [*folder.iterdir()]
    except OSError:
        return
    for path in paths:
        match = pattern.fullmatch(path.name)
        if match is not None:
            yield match, path


def _is_committed(path: Path) -> bool:
    """The job's user may have put anything in its place: only a regular file counts."""
    try:
        handle = os.open(path / "manifest.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            manifest: Any = json.loads(file.read(MAX_MANIFEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and (manifest.get("agreed") is True or manifest.get("world_size") == 1)
