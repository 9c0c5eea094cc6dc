"""docs/how-to/plan.md: the output of each example equals the page.

`python -m tests.unit.client.test_plan_docs` rewrites the outputs in the page.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.client.plan_page import FILE, PAGE
from typer.testing import CliRunner

from bailiff.cli import app

OUTPUT = re.compile(r"(<!-- output -->\n```console\n\$ bailiff (.*?)\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)


def printed(command: str) -> str:
    """Output of the command on both streams, as the page shows it."""
    found = CliRunner(env={"COLUMNS": "110"}).invoke(app, shlex.split(command))
    return "\n".join(line.rstrip() for line in found.output.splitlines()) + "\n"


def write_files(folder: Path) -> None:
    for name, text in FILE.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).write_text(text, encoding="utf-8")


def examples() -> Iterator[tuple[str, str]]:
    for match in OUTPUT.finditer(PAGE.read_text(encoding="utf-8")):
        yield match[2], match[3]


@pytest.mark.parametrize(("command", "shown"), list(examples()), ids=[command for command, _ in examples()])
def test_the_page_shows_what_the_command_prints(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert printed(command) == shown


if __name__ == "__main__":
    import tempfile

    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        os.chdir(folder)
        PAGE.write_text(OUTPUT.sub(lambda match: match[1] + printed(match[2]) + match[4], page), encoding="utf-8")
