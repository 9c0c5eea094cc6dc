"""What the archive has of a record is told in the sentences in which it was told live."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.history_files import from_lines

from bailiff_console.live.eventlines import event_lines
from bailiff_console.told import LISTS, with_sentences
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.wire import time_text

HISTORIES = Path(__file__).parents[2] / "histories"


def item(record: Record, wire: Wire) -> dict[str, Any]:
    """As the query interface tells it."""
    name = record.type.split(".")[-2]
    about = {
        "domain": record.domain,
        "seq": record.seq,
        "time": time_text(record.time),
        "turn": record.turn,
        "epoch": record.epoch,
    }
    return {**about, "type": name, "data": json.loads(wire.value)}


@pytest.mark.parametrize("name", ["by-hand-5", "projects-borrow-and-give-back-5"])
async def test_a_record_of_the_archive_says_what_it_said_when_it_was_live(name: str) -> None:
    pool, items, live = Pool(), list[dict[str, Any]](), dict[int, list[dict[str, Any]]]()
    for wire in from_lines((HISTORIES / f"{name}.jsonl").read_text()):
        record = decode(wire)
        apply(pool, record)
        live[record.seq] = [json.loads(line) for line in event_lines(record, pool)]
        items.append(item(record, wire))
    told = await with_sentences(items, pool)
    assert [each["seq"] for each in told] == [each["seq"] for each in items]
    assert all(each["word"] for each in told)
    for each in told:
        lines = live[each["seq"]]
        if lines and each["type"] != "TaskStarted":  # which start of the job it was only the pool of that moment tells
            assert (each["word"], each["type"]) == (lines[0]["word"], lines[0]["type"])
            assert each["text"].startswith(lines[0]["text"].partition("by ")[0].rstrip(" ;,"))
            assert all(line["text"] in each["text"] for line in lines[1:])


async def test_what_this_release_does_not_know_is_left_as_it_is() -> None:
    later = {
        "domain": "pool-a",
        "seq": 1,
        "time": "2026-01-01T00:00:00Z",
        "turn": 1,
        "epoch": 1,
        "type": "OfALaterRelease",
        "data": {},
    }
    earlier = {**later, "type": "JobPlaced", "data": {"placed": "otherwise"}}
    assert await with_sentences([later, earlier], Pool()) == [later, earlier]


@pytest.mark.parametrize(
    ("path", "pool"),
    [
        ("domains/pool-a/records", "pool-a"), ("domains/pool-a/jobs/train-1/timeline", "pool-a"),
        ("domains/pool-a/nodes/n/timeline", "pool-a"), ("domains/pool-a/records/7", None), ("domains/pool-a/evictions", None),
        ("events", None),
    ],
)  # fmt: skip
def test_only_lists_of_records_are_told(path: str, pool: str | None) -> None:
    found = LISTS.fullmatch(path)
    assert (found["pool"] if found else None) == pool
