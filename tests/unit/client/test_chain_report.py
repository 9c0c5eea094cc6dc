"""Chain verification of valid logs, logs with harmless orphans, and logs that were changed."""

import dataclasses
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from tests.unit.client.chains import log, message, stream
from tests.unit.client.kit import LogWriter, finished_story, quiet_story

from bailiff.audit import chain_report
from bailiff.audit.log_files import LogFile, about_line, message_line, write_log
from bailiff.client.errors import ClientError
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT
from bailiff_core.records import Wire, encode, facts, record_hash
from bailiff_log.chain_verifier import Verification


@pytest.fixture
def log_writer() -> LogWriter:
    return finished_story(LogWriter())


async def verified(messages: list[Message]) -> Verification:
    return await chain_report.verify("pool-a", stream(messages))


def changed(original: Message, old: bytes, new: bytes) -> Message:
    assert old in original.value
    return dataclasses.replace(original, value=original.value.replace(old, new))


# --- valid logs


async def test_a_valid_log(log_writer: LogWriter) -> None:
    found = await verified(log(log_writer))
    assert found["ok"]
    assert (found["records"], found["head_seq"]) == (len(log_writer.records), len(log_writer.records) - 1)
    assert found["head_hash"] == log_writer.head.hash
    assert (found["orphans"], found["broken"]) == (0, None)
    assert [(epoch["epoch"], epoch["from_seq"], epoch["writer"]) for epoch in found["epochs"]] == [(0, 0, ""), (1, 2, "writer-1")]


async def test_a_second_epoch_is_reported(log_writer: LogWriter) -> None:
    log_writer.writer("writer-2")
    found = await verified(log(log_writer))
    assert found["ok"]
    assert found["epochs"][-1] == {"epoch": 2, "writer": "writer-2", "from_seq": len(log_writer.records) - 1, "records": 1}


async def test_an_empty_log_is_an_error() -> None:
    found = await verified([])
    assert not found["ok"]
    assert found["broken"] is not None
    assert "empty" in found["broken"]["meaning"]


# --- harmless orphans


def zombie_wires(log_writer: LogWriter, count: int) -> list[Wire]:
    """Records that the current writer would have appended next."""
    wires, prev = [], log_writer.head.hash
    for at in range(count):
        record = dataclasses.replace(
            log_writer.records[-1],
            seq=log_writer.head.next_seq + at,
            prev=prev,
            time=log_writer.now,
            data=facts.ClockAdvanced(),
            type=facts.ClockAdvanced.type_name(),
        )
        wires.append(encode(record))
        prev = record_hash(wires[-1])
    return wires


async def test_a_zombie_is_harmless(log_writer: LogWriter) -> None:
    late = zombie_wires(log_writer, 3)
    log_writer.writer("writer-2")
    found = await verified([*log(log_writer), *(message(wire, 1000 + at) for at, wire in enumerate(late))])
    assert found["ok"]
    assert found["orphans_by_kind"] == {"follows-orphan": 2, "superseded": 1}
    assert [orphan["offset"] for orphan in found["orphan_list"]] == [1000, 1001, 1002]
    assert found["unexplained"] == 0


async def test_a_zombie_whose_first_records_were_lost_is_harmless(log_writer: LogWriter) -> None:
    late = zombie_wires(log_writer, 4)[2:]
    log_writer.writer("writer-2")
    found = await verified([*log(log_writer), *(message(wire) for wire in late)])
    assert found["ok"]
    assert found["orphans_by_kind"] == {"follows-orphan": 1, "old-epoch": 1}


async def test_a_repeated_record_and_foreign_bytes_are_harmless(log_writer: LogWriter) -> None:
    messages = log(log_writer)
    foreign = Message(AUDIT.name, 0, 77, 0, None, (("x", b"\xff"),), b"hello")
    other = message(encode(dataclasses.replace(log_writer.records[3], pool="pool-b", prev="0" * 64)))
    found = await verified([*messages[:10], messages[9], foreign, other, *messages[10:]])
    assert found["ok"]
    assert found["orphans_by_kind"] == {"foreign": 2, "repeat": 1}


async def test_a_writer_that_lost_the_race_to_start_is_harmless(log_writer: LogWriter) -> None:
    loser = LogWriter(cluster=log_writer.cluster)
    loser.state, loser.head, loser.records = log_writer.state, log_writer.head, list(log_writer.records)
    late_start = dataclasses.replace(
        log_writer.records[2], seq=log_writer.head.next_seq, prev=log_writer.head.hash, epoch=2, time=log_writer.now
    )
    log_writer.writer("writer-2")
    found = await verified([*log(log_writer), message(encode(late_start))])
    assert found["ok"]
    assert found["orphans_by_kind"] == {"superseded": 1}


# --- logs that were changed


Change = Callable[[list[Message]], list[Message]]

# fmt: off
CHANGES: list[tuple[str, Change, str, str]] = [
    ("a changed value", lambda log: [*log[:9], changed(log[9], b"done-1", b"done-2"), *log[10:]], "10",
     "record 9 was changed or replaced after it was written"),
    ("a missing record", lambda log: [*log[:9], *log[10:]], "10", "record 9 is missing"),
    ("several missing records", lambda log: [*log[:9], *log[14:]], "14", "records 9 to 13 are missing"),
    ("a missing beginning", lambda log: log[5:], "5", "the beginning of the log is missing"),
    ("two records in each other's place", lambda log: [*log[:9], log[10], log[9], *log[11:]], "10", "record 9 is missing"),
]
# fmt: on


@pytest.mark.parametrize(("change", "seq", "meaning"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES])
async def test_the_first_break_is_named(log_writer: LogWriter, change: Change, seq: str, meaning: str) -> None:
    found = await verified(change(log(log_writer)))
    assert not found["ok"]
    assert found["broken"] is not None
    assert found["broken"]["seq"] == seq
    assert meaning in found["broken"]["meaning"]


async def test_records_after_a_swap_are_unexplained_orphans(log_writer: LogWriter) -> None:
    messages = log(log_writer)
    found = await verified([*messages[:9], messages[10], messages[9], *messages[11:]])
    assert found["unexplained"] >= 1


async def test_a_changed_header_breaks_the_chain_at_the_next_record(log_writer: LogWriter) -> None:
    messages = log(log_writer)
    headers = tuple((name, b"mallory" if name == "ce_actor" else value) for name, value in messages[5].headers)
    assert headers != messages[5].headers
    found = await verified([*messages[:5], dataclasses.replace(messages[5], headers=headers), *messages[6:]])
    assert found["broken"] is not None
    assert found["broken"]["seq"] == "6"


async def test_a_log_that_continues_after_a_break_is_still_broken(log_writer: LogWriter) -> None:
    messages = log(log_writer)
    resumed = quiet_story(LogWriter())
    cut = len(resumed.records)
    resumed.writer("writer-2")
    found = await verified([*messages[:cut], *messages[cut + 1 :], log(resumed)[cut]])
    assert found["broken"] is not None
    assert found["records"] == cut + 1
    assert not found["ok"]


async def test_an_unreadable_value_is_a_break(log_writer: LogWriter) -> None:
    record = dataclasses.replace(
        log_writer.records[-1], seq=log_writer.head.next_seq, prev=log_writer.head.hash, time=log_writer.now
    )
    wire = dataclasses.replace(encode(record), value=b"not json")
    found = await verified([*log(log_writer), message(wire)])
    assert found["broken"] is not None
    assert "this release cannot read" in found["broken"]["meaning"]


async def test_a_value_changed_into_an_unreadable_one_is_reported_as_changed(log_writer: LogWriter) -> None:
    messages = log(log_writer)
    at = next(at for at, each in enumerate(messages) if b'"exit_code":' in each.value)
    corrupted = [*messages[:at], changed(messages[at], b'"exit_code":', b'"exit_node":'), *messages[at + 1 :]]
    found = await verified(corrupted)
    assert found["broken"] is not None
    assert (found["broken"]["seq"], found["broken"]["offset"]) == (f"{at + 1}", at + 1)
    assert f"record {at} was changed or replaced after it was written" in found["broken"]["meaning"]
    last = await verified(corrupted[: at + 1])  # without a next record the change cannot be detected
    assert last["broken"] is not None
    assert (last["broken"]["seq"], last["broken"]["meaning"]) == (
        f"{at}",
        "the chain is valid up to this record, but this release cannot read it",
    )
    assert "\n" not in last["broken"]["reason"]


# --- exported logs


async def test_an_exported_log_keeps_every_byte(log_writer: LogWriter, tmp_path: Path) -> None:
    odd = Message(AUDIT.name, 0, 1000, 5, None, (("ce_x", b"\xff\xfe"), ("ce_x", b"")), b"\x00\x80")
    messages = [*log(log_writer), odd]
    file = tmp_path / "log.jsonl"
    with file.open("w", encoding="utf-8") as out:
        assert await write_log(out, "pool-a", 0, stream(messages)) == len(messages)
    read = LogFile(file)
    assert read.pool == "pool-a"
    assert [message async for message in read.messages()] == messages
    assert await chain_report.verify("pool-a", LogFile(file).messages()) == await verified(messages)


@pytest.mark.parametrize(
    ("lines", "reason_text"),
    [
        ("", ":1: not JSON"),
        ("{}\n", ':1: expected {"bailiff_log": 1'),
        (about_line("a", 0) + "nonsense\n", ":2: not JSON"),
        (about_line("a", 0) + "[]\n", ":2: expected a JSON object"),
        (about_line("a", 0) + "{}\n", ":2: expected offset, time, headers and value"),
    ],
)
async def test_file_errors_name_the_line(tmp_path: Path, lines: str, reason_text: str) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(lines, encoding="utf-8")
    with pytest.raises(ClientError) as caught:
        [message async for message in LogFile(file).messages()]
    assert reason_text in caught.value.text


def test_an_exported_line_is_readable_json() -> None:
    original = Message(AUDIT.name, 0, 7, 5, None, (("ce_seq", b"3"),), '{"job":"ä"}'.encode())
    assert json.loads(message_line(original)) == {"offset": 7, "time": 5, "headers": [["ce_seq", "3"]], "value": '{"job":"ä"}'}
    assert "ä" in message_line(original)
    assert StringIO(message_line(original)).readline() == message_line(original)
