"""Reads text files line by line, gzipped or not, with their line numbers."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Literal

GZIP = b"\x1f\x8b"
MAX_EXPANSION = 100
"""What a gzipped file may expand to, times its size: records of jobs expand 5- to 40-fold, a gzip bomb 1,000-fold."""
FREE_BYTES = 64 * 1024 * 1024
"""A file that expands to less may do so as much as it likes."""


class _Unzipped(io.RawIOBase):
    """The content of a gzipped file, within `MAX_EXPANSION`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._content, self._read = file, gzip.GzipFile(fileobj=file), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        """Raises `OSError` where the file is damaged, or expands too much."""
        try:
            found = self._content.read1(len(buffer))
        except (zlib.error, EOFError) as error:
            raise OSError(f"it is damaged or truncated: {error}") from None
        self._read += len(found)
        if self._read > FREE_BYTES and self._read > MAX_EXPANSION * self._file.tell():
            raise OSError(f"it expands more than {MAX_EXPANSION}-fold, as no record of jobs does: a gzip bomb?")
        buffer[: len(found)] = found
        return len(found)


@contextmanager
def text_of(path: Path | Traversable, errors: Literal["replace", "strict"] = "replace") -> Iterator[TextIOWrapper]:
    """The file as text, with its line ends as they are. errors: what becomes of bytes that are no UTF-8. Raises `ValueError`."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == GZIP
            file.seek(0)
            content = io.BufferedReader(_Unzipped(file)) if zipped else file
            yield TextIOWrapper(content, encoding="utf-8-sig", errors=errors, newline="")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line without its end, numbered from 1. Raises `ValueError`."""
    with text_of(path) as lines:
        for number, line in enumerate(lines, 1):
            yield number, line.rstrip("\r\n")
