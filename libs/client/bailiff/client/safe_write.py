"""Writing files."""

from pathlib import Path

from .errors import ExitCode, Problem


def put(path: Path, raw: bytes) -> None:
    """Write the file atomically: to a temporary name, then renamed. Raises `Problem`."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(raw)
        draft.replace(path)
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None


def check(*paths: Path | None) -> None:
    """Check before long work that each file can be written. Raises `Problem`."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise Problem(ExitCode.USAGE, f"{path}: cannot be written: no such folder: {path.parent}")
        if path is not None and path.is_dir():
            raise Problem(ExitCode.USAGE, f"{path}: cannot be written: is a folder")


def write(path: Path, text: str) -> None:
    """Write to a path that may be a device or a pipe. Raises `Problem`."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None
