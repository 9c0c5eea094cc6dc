"""Output to a program that has quit, as in `bailiff list | head`: it is no error, and nothing is said about it."""

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import NoReturn


def until_its_reader_quits(program: Callable[[], object]) -> NoReturn:
    """Runs the program and exits with its code; with 0 once nobody reads its output any more."""
    code: object = 0
    try:
        program()
    except BrokenPipeError:
        pass
    except SystemExit as end:
        code = 0 if isinstance(end.__context__, BrokenPipeError) else end.code  # the option parser exits with 1
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    sys.exit(code)  # type: ignore[arg-type]


def discard_output() -> None:
    """Sends what is still to be written nowhere, so that Python's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Outliving(TextIOWrapper):
    """Standard output of a program that finishes what it has begun, also when nobody reads what it says any more."""

    def write(self, text: str, /) -> int:
        """Writes the text, or discards it."""
        try:
            super().write(text)
            super().flush()
        except BrokenPipeError:
            discard_output()
        return len(text)


def finish_without_reader() -> None:
    """From here on, output that nobody reads is discarded."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout = Outliving(sys.stdout.buffer, encoding=sys.stdout.encoding, errors=sys.stdout.errors)
