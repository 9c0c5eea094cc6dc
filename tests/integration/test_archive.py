"""The auditor on a real PostgreSQL: what it archives, where it goes on, what it refuses, and what people can read."""

from pathlib import Path

import pytest
from tests.archive_kit import Auditor, Log, archived, query
from tests.history_files import from_lines
from tests.log_builder import Story

from bailiff.walk import replay, verify
from bailiff_bus.port import Message
from bailiff_core.records import Wire

HISTORIES = Path(__file__).parents[1] / "histories"


def history(name: str) -> list[Wire]:
    return from_lines((HISTORIES / f"{name}.jsonl").read_text())


async def given(messages: list[Message]):
    for message in messages:
        yield message


def busy() -> Story:
    """Two jobs on one node; a third displaces one of them, which comes back."""
    story = Story(domain="pool-a")
    story.node("n1", gpus=2)
    for name in ("train-1", "train-2"):
        story.submit(name, gpus=1, cls="train", project="research", user="u-7")
        story.started(name)
    story.submit("serve-1", gpus=1, cls="inference")
    return story


async def test_the_archive_holds_every_byte_and_goes_on_where_it_stopped(database: str, tmp_path: Path) -> None:
    wires, log = busy().wires, Log()
    log.append(wires[:7])
    async with Auditor(log, database, tmp_path / "a").running() as auditor:
        await auditor.until("the first records are archived", lambda: auditor.value("bailiff_archived_records_total") == 7)
    log.append(wires[7:])
    async with Auditor(log, database, tmp_path / "b").running() as other:
        await other.until("the rest is archived", lambda: other.value("bailiff_archive_head_seq") == len(wires) - 1)
        assert other.value("bailiff_archived_records_total") == len(wires) - 7
    found = await archived(database)
    assert found == log.messages()
    assert (await verify("pool-a", given(found)))["ok"]
    assert (await replay("pool-a", given(found)))["ok"]


@pytest.mark.parametrize("name", sorted(path.stem for path in HISTORIES.glob("*.jsonl")))
async def test_every_recorded_history_can_be_archived(name: str, database: str, tmp_path: Path) -> None:
    wires = history(name)
    log = Log(dict(wires[0].headers)["ce_domain"].decode())
    log.append(wires)
    async with Auditor(log, database, tmp_path).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
    assert await archived(database, log.domain) == log.messages()
    for view in ("decisions", "facts", "job_list", "attempt_list", "eviction_list", "node_list", "requests_by_people"):
        await query(database, f"SELECT * FROM {view}")
