"""Files that a command writes."""

from pathlib import Path

from .problem import ExitCode, Problem


def put(path: Path, raw: bytes) -> None:
    """There whole or not at all: written beside its place and moved there. Raises `Problem`."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(raw)
        draft.replace(path)
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None


def check(*paths: Path | None) -> None:
    """Whether there is a place for each, before long work is done for it. Raises `Problem`."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise Problem(ExitCode.USAGE, f"{path}: cannot be written: there is no folder {path.parent}")
        if path is not None and path.is_dir():
            raise Problem(ExitCode.USAGE, f"{path}: cannot be written: it is a folder")


def write(path: Path, text: str) -> None:
    """Where somebody asked for it, which may be a device or a pipe. Raises `Problem`."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None
