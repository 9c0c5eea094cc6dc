"""Writes files: beside the final name, then renamed, so that a reader finds the old file or the new one, and never a part."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, mode: int = 0o666, only_new: bool = False) -> Iterator[BinaryIO]:
    """A new file, which replaces `path` at the end of the block. Where the block fails, or the disk is full, it is removed.

    Args:
        mode: As far as the umask permits.
        only_new: Keep a file that exists.

    Raises:
        OSError: It cannot be written, or `path` is a folder, a device or a pipe; `FileExistsError` with `only_new`.
    """
    check_replaceable(path)
    draft = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.draft")
    # A link that somebody has put there is not followed.
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        if only_new:
            os.link(draft, path)
        else:
            draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write(path: Path, content: bytes | str, *, mode: int = 0o666, only_new: bool = False) -> None:
    """Writes a whole file. As `replacing`."""
    with replacing(path, mode=mode, only_new=only_new) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check_replaceable(path: Path) -> None:
    """Raises `OSError` for what is there and no file: to rename over a device would remove it."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, not a file", str(path))
