"""Commands whose output is piped to a program that has quit, as `head` and `less` do, end without a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
COMMANDS = (
    *("bailiff version", "bailiff --help", "bailiff policy --help"),
    *(
        "bailiff-job --help",
        "bailiff_devstack.updown --help",
        "bailiff_devstack.updown down --state none",
        "bailiff_devstack.demo --help",
    ),
)
UNBUFFERED = ("bailiff version", "bailiff --help", "bailiff_devstack.updown down --state none")


def closed(arguments: list[str], folder: Path, *, buffered: bool) -> tuple[int, str]:
    """Exit code, and what it says on standard error."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= {"_TYPER_FORCE_DISABLE_TERMINAL": "1"} | ({} if buffered else {"PYTHONUNBUFFERED": "1"})
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            arguments, stdout=writer, stderr=subprocess.PIPE, cwd=folder, env=environment, text=True, check=False
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("command", "buffered"), [*((each, True) for each in COMMANDS), *((each, False) for each in UNBUFFERED)])
def test_a_command_ends_without_a_word_when_its_reader_has_quit(command: str, buffered: bool, tmp_path: Path) -> None:
    program, *words = command.split()
    run = [sys.executable, "-m", program] if program.startswith("bailiff_") else [str(Path(sys.executable).parent / program)]
    assert closed([*run, *words], tmp_path, buffered=buffered) == (0, "")


def test_a_code_that_says_no_stays_when_the_reader_has_quit(tmp_path: Path) -> None:
    status = [sys.executable, "-m", "bailiff_devstack.updown", "status", "--state", str(tmp_path / "none")]
    assert closed(status, tmp_path, buffered=True) == (3, "")
