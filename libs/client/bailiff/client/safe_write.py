"""Writes files, with errors as `ClientError`: atomic, or to a device or pipe."""

from pathlib import Path

from .errors import ClientError, ExitCode


def put(path: Path, raw: bytes) -> None:
    """Writes the file atomically: to a temporary name, then renames it. Raises `ClientError`."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(raw)
        draft.replace(path)
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None


def check(*paths: Path | None) -> None:
    """Checks before a long computation that each file can be written. Raises `ClientError`."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise ClientError(ExitCode.USAGE, f"{path}: cannot be written: no such folder: {path.parent}")
        if path is not None and path.is_dir():
            raise ClientError(ExitCode.USAGE, f"{path}: cannot be written: is a folder")


def write(path: Path, text: str) -> None:
    """Writes to a path that may be a device or a pipe. Raises `ClientError`."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None
