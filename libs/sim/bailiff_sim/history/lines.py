"""Reads text files line by line, gzipped or not, with their line numbers."""

import gzip
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

GZIP = b"\x1f\x8b"


def text_of(path: Path) -> TextIOWrapper:
    """The file as text; bytes that are no UTF-8 become a replacement character. Raises `ValueError`."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP
        raw = gzip.open(path) if zipped else path.open("rb")  # noqa: SIM115 - closed with the text
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None
    return TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline=None)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line without its end, numbered from 1. Raises `ValueError`."""
    with text_of(path) as lines:
        try:
            for number, line in enumerate(lines, 1):
                yield number, line.rstrip("\n")
        except (OSError, EOFError) as error:
            raise ValueError(f"{path}: cannot be read: {error}") from None
