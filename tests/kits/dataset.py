"""A log file, and the command on it."""

from pathlib import Path

from tests.kits.log_builder import Story
from typer.testing import CliRunner

from bailiff.audit.log_files import about_line, message_line
from bailiff.cli import app
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT


def write_log(story: Story, path: Path) -> Path:
    messages = (
        Message(AUDIT.name, 0, record.seq, record.time, None, wire.headers, wire.value)
        for record, wire in zip(story.records, story.wires, strict=True)
    )
    path.write_text(about_line(story.pool, 0) + "".join(map(message_line, messages)), encoding="utf-8")
    return path


def bailiff(*given: object):
    return CliRunner().invoke(app, [str(each) for each in given])
