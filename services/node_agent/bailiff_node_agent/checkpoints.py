"""The checkpoint from which a task can resume: the newest one that its job has committed in this node's file system.

A checkpoint is `attempt-NNNN/step-NNNNNNNN[.rank-NNNN]` with a `manifest.json`; its content is verified when it is restored.
The folder is the job's, which may have put anything there: what is read is bounded, and no link is followed.
"""

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from bailiff_service.logs import logger

from .runtime.supervisor import safe_open

ATTEMPT = re.compile(r"attempt-(\d{4,9})")
STEP = re.compile(r"step-(\d{8,16})(?:\.rank-(\d{4,9}))?")
MAX_ENTRIES, MAX_MANIFESTS, MAX_MANIFEST_BYTES = 100_000, 1_000, 1 << 20
MAX_BYTES = 32 * MAX_MANIFEST_BYTES
"""Of all manifests that are read for one start."""
IDENTITY = re.compile(r"[0-9a-f]{32}")
IDENTITY_FILE = ".bailiff-checkpoints"


def shared_identity(folder: Path) -> str | None:
    """Identifies a folder that several nodes share: written once, by the first agent.

    None where somebody has put something else in its place: then no other node's checkpoints are expected in it.
    """
    folder = folder.resolve()
    own, name = folder / f".bailiff-{secrets.token_hex(8)}", folder / IDENTITY_FILE
    if not safe_open.exists(str(folder), IDENTITY_FILE):
        own.write_text(secrets.token_hex(16))
        own.chmod(0o644)
        with suppress(OSError):  # another agent was first, or this file system has no hard links
            name.hardlink_to(own)
        if safe_open.exists(str(folder), IDENTITY_FILE):
            own.unlink()
        else:
            own.replace(name)
    try:
        found = safe_open.read(str(folder), IDENTITY_FILE, 64).decode("ascii", "replace").strip()
    except OSError as problem:
        found = str(problem)
    if IDENTITY.fullmatch(found):
        return found
    logger().error("shared checkpoints have no identity: each node expects only its own there", file=str(name), found=found)
    return None


def newest(folder: Path, rank: int) -> tuple[Path | None, int]:
    """The committed checkpoint of the highest attempt and step for this rank; for a gang, one at an agreed step.

    With it, how many newer ones cannot be read: a checkpoint gets its name only once it is whole.

    Call it off the event loop: it may look at many files. What is beyond the limits counts as not there.
    """
    left, damaged = MAX_BYTES, 0
    for name in islice(_candidates(folder, rank), MAX_MANIFESTS):
        try:
            content = safe_open.read(str(folder), f"{name}/manifest.json", min(left, MAX_MANIFEST_BYTES))
        except OSError:
            damaged += 1
            continue
        left -= len(content)
        manifest = _manifest(content)
        if manifest is None:
            damaged += 1
        elif manifest.get("agreed") is True or manifest.get("world_size") == 1:
            return folder / name, damaged
    return None, damaged


def _candidates(folder: Path, rank: int) -> Iterator[str]:
    """Relative to the folder, the newest first."""
    try:
        outer = safe_open.open_folder(str(folder))
    except OSError:
        return
    try:
        left, attempts = _named(outer, ATTEMPT, MAX_ENTRIES)
        for attempt in sorted(attempts, key=lambda match: int(match[1]), reverse=True):
            try:
                inner = safe_open.open_folder(attempt[0], outer)
            except OSError:
                continue
            try:
                left, steps = _named(inner, STEP, left)
            finally:
                os.close(inner)
            own = [step for step in steps if step[2] is None or int(step[2]) == rank]
            for step in sorted(own, key=lambda match: (int(match[1]), match[2] is not None), reverse=True):
                yield f"{attempt[0]}/{step[0]}"
    finally:
        os.close(outer)


def _named(handle: int, pattern: re.Pattern[str], most: int) -> tuple[int, list[re.Match[str]]]:
    """The entries of a folder with such a name; first, how many more entries may be looked at."""
    with os.scandir(handle) as entries:
        names = [entry.name for entry in islice(entries, most)]
    return most - len(names), [match for name in names if (match := pattern.fullmatch(name)) is not None]


def _manifest(content: bytes) -> dict[str, Any] | None:
    try:
        manifest: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None
