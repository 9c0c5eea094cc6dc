"""Every tampering with a log, the archive or an exported file is detected, and its position is reported.

Each change is made at several positions (at every position in the long run), with the original offsets, and with offsets
adjusted as a careful attacker would.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from tests.kits.archive import Auditor, Log, archived
from tests.kits.tampering import OTHERS, OURS, Seals, flip_header, given, named, seals_of, walk_of, write_anew

from bailiff.audit.chain_report import verify
from bailiff.audit.log_files import write_log
from bailiff.audit.log_sources import from_archive, from_file
from bailiff.audit.segments import seal_to
from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_core.records import Wire
from bailiff_core.records.wire import record_hash
from bailiff_log.archive import pack_headers
from bailiff_log.chain_verifier import Verification
from bailiff_log.keys import make_private_key
from bailiff_log.seals import SealChain, VerificationFailed

Harm = Callable[[list[Message], int], list[Message]]


LAST = len(OURS) - 1
SAMPLE = [1, LAST // 2, LAST - 1, LAST]
places = pytest.mark.parametrize(
    "at", [pytest.param(at, marks=[] if at in SAMPLE else [pytest.mark.long]) for at in range(1, LAST + 1)]
)


def flip(messages: list[Message], at: int) -> list[Message]:
    value = bytearray(messages[at].value)
    value[len(value) // 2] ^= 1
    return [*messages[:at], dataclasses.replace(messages[at], value=bytes(value)), *messages[at + 1 :]]


def drop(messages: list[Message], at: int) -> list[Message]:
    return messages[:at] + messages[at + 1 :]


def insert(messages: list[Message], at: int) -> list[Message]:
    """A forged record that continues the one before it by the chain rule."""
    before = messages[at - 1]
    original = dict(before.headers)
    prev = record_hash(Wire(before.headers, before.value))
    changed = {"ce_seq": b"%d" % at, "ce_prev": prev.encode(), "ce_type": b"bailiff.audit.ClockAdvanced.v1"}
    headers = tuple((original | changed).items())
    return [*messages[:at], dataclasses.replace(before, headers=headers, value=b"{}"), *messages[at:]]


def reorder(messages: list[Message], at: int) -> list[Message]:
    return [*messages[: at - 1], messages[at], messages[at - 1], *messages[at + 1 :]]


def duplicate(messages: list[Message], at: int) -> list[Message]:
    return [*messages[: at + 1], *messages[at:]]


def truncate(messages: list[Message], at: int) -> list[Message]:
    return messages[:at]


def splice(messages: list[Message], at: int) -> list[Message]:
    """From here on the records of another log of the same pool."""
    others = [dataclasses.replace(messages[0], headers=wire.headers, value=wire.value) for wire in OTHERS]
    return messages[:at] + others[at:]


HARMS = (flip, flip_header, drop, insert, reorder, duplicate, truncate, splice, write_anew)
harms = pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Message], Seals, bytes]:
    """The log as Kafka holds it, sealed three times, the last time to its end; and the private key."""
    log = Log()
    log.append(OURS)
    private = make_private_key(tmp_path_factory.mktemp("key") / "key")
    return log.messages(), seals_of(log.messages(), private), private


def renumbered(messages: list[Message]) -> list[Message]:
    return [dataclasses.replace(message, offset=offset) for offset, message in enumerate(messages)]


def is_found(found: Verification, at: int, harm: Harm) -> None:
    if harm is duplicate and found["ok"]:  # a duplicate in the topic is harmless: any retry may cause one
        assert found["orphans_by_kind"] == {"repeat": 1}
        assert found["orphan_list"][0]["offset"] == at + 1
        return
    assert not found["ok"]
    assert named(found) & {at - 1, at, at + 1}, (at, found["broken"], found["seal_problem"])


@harms
@places
async def test_tampering_is_found_in_the_log(harm: Harm, at: int, sealed: tuple[list[Message], Seals, bytes]) -> None:
    messages, seals, _ = sealed
    is_found(await verify("pool-a", given(renumbered(harm(messages, at))), walk_of(seals)), at, harm)


@harms
@places
@pytest.mark.parametrize("careful", [False, True])
async def test_tampering_is_found_in_an_exported_file(
    harm: Harm, at: int, careful: bool, sealed: tuple[list[Message], Seals, bytes], tmp_path: Path
) -> None:
    messages, seals, _ = sealed
    harmed = renumbered(harm(messages, at)) if careful else harm(messages, at)
    file = tmp_path / "log.jsonl"
    with file.open("w") as out:
        await write_log(out, "pool-a", 0, given(harmed), [seal_to(seal) for seal in seals])
    source = from_file(file)
    is_found(await verify("pool-a", source.messages, walk_of(source.seals)), at, harm)


async def test_an_untouched_log_verifies_in_every_form(
    sealed: tuple[list[Message], Seals, bytes], database: str, tmp_path: Path
) -> None:
    messages, seals, _ = sealed
    assert (await verify("pool-a", given(messages), walk_of(seals)))["ok"]
    log = Log()
    log.append(OURS)
    async with Auditor(log, database, tmp_path, seal_records=7, seal_seconds=0.001).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == len(OURS))
    async with from_archive(database, "pool-a") as source:
        assert (await verify("pool-a", source.messages, walk_of(source.seals)))["ok"]


async def test_tampering_is_found_in_the_archive(database: str, tmp_path: Path) -> None:
    log = Log()
    log.append(OURS)
    async with Auditor(log, database, tmp_path, seal_records=7, seal_seconds=0.001).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == len(OURS))
    messages = await archived(database)
    for harm in HARMS:
        for at in (1, LAST // 2, LAST):
            await put(database, renumbered(harm(messages, at)))
            async with from_archive(database, "pool-a") as source:
                is_found(await verify("pool-a", source.messages, walk_of(source.seals)), at, harm)
    await put(database, messages)
    async with from_archive(database, "pool-a") as source:
        assert (await verify("pool-a", source.messages, walk_of(source.seals)))["ok"]


async def put(dsn: str, messages: list[Message]) -> None:
    """Change the records with write access to the database."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            rows = {row["seq"]: tuple(row) for row in await connection.fetch("SELECT * FROM records ORDER BY seq")}
            columns = [
                row["column_name"]
                for row in await connection.fetch(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = 'records' ORDER BY ordinal_position"
                )
            ]
            await connection.execute("TRUNCATE records")
            like = dict(zip(columns, rows[min(rows)], strict=True))
            new = [
                like | {"seq": seq, "offset": message.offset, "headers": pack_headers(message.headers), "value": message.value}
                for seq, message in enumerate(messages)
            ]
            await connection.copy_records_to_table(
                "records", records=[tuple(row[name] for name in columns) for row in new], columns=columns
            )
    finally:
        await connection.close()


async def test_a_history_sealed_again_with_another_key_is_found(
    sealed: tuple[list[Message], Seals, bytes], tmp_path: Path
) -> None:
    messages, seals, private = sealed
    other = await asyncio.to_thread(make_private_key, tmp_path / "key")
    anew = write_anew(messages, LAST // 2)
    theirs = seals_of(anew, other)
    ours = next(body.key for body in seals if isinstance(body, SealingKey))
    chain = SealChain("pool-a", frozenset([ours]))
    with pytest.raises(VerificationFailed, match="not a trusted key"):
        chain.take(theirs[0])
    chain = SealChain("pool-a")
    for body in seals[:2]:
        chain.take(body)
    for body in theirs:
        with pytest.raises(VerificationFailed, match=r"is not signed by it|was not the log's key"):
            chain.take(body)
    for body in seals_of(anew, private)[2:]:  # with the right key; the first seal is from before the change
        with pytest.raises(VerificationFailed, match=r"different roots|does not continue|is missing|to another log"):
            walk_of(seals).chain.take(body)


@pytest.mark.parametrize("at", [1, 2])
def test_a_seal_by_the_right_key_over_a_rewritten_log_does_not_continue_the_one_before(
    at: int, sealed: tuple[list[Message], Seals, bytes]
) -> None:
    """Even with a stolen key the earlier seals remain valid evidence."""
    messages, seals, private = sealed
    key, *ours = seals
    _, *theirs = seals_of(write_anew(messages, 1), private)
    chain = SealChain("pool-a")
    for body in (key, *ours[:at]):
        chain.take(body)
    assert isinstance(theirs[at], LogSealed)
    with pytest.raises(VerificationFailed, match="does not continue the seal over"):
        chain.take(theirs[at])
    chain.take(ours[at])
