"""`bailiff audit export --segment`: whether there is a folder afterwards, and what the command says."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.kits.cosigned_log import SealedLog, story
from tests.unit.client.chains import messages
from typer.testing import CliRunner, Result

from bailiff.audit.log_files import write_log
from bailiff.audit.segments import MANIFEST, seal_to
from bailiff.cli import app
from bailiff.client.errors import ExitCode

WIRES = story("ours")
END = len(WIRES)


def exported(file: Path, sizes: tuple[int, ...]) -> Path:
    """The log as one file, with seals over its first records."""
    seals = [seal_to(each) for each in SealedLog(WIRES, sizes).seals] if sizes else []
    with file.open("w", encoding="utf-8") as out:
        asyncio.run(write_log(out, "pool-a", 0, messages(WIRES), seals, []))
    return file


def export(folder: Path, size: int, log: Path) -> Result:
    return CliRunner().invoke(app, ["audit", "export", str(folder), "--segment", str(size), "--file", str(log)])


@pytest.mark.parametrize(
    ("size", "sizes", "why"),
    [
        (100_000, (END,), f"its newest seal covers {END} records"),
        (END, (END - 1,), f"its newest seal covers {END - 1} records"),
        (100_000, (), f"it has {END} records"),
    ],
)
def test_a_log_too_short_for_a_segment_leaves_no_folder_and_no_exit_code_of_success(
    tmp_path: Path, size: int, sizes: tuple[int, ...], why: str
) -> None:
    log = exported(tmp_path / "log.jsonl", sizes)
    said = export(tmp_path / "kept", size, log)
    assert said.exit_code == ExitCode.NOT_FOUND, said.output
    text = " ".join(said.output.split())
    assert f"pool-a has no whole segment of {size} records yet" in text
    assert why in text
    assert not (tmp_path / "kept").exists()


def test_an_export_with_nothing_new_says_so_and_changes_nothing(tmp_path: Path) -> None:
    log, kept = exported(tmp_path / "log.jsonl", (4, END)), tmp_path / "kept"
    assert f"{END // 4} new segments of 4 records of pool-a" in export(kept, 4, log).output
    before = json.loads((kept / MANIFEST).read_text())
    again = export(kept, 4, log)
    assert again.exit_code == ExitCode.DONE
    assert "0 new segments of 4 records of pool-a" in again.output
    assert json.loads((kept / MANIFEST).read_text()) == before
