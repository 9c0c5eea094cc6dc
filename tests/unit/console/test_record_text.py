"""Records from the archive get the same sentences as in the live view."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kits.history_files import from_lines

from bailiff_console.live.event_lines import event_lines
from bailiff_console.record_text import LISTS, with_sentences
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.wire import time_text

HISTORIES = Path(__file__).parents[2] / "histories"


def item(record: Record, wire: Wire) -> dict[str, Any]:
    """Returns the record as the query API does."""
    name = record.type.split(".")[-2]
    about = {"pool": record.pool, "seq": record.seq, "time": time_text(record.time), "cycle": record.cycle, "epoch": record.epoch}
    return {**about, "type": name, "data": json.loads(wire.value)}


@pytest.mark.parametrize("name", ["operator-requests", "borrow-and-reclaim"])
async def test_archived_records_have_the_live_sentences(name: str) -> None:
    state, items, live = PoolState(), list[dict[str, Any]](), dict[int, list[dict[str, Any]]]()
    for wire in from_lines((HISTORIES / f"{name}.jsonl").read_text()):
        record = decode(wire)
        apply(state, record)
        live[record.seq] = [json.loads(line) for line in event_lines(record, state)]
        items.append(item(record, wire))
    described = await with_sentences(items, state)
    assert [each["seq"] for each in described] == [each["seq"] for each in items]
    assert all(each["event"] for each in described)
    for each in described:
        lines = live[each["seq"]]
        if lines and each["type"] not in (
            "TaskStarted",
            "JobShrunk",
            "JobGrown",
        ):  # only the state at that seq has the number of its tasks
            assert (each["event"], each["type"]) == (lines[0]["event"], lines[0]["type"])
            assert each["message"].startswith(lines[0]["message"].partition("by ")[0].rstrip(" ;,"))
            assert all(line["message"] in each["message"] for line in lines[1:])


async def test_records_of_a_later_release_are_unchanged() -> None:
    later = {
        "pool": "pool-a",
        "seq": 1,
        "time": "2026-01-01T00:00:00Z",
        "cycle": 1,
        "epoch": 1,
        "type": "OfALaterRelease",
        "data": {},
    }
    earlier = {**later, "type": "JobPlaced", "data": {"placed": "otherwise"}}
    assert await with_sentences([later, earlier], PoolState()) == [later, earlier]


@pytest.mark.parametrize(
    ("path", "pool"),
    [
        *(("pools/pool-a/records", "pool-a"), ("pools/pool-a/jobs/train-1/timeline", "pool-a")),
        *(("pools/pool-a/nodes/n/timeline", "pool-a"), ("pools/pool-a/records/7", None), ("pools/pool-a/evictions", None)),
        ("events", None),
    ],
)
def test_only_record_lists_get_sentences(path: str, pool: str | None) -> None:
    found = LISTS.fullmatch(path)
    assert (found["pool"] if found else None) == pool
