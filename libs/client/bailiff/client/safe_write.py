"""Writes the files of commands, with errors as `ClientError`: beside the final name, then renamed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bailiff_log import file_writing

from .errors import ClientError, UsageError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, which replaces `path` at the end of the block, or leaves nothing.

    Raises:
        ClientError: It cannot be written; also for a folder, a device or a pipe.
    """
    try:
        with file_writing.replacing(path) as file:
            yield file
    except OSError as error:
        raise _unwritable(path, error) from None


def write(path: Path, content: bytes | str) -> None:
    """Writes a whole file. As `replacing`."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def put(path: Path, raw: bytes) -> None:
    """Writes a whole file, and makes its folder. As `replacing`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None
    write(path, raw)


def check(*paths: Path | None) -> None:
    """Checks before a long computation that each file can be written. Raises `ClientError`."""
    for path in paths:
        if path is None:
            continue
        if not path.parent.is_dir():
            raise UsageError(f"{path}: cannot be written: no such folder: {path.parent}")
        try:
            file_writing.check_replaceable(path)
        except OSError as error:
            raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> ClientError:
    text = "is a folder" if isinstance(error, IsADirectoryError) else error.strerror or str(error)
    return UsageError(f"{path}: cannot be written: {text}")
