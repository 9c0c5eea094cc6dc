"""Files that are there whole or not at all."""

from pathlib import Path

from .problem import ExitCode, Problem


def put(path: Path, raw: bytes) -> None:
    """Write it beside its place and move it there. Raises `Problem`."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(raw)
        draft.replace(path)
    except OSError as error:
        raise Problem(ExitCode.USAGE, f"{path}: cannot be written: {error.strerror}") from None
