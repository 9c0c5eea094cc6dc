"""After an accepted truncation an operator lets the archive resume: lost records are kept, seals and views follow the log."""

import json
from pathlib import Path

import pytest
from tests.kits.archive import Auditor, Log, archived, displaced, query
from tests.kits.log_builder import Story

from bailiff.audit.chain_report import verify
from bailiff.audit.forks import order
from bailiff.audit.log_files import write_log
from bailiff.audit.log_sources import from_archive, from_file
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.segments import seal_to
from bailiff.audit.verify import verified
from bailiff.audit.verify_derived import derived
from bailiff.client.errors import ClientError
from bailiff_bus import topics
from bailiff_bus.messages.seals import SealsInvalidated
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier
from bailiff_log.keys import make_private_key
from bailiff_log.seals import SealChain, SealVerifier, VerificationFailed, parse_seal

LOST = 6


async def given(messages):
    for message in messages:
        yield message


def chain_of(bodies) -> SealChain:
    chain = SealChain("pool-a")
    for body in bodies:
        chain.take(body)
    return chain


def cut(log: Log, story: Story) -> Story:
    """Truncates the log and continues it with other records."""
    keep = len(story.wires) - LOST
    log.cluster.truncate(topics.AUDIT.name, 0, keep)
    left = story.resumed(keep)
    left.restart(after=1_000_000)
    for number in range(4):
        left.submit(f"later-{number}")
    log.append(left.wires[keep:])
    return left


async def test_lost_records_become_a_fork_and_the_archive_follows_the_log_again(database: str, tmp_path: Path) -> None:
    log, (story, _), key = Log(), displaced(), tmp_path / "key"
    make_private_key(key)
    often = {"seal_key": key, "seal_records": 4, "seal_seconds": 3600, "usage_seconds": 1}
    log.append(story.wires)
    before = log.messages()
    async with Auditor(log, database, tmp_path / "a", **often).running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(story.wires) - 1)
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == len(story.wires) // 4 * 4)
        with pytest.raises(ClientError, match="has not found"):
            await order(database, None, "none", "op-1")
    first = len(story.wires) - LOST
    left = cut(log, story)
    async with Auditor(log, database, tmp_path / "b", **often).running() as stopped:
        await stopped.until("the alarm", log.alarms)
    assert await archived(database) == before  # nothing changes before the command
    assert (await order(database, None, "a disk died", "op-1"))["head_seq"] == len(story.wires) - 1

    async with Auditor(log, database, tmp_path / "c", **often).running() as going:
        await going.until("the archive follows the log", lambda: going.value("bailiff_archive_head_seq") == len(left.wires) - 1)
        await going.until("it seals again", lambda: going.value("bailiff_sealed_records") == len(left.wires) // 4 * 4)
        await going.until("it is ready", lambda: not any(going.service.readiness().values()))
    assert log.alarms() == ["archive-log-lost", "archive-forked"]
    assert await archived(database) == log.messages()
    rows = await query(database, "SELECT seq, headers, value FROM fork_records ORDER BY seq")
    assert [row["value"] for row in rows] == [message.value for message in before[first:]]
    (fork,) = await query(database, "SELECT * FROM forks")
    assert (fork["from_seq"], fork["head_seq"], fork["reason"], fork["ordered_by"]) == (
        first,
        len(before) - 1,
        "a disk died",
        "op-1",
    )
    assert (await derived(database, None)).differences == []

    bodies = [body for message in log.seals() if (body := parse_seal(message, "pool-a")) is not None]
    found = await verify("pool-a", given(log.messages()), SealVerifier(chain_of(bodies)))
    assert (found["ok"], len(found["forked"])) == (True, 1)
    assert f"#{first}" in found["forked"][0]
    assert "a disk died" in found["forked"][0]
    assert found["sealed"] == len(left.wires) // 4 * 4
    async with from_archive(database, None) as source:
        assert list(source.seals) == bodies
        assert (await verified(source, [bodies[0].key]))["ok"]
    file, folder = tmp_path / "log.jsonl", tmp_path / "kept"  # later exports contain the fork, too
    with file.open("w") as out:
        await write_log(out, "pool-a", 0, given(log.messages()), [*map(seal_to, bodies)])
    await write_segments(folder, 8, ChainHead("pool-a"), Frontier(), 0, given(log.messages()), bodies)
    for path, lost in ((file, 1), (folder, 0)):
        kept = await verified(from_file(path), [bodies[0].key])
        assert (kept["ok"], len(kept["forked"])) == (True, lost), kept["seal_problem"]

    (aside,) = [body for body in bodies if isinstance(body, SealsInvalidated)]
    at = bodies.index(aside)
    for changed in (
        {"size": aside.size - 4},
        {"from_seq": 1},
        {"reason": "x"},
        {"invalidated_size": aside.invalidated_size - 4},
        {"key": "A" * 43},
    ):
        with pytest.raises(VerificationFailed, match="invalidation"):
            chain_of([*bodies[:at], SealsInvalidated.model_validate_json(json.dumps(aside.to_data() | changed))])
    with pytest.raises(
        VerificationFailed, match=r"different roots|does not continue"
    ):  # without the invalidation the seals do not match
        chain_of([*bodies[:at], *bodies[at + 1 :]])

    # Killed between publishing and storing it: the next auditor finds it and does not publish it again.
    invalidated_at = next(
        message.offset for message in log.seals() if isinstance(parse_seal(message, "pool-a"), SealsInvalidated)
    )
    log.cluster.truncate(topics.SEALS.name, 0, invalidated_at + 1)
    await query(database, 'DELETE FROM seals WHERE "offset" > $1', invalidated_at)
    await query(database, 'UPDATE forks SET data = NULL, "offset" = NULL')
    await query(database, "UPDATE pools SET seals_offset = 0")
    async with Auditor(log, database, tmp_path / "d", **often).running() as again:
        await again.until("it seals again", lambda: again.value("bailiff_sealed_records") == len(left.wires) // 4 * 4)
    assert log.alarms() == ["archive-log-lost", "archive-forked"]
    published = [parse_seal(message, "pool-a") for message in log.seals()]
    assert [type(body) for body in published] == [type(body) for body in bodies]


async def test_another_log_is_never_followed(database: str, tmp_path: Path) -> None:
    log, other, (story, _) = Log(), Log(), displaced()
    log.append(story.wires)
    async with Auditor(log, database, tmp_path / "a").running() as auditor:
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(story.wires) - 1)
    before = await archived(database)
    strange = Story(pool="pool-a")
    strange.node("elsewhere", gpus=2)
    other.append(strange.wires)
    for name in ("b", "c"):
        async with Auditor(other, database, tmp_path / name).running() as auditor:
            await auditor.until("the alarm", other.alarms)
        await order(database, None, "whatever", "op-1")
    assert set(other.alarms()) == {"archive-log-lost"}
    assert await archived(database) == before
    assert await query(database, "SELECT * FROM forks") == []
